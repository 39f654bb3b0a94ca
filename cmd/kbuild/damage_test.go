package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

const statesManifest = `generate "tables" {
  command = ["cp", "data/in", self.outputs[0]]
  inputs  = ["data/in"]
  outputs = ["tables.h"]
}

library "k" {
  includes = ["inc"]
  sources  = ["a.cu", "b.cu"]
  code     = ["sm_80", "sm_90"]
  mode     = "rdc"
  deps     = [generate.tables]
}

executable "app" {
  includes = ["inc"]
  sources  = concat(["main.cpp"], glob("src/*.cpp"))
  deps     = [library.k]
}

executable "solo" {
  sources = ["solo.cpp"]
}
`

// statesProject is a project whose sources go through a few states, with a cache of its own.
type statesProject struct {
	editedProject
	cache string
	state int
	want  []map[string]string // outputs of each state, built from nothing
}

// newStatesProject has some sources besides those that change, and learns what is right: each state
// is built in a folder of its own, without a cache.
func newStatesProject(t *testing.T, states, sources int) *statesProject {
	p := &statesProject{editedProject: editedProject{t: t, dir: t.TempDir(), rng: rand.New(rand.NewPCG(1, 2))}, cache: t.TempDir()}
	t.Setenv("KBUILD_CACHE_DIR", p.cache)
	t.Setenv("MAKEFLAGS", "")
	p.write("kernels.hcl", statesManifest)
	p.write("a.cu", "#include \"a.h\"\n#include \"tables.h\"\n#warning careful\n")
	for i := range sources {
		p.write(fmt.Sprintf("src/f%d.cpp", i), fmt.Sprintf("#include \"b.h\"\nint f%d;\n", i))
	}
	p.write("inc/b.h", "int b;\n")
	for n := range states {
		p.turn(n)
		p.want = append(p.want, p.fromNothing())
	}
	return p
}

// turn puts the sources into a state. An odd one differs from the one before it in one file.
func (p *statesProject) turn(n int) {
	p.state = n
	p.write("solo.cpp", fmt.Sprintf("int solo%d;\n", n))
	p.write("main.cpp", fmt.Sprintf("#include \"a.h\"\nint main%d;\n", n/2))
	p.write("inc/a.h", fmt.Sprintf("int a%d;\n", n/2))
	p.write("b.cu", fmt.Sprintf("int b%d;\n", n/2))
	p.write("data/in", fmt.Sprintf("int table%d;\n", n/2))
}

func (p *statesProject) fromNothing() map[string]string {
	p.t.Helper()
	other := filepath.Join(p.t.TempDir(), "other")
	if err := os.CopyFS(other, os.DirFS(p.dir)); err != nil {
		p.t.Fatal(err)
	}
	var out bytes.Buffer
	if status := Main([]string{"-C", other, "--no-cache"}, &out, &out); status != 0 {
		p.t.Fatalf("from nothing kbuild ends with %d:\n%s", status, &out)
	}
	return outputs(p.t, other)
}

// outputs are the files of a build tree that are not kbuild's own.
func outputs(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	build := os.DirFS(filepath.Join(dir, "build"))
	err := fs.WalkDir(build, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".kbuild" {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		text, err := fs.ReadFile(build, name)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// right builds and holds the outputs against those from nothing.
func (p *statesProject) right(after string) {
	p.t.Helper()
	status, printed := p.build()
	if status != 0 {
		p.t.Fatalf("after %s kbuild ends with %d:\n%s", after, status, printed)
	}
	got := outputs(p.t, p.dir)
	for name, want := range p.want[p.state] {
		if got[name] != want {
			p.t.Fatalf("after %s %s holds %q, from nothing %q; kbuild said\n%s", after, name, got[name], want, printed)
		}
	}
}

// edit goes to another state or stays, with or without outputs, and builds.
func (p *statesProject) edit(after string) {
	p.t.Helper()
	next := p.rng.IntN(len(p.want))
	if p.rng.IntN(2) == 0 {
		next = p.state ^ 1 // one file
	}
	p.turn(next)
	if p.rng.IntN(3) == 0 {
		removeOutputs(p.dir)
	}
	p.right(after)
}

// removeOutputs leaves kbuild's own files.
func removeOutputs(dir string) {
	all, _ := filepath.Glob(filepath.Join(dir, "build/*"))
	for _, name := range all {
		if filepath.Base(name) != ".kbuild" {
			os.RemoveAll(name)
		}
	}
}

// stateFiles are kbuild's own files by kind: those of the cache and those of a build tree.
func stateFiles(t *testing.T, folders ...string) map[string][]string {
	t.Helper()
	kinds := map[string][]string{}
	for _, top := range folders {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				rel, _ := filepath.Rel(top, name)
				kind := hexName.ReplaceAllString(rel, "*")
				kinds[kind] = append(kinds[kind], name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return kinds
}

var hexName = regexp.MustCompile(`\b([0-9a-f]{2}/)?[0-9a-f]{12,}(\.[0-9a-f]{64})?`)

// kindsOfState are all files that kbuild writes for itself.
var kindsOfState = []string{"last.json", "lock", "outputs-*", "tree.db", "tools/*.trace", "v2/CACHEDIR.TAG", "v2/blobs/*", "v2/counters", "v2/gc", "v2/records/*"}

// TestDamagedState damages kbuild's own files one after the other, and builds after each. They are
// only a memory: a damaged one costs time, never a failure or a wrong output.
func TestDamagedState(t *testing.T) {
	p := newStatesProject(t, 4, 12)
	p.write("many.hcl", manyActions())
	twin := &statesProject{editedProject: p.editedProject}
	twin.dir = filepath.Join(t.TempDir(), "twin")
	if err := os.CopyFS(twin.dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	twin.write("src/f0.cpp", "int other;\n")
	twin.build()
	donors := stateFiles(t, filepath.Join(twin.dir, "build/.kbuild"))
	for _, kind := range kindsOfState {
		for how := range map[bool]int{false: 1, true: len(e2e.Damages)}[tooltest.All()] {
			p.damaged(kind, how, donors[kind])
		}
	}
	for kind, names := range stateFiles(t, p.cache, filepath.Join(p.dir, "build/.kbuild")) {
		if !slices.Contains(kindsOfState, kind) {
			t.Errorf("no test damages a file such as %s", names[0])
		}
	}
}

// damaged makes a file of a kind, damages it and builds.
func (p *statesProject) damaged(kind string, how int, donors []string) {
	p.t.Helper()
	var files []string
	for try := 0; len(files) == 0; try++ {
		if try == 20 {
			p.t.Fatalf("there never is a %s", kind)
		}
		if kind == "tree.db" {
			p.build("-f", "many.hcl")
		}
		p.turn(p.state ^ 1)
		p.right("a small edit")
		files = stateFiles(p.t, p.cache, filepath.Join(p.dir, "build/.kbuild"))[kind]
	}
	pick := func(list []string) string { return list[p.rng.IntN(len(list))] }
	name := pick(files)
	e2e.Damage(p.t, p.rng, name, pick(append(donors, files...)), how)
	after := fmt.Sprintf("%s in %s", e2e.Damages[how].Name, name)
	p.edit(after)
	p.right(after + " and a build")
}

// manyActions are so many that a database gets an index.
func manyActions() string {
	var b strings.Builder
	for i := range 510 {
		fmt.Fprintf(&b, "generate \"many%d\" {\n  command = [\"touch\", self.outputs[0]]\n  outputs = [\"x\"]\n}\n", i)
	}
	return b.String()
}
