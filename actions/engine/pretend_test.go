package engine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// The tests of whole builds run the toolkit of cmd/internal/pretend: a compile takes milliseconds,
// and an input that was missed shows as other bytes.

var toolsDir string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kbuild-remote" {
		pretendRemote()
		return
	}
	tooltest.Normalize()
	dir, err := os.MkdirTemp("", "engine-")
	if err != nil {
		panic(err)
	}
	// A compiler's libraries are looked for beside its folder, which must not be /tmp itself.
	toolsDir = filepath.Join(dir, "bin")
	if err := os.Mkdir(toolsDir, 0o777); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// pretendTools builds the toolkit in two versions, pretend-1 and pretend-2 in toolsDir.
var pretendTools = sync.OnceValue(func() error {
	const dir = "../../cmd/internal/pretend"
	files, _ := filepath.Glob(dir + "/*.go")
	shared, _ := filepath.Glob(dir + "/devcode/*.go")
	for _, f := range append(files, shared...) {
		os.Stat(f) // go test gives an old result again as long as the files that the test looked at are as they were
	}
	one, two := filepath.Join(toolsDir, "pretend-1"), filepath.Join(toolsDir, "pretend-2")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", one, dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	text, err := os.ReadFile(one)
	if err == nil {
		err = os.WriteFile(filepath.Join(toolsDir, "link.stub"), []byte("#include REGISTERLINKBINARYFILE\n#include FATBINFILE\nregister all\n"), 0o666)
	}
	if err == nil {
		err = os.WriteFile(two, append(text, "2\n"...), 0o777)
	}
	for err == nil { // a view wants tools that are older than the build, by a tick of the file system's clock
		var st cache.Stat
		if st, err = cache.StatFile(two); st.Before(time.Now()) {
			break
		}
	}
	return err
})

// project is a project with its own cache and tools.
type project struct {
	t         *testing.T
	dir, bin  string
	workspace func(*Workspace) // changes that of the builds to come
}

// newProject has files, by name, and at least a manifest.
func newProject(t *testing.T, files map[string]string) *project {
	t.Helper()
	if err := pretendTools(); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	p := &project{t: t, dir: filepath.Join(base, "project"), bin: filepath.Join(base, "toolkit", "bin"), workspace: func(*Workspace) {}}
	if err := os.MkdirAll(p.bin, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"PATH": p.bin + ":" + os.Getenv("PATH"), "HOME": base, "MAKEFLAGS": "", "CUDA_HOME": "", "CUDA_PATH": "",
		"CPATH": "", "LIBRARY_PATH": "", "GOMAXPROCS": "1", "KBUILD_VAR_def": "1"} {
		t.Setenv(name, value)
	}
	if err := os.Symlink(filepath.Join(toolsDir, "link.stub"), filepath.Join(p.bin, "link.stub")); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "g++", "gcc", "ar"} {
		p.useTool(tool, "1")
	}
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

// useTool makes a tool that of a version.
func (p *project) useTool(tool, version string) {
	p.t.Helper()
	name := filepath.Join(p.bin, tool)
	os.Remove(name)
	if err := os.Symlink(filepath.Join(toolsDir, "pretend-"+version), name); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) path(name string) string { return filepath.Join(p.dir, name) }

func (p *project) write(name, text string) {
	p.t.Helper()
	write(p.t, p.path(name), text)
}

func (p *project) remove(name string) {
	p.t.Helper()
	if err := os.RemoveAll(p.path(name)); err != nil {
		p.t.Fatal(err)
	}
}

// replace replaces a part of a file, which is there once.
func (p *project) replace(name, old, by string) {
	p.t.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil || strings.Count(string(text), old) != 1 {
		p.t.Fatalf("%s does not hold %q once: %v", name, old, err)
	}
	p.write(name, strings.Replace(string(text), old, by, 1))
}

// files are all files in the build tree but those of kbuild's own folder.
func (p *project) files() (names []string) {
	filepath.WalkDir(p.path("build"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.Name() == ".kbuild" {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			rel, _ := filepath.Rel(p.path("build"), name)
			names = append(names, rel)
		}
		return nil
	})
	return names
}

// build builds targets, as kbuild does for a command line without options.
func (p *project) build(targets ...string) *ui { return p.watch(&ui{}, targets...) }

