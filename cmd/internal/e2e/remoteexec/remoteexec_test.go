// Package remoteexec_test builds with the help of other machines: a real server of the Remote
// Execution API on this one, with workers that show what they are given and what they read besides.
package remoteexec_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// gate is a file of a project at which a build waits with all that this machine may run at once.
type gate struct {
	t    *testing.T
	file string
	fifo *os.File
	once sync.Once
}

func newGate(t *testing.T, p *e2e.Project, name string) *gate {
	t.Helper()
	g := &gate{t: t, file: filepath.Join(p.Dir, name)}
	if err := os.Remove(g.file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(g.file, 0o666); err != nil {
		t.Fatal(err)
	}
	var err error
	if g.fifo, err = os.OpenFile(g.file, os.O_RDWR, 0); err != nil { // for reading too: it need not wait for the reader
		t.Fatal(err)
	}
	guard := time.AfterFunc(5*time.Minute, g.open) // where nothing goes elsewhere the test is to fail, and not to wait for ever
	t.Cleanup(func() {
		guard.Stop()
		g.fifo.Close()
	})
	return g
}

func (g *gate) open() {
	g.once.Do(func() {
		if _, err := g.fifo.WriteString("open\n"); err != nil {
			g.t.Error(err)
		}
	})
}

// remove makes it a file as any other, which holds nobody up.
func (g *gate) remove() {
	g.t.Helper()
	if err := os.Remove(g.file); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(g.file, []byte("open\n"), 0o666); err != nil {
		g.t.Fatal(err)
	}
}

// tool is what a command runs: "cicc". Before it are the loader and its options.
func tool(c *re.Command) string { return filepath.Base(c.GetArguments()[4]) }

// gates are those of a project, which open when another machine has run a command, of whatever
// kind: which ones go there is for kbuild to say.
type gates struct {
	early, late *gate
	mu          sync.Mutex
	ran         map[string]int
}

func newGates(t *testing.T, p *e2e.Project) *gates {
	t.Helper()
	return &gates{early: newGate(t, p, "early"), late: newGate(t, p, "late"), ran: map[string]int{}}
}

// note counts a command that has ended on another machine.
func (g *gates) note(c *re.Command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ran[tool(c)]++
	g.early.open()
	g.late.open()
}

// passing runs commands as they should be, with gates that it opens in time.
func (g *gates) passing(j *job) (*re.ActionResult, error) {
	r, err := j.Run()
	if err == nil {
		g.note(j.Command)
	}
	return r, err
}

// files are those of a build tree, but for kbuild's own.
func files(t *testing.T, build string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(build, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".kbuild" {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			all[strings.TrimPrefix(name, build+"/")], err = os.ReadFile(name)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d files in %s: %v", len(all), build, err)
	}
	return all
}

// same compares two build trees.
func same(t *testing.T, got, want map[string][]byte) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Errorf("the files %q, and here %q", g, w)
	}
	for name := range got {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s is not the same (%d and %d bytes)", name, len(got[name]), len(want[name]))
		}
	}
}

// built is what one build did.
type built struct {
	status            int
	messages          map[string]string // of actions that said something, by kind and name: what two architectures say is told of the first
	elsewhere         int               // actions that used what another machine made
	warnings          []string
	actions, upToDate int
}

var summary = regexp.MustCompile(`remote execution: (\d+) actions`)

// build runs kbuild, which may fail.
func build(p *e2e.Project, args ...string) built {
	p.T.Helper()
	out, printed, status := p.Fails(append([]string{"--json"}, args...)...)
	b := built{status: status, messages: map[string]string{}}
	if status > 1 {
		p.T.Logf("exit status %d: %s", status, printed)
	}
	if m := summary.FindStringSubmatch(printed); m != nil {
		b.elsewhere, _ = strconv.Atoi(m[1])
	}
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "warning: ") {
			b.warnings = append(b.warnings, strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(out) {
		var e struct {
			Event, Kind, Name, Status, Output, Error, Summary string
			Archs                                             []string
			Actions, Up_to_date                               int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.T.Fatalf("%v: %s", err, line)
		}
		switch {
		case e.Event == "diagnostic":
			b.warnings = append(b.warnings, e.Summary)
		case e.Event == "action_finished" && e.Output+e.Error != "":
			b.messages[e.Kind+" "+e.Name] = e.Status + "\n" + e.Output + e.Error
		case e.Event == "finished":
			b.actions, b.upToDate = e.Actions, e.Up_to_date
		}
	}
	return b
}

// elsewhere are the options of a build that runs what it can on other machines, and the rest here,
// one by one. It leaves nothing on the server that another build could take.
func elsewhere(farm *server, args ...string) []string {
	return append([]string{"-j1", "--remote", farm.Address, "--remote-exec", "--remote-read-only"}, args...)
}

// What other machines make is what this one makes, and so is what they say. They read nothing that
// was not sent to them.
func TestSame(t *testing.T) {
	tooltest.Broad(t)
	all := tooltest.Toolkits(t)
	if len(all) > 2 {
		all = []tooltest.Toolkit{all[0], all[len(all)-1]}
	}
	for i, tk := range all {
		t.Run(tk.Release, func(t *testing.T) {
			local := e2e.Unpack(t, "project")
			local.Use(tk)
			here := build(&local)
			if here.status != 0 || here.elsewhere != 0 || !strings.Contains(here.messages["cicc src/plain.cu"], `"unused"`) {
				t.Fatalf("here: %+v", here)
			}
			for name, outside := range map[string]bool{"build": false, "a build tree outside of the project": true} {
				if outside && i > 0 {
					continue
				}
				t.Run(name, func(t *testing.T) {
					p, farm := local.Checkout(t, "another", "check out"), shared.take(t)
					g, dir := newGates(t, p), filepath.Join(p.Dir, "build")
					if outside {
						dir = filepath.Join(t.TempDir(), "out side")
					}
					startTraced(t, farm, 2, g.passing)
					there := build(p, elsewhere(farm, "--build-dir", dir)...)
					if there.status != 0 || there.elsewhere < 1 || len(there.warnings) > 0 {
						t.Errorf("%+v", there)
					}
					if !maps.Equal(there.messages, here.messages) {
						t.Errorf("it says %q, and here %q", there.messages, here.messages)
					}
					same(t, files(t, dir), files(t, filepath.Join(local.Dir, "build")))
					if b := build(p, elsewhere(farm, "--build-dir", dir)...); b.status != 0 || b.upToDate != b.actions {
						t.Errorf("a second build: %+v", b)
					}
					if outside { // what passes hand to each other too; once, for the time that it takes
						g.early.remove()
						g.late.remove()
						p.Run("kbuild", "-j2", "--build-dir", dir, "cache", "verify", "--rebuild")
					}
					t.Logf("elsewhere: %d of %d, %v", there.elsewhere, there.actions, g.ran)
				})
			}
		})
	}
}