// watch is build with a front that does something meanwhile.
func (p *project) watch(f *ui, targets ...string) *ui {
	w := p.newWorkspace(f)
	f.sum, f.err = w.Build(Request{Targets: targets, AllowIncremental: true})
	return f
}

func (p *project) newWorkspace(f *ui) *Workspace {
	env := func(name string) (string, bool) {
		if name == manifest.EnvPrefix+"def" {
			f.plans++ // every reading of the manifest asks for it once
		}
		return os.LookupEnv(name)
	}
	w := New(Options{Env: os.Environ(), Manifest: manifest.Options{Dir: p.dir, Env: env, Environ: os.Environ(), Version: "test"},
		CacheDir: filepath.Join(filepath.Dir(p.dir), "cache"), CacheSize: 1 << 30, Begun: time.Now()}, f)
	p.workspace(w)
	return w
}

// expect holds a build to what it should be, see front.String.
func (p *project) expect(what string, f *ui, want string) {
	p.t.Helper()
	if got := f.String(); got != want {
		p.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// ui is what was told of one build, and what it came to.
type ui struct {
	printed  []string // by Say and Note
	warned   []string // summaries of diagnostics
	plans    int
	way      string // how the build found out what to look at: "view", "part" or "plan"
	looked   map[string]sched.Result
	settled  int // actions that are up to date by the view alone
	finishes int // how often the end was told

	sum sched.Summary
	err error

	begun    func()
	opened   func(*Tree)
	say      func(text string)
	finished func(output string)
	stop     context.CancelFunc
	run      *Run // as the engine left it
}

func (f *ui) Enter() {}
func (f *ui) Say(text string) {
	f.printed = append(f.printed, text)
	if f.say != nil {
		f.say(text)
	}
}
func (f *ui) Waiting(string)   {}
func (f *ui) Note(text string) { f.printed = append(f.printed, text) }

func (f *ui) Diagnose(all manifest.Diagnostics) {
	for _, d := range all {
		f.warned = append(f.warned, d.Summary)
	}
}

func (f *ui) UpToDate(actions int) { f.way, f.settled = "view", actions }

func (f *ui) Begin(t *Tree, want []graph.ActionID) *Run {
	f.way, f.looked = "plan", map[string]sched.Result{}
	if t.Runner.Outer != nil {
		f.way = "part"
	}
	ctx, stop := context.WithCancel(context.Background())
	if f.stop = stop; f.begun != nil {
		f.begun()
	}
	f.run = &Run{Context: ctx, Options: sched.Options{Jobs: 1}, Display: display{f}}
	if f.opened != nil {
		f.opened(t)
	}
	return f.run
}

// display shows a run of a ui.
type display struct{ *ui }

func (d display) Diagnose(diag manifest.Diagnostic) { d.ui.Diagnose(manifest.Diagnostics{diag}) }
func (d display) Finish(sched.Summary)              { d.finishes++ }
func (d display) Close()                            { d.stop() }

func (f *ui) Start(int)             {}
func (f *ui) Started(*graph.Action) {}

func (f *ui) Finished(a *graph.Action, r sched.Result, _, _ int) {
	out := strings.TrimPrefix(a.Outputs[0], "build/")
	f.looked[out] = r
	if f.finished != nil {
		f.finished(out)
	}
}

// String is the way that a build took and how its actions ended: "plan: ran obj/a.o bin/app". Of a
// plan, which looks at all actions, those that are up to date are not named.
func (f *ui) String() string {
	ended := map[sched.Status][]string{}
	for out, r := range f.looked {
		if f.way == "part" || r.Status != sched.UpToDate {
			ended[r.Status] = append(ended[r.Status], out)
		}
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(ended)) {
		slices.Sort(ended[status])
		parts = append(parts, fmt.Sprintf("%s %s", status, strings.Join(ended[status], " ")))
	}
	text := f.way + ":"
	if len(parts) > 0 {
		text += " " + strings.Join(parts, "; ")
	}
	if f.err != nil {
		text += " error " + f.err.Error()
	}
	if (f.way == "plan") != (f.plans == 1) {
		text += fmt.Sprintf(" (%d plans)", f.plans)
	}
	return text
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
