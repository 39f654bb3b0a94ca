package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
)

const partialManifest = `variable "n" {
  type    = string
  default = "1"
}

generate "tables" {
  command = ["cp", "data/in", self.outputs[0]]
  inputs  = ["data/in"]
  outputs = ["tables.h"]
}

library "one" {
  includes = ["inc/first", "inc"]
  sources  = glob("one/*.cpp")
}

library "two" {
  includes = ["inc/first", "inc"]
  sources  = glob("two/*.cpp")
}

executable "app" {
  includes = ["inc/first", "inc"]
  defines  = { N = var.n }
  sources  = ["main.cpp"]
  deps     = [library.one, library.two]
}
`

// project is a tree that random edits are made in.
type editedProject struct {
	t   *testing.T
	dir string
	rng *rand.Rand
}

func (p *editedProject) write(name, text string) {
	p.t.Helper()
	write(p.t, filepath.Join(p.dir, name), text)
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

// build runs kbuild in this process.
func (p *editedProject) build(args ...string) (status int, printed string) {
	var out bytes.Buffer
	status = Main(append([]string{"-C", p.dir, "-k0", "--color=never", "--progress=plain"}, args...), &out, &out)
	return status, out.String()
}

// buildWatched is build without arguments. partial is a build of a part of the last plan.
func (p *editedProject) buildWatched() (status int, printed string, partial bool) {
	var out bytes.Buffer
	c := &cli{Dir: p.dir, Keep: new(failuresFlag), Color: "never", Progress: "plain", out: &term.Output{To: &out}, err: &out, begun: time.Now()}
	w := c.workspace()
	w.UI = watchedUI{c, &partial}
	status = c.report(c.ended(w.Build(engine.Request{AllowIncremental: true})))
	return status, out.String(), partial
}

// watchedUI is the command line, and notes what is built.
type watchedUI struct {
	*cli
	partial *bool
}

func (f watchedUI) Begin(t *engine.Tree, want []graph.ActionID) *engine.Run {
	*f.partial = *f.partial || t.Runner.Outer != nil
	return f.cli.Begin(t, want)
}

func (p *editedProject) sources() []string {
	all, _ := filepath.Glob(filepath.Join(p.dir, "*/*.cpp"))
	return all
}

func (p *editedProject) source() string {
	includes := []string{"", "#include \"a.h\"\n", "#include \"b.h\"\n", "#include \"a.h\"\n#include \"b.h\"\n"}
	return fmt.Sprintf("%sint v%d;\n", includes[p.rng.IntN(len(includes))], p.rng.IntN(4))
}

// edit makes one random edit and says which.
func (p *editedProject) edit() string {
	pick := func(list []string) string { return list[p.rng.IntN(len(list))] }
	switch k := p.rng.IntN(13); k {
	case 0, 1, 2:
		name := pick(p.sources())
		text := p.source()
		if p.rng.IntN(8) == 0 {
			text = "#include \"missing.h\"\n"
		}
		write(p.t, name, text)
		return fmt.Sprintf("edit %s: %q", name, text)
	case 3:
		p.write("inc/a.h", fmt.Sprintf("int a%d;\n", p.rng.IntN(3)))
		return "edit inc/a.h"
	case 4:
		name := filepath.Join(p.dir, "inc/first", pick([]string{"a.h", "b.h", "other.h"}))
		if os.Remove(name) == nil {
			return "remove " + name
		}
		write(p.t, name, fmt.Sprintf("int first%d;\n", p.rng.IntN(3)))
		return "write " + name
	case 5:
		name := filepath.Join(p.dir, pick([]string{"one", "two"}), "extra.cpp")
		if os.Remove(name) == nil {
			return "remove " + name
		}
		write(p.t, name, p.source())
		return "write " + name
	case 6:
		outputs, _ := filepath.Glob(filepath.Join(p.dir, "build/*/*"))
		if len(outputs) == 0 {
			return "nothing"
		}
		name := pick(outputs)
		os.RemoveAll(name)
		return "remove " + name
	case 7:
		outputs, _ := filepath.Glob(filepath.Join(p.dir, "build/lib/*"))
		if len(outputs) == 0 {
			return "nothing"
		}
		name := pick(outputs)
		write(p.t, name, "garbage")
		return "garble " + name
	case 8:
		name := pick(p.sources())
		text, _ := os.ReadFile(name)
		write(p.t, name, string(text))
		return "touch " + name
	case 9:
		p.write("kernels.local.hcl", fmt.Sprintf("n = \"%d\"\n", p.rng.IntN(3)))
		return "local file"
	case 10:
		p.write("data/in", fmt.Sprintf("int table%d;\n", p.rng.IntN(3)))
		return "edit data/in"
	case 11:
		p.build("-v") // which plans
		return "build -v"
	default:
		p.build("library.one")
		return "build one"
	}
}

// likeFromNothing builds the same sources in another folder, without a cache, and compares the
// outputs.
func (p *editedProject) likeFromNothing() {
	p.t.Helper()
	other := filepath.Join(p.t.TempDir(), "other")
	if err := os.CopyFS(other, os.DirFS(p.dir)); err != nil {
		p.t.Fatal(err)
	}
	os.RemoveAll(filepath.Join(other, "build"))
	var out bytes.Buffer
	if status := Main([]string{"-C", other, "--no-cache"}, &out, &out); status != 0 {
		p.t.Fatalf("from nothing kbuild ends with %d:\n%s", status, &out)
	}
	for _, pattern := range []string{"build/lib/*", "build/bin/*", "build/gen/*/*"} {
		names, _ := filepath.Glob(filepath.Join(other, pattern))
		for _, n := range names {
			rel, _ := filepath.Rel(other, n)
			want, _ := os.ReadFile(n)
			got, _ := os.ReadFile(filepath.Join(p.dir, rel))
			if !bytes.Equal(got, want) {
				p.t.Errorf("%s is %q, from nothing %q", rel, got, want)
			}
		}
	}
}

// TestPartialRandom makes random edits and builds after each as users do, by whatever way kbuild
// goes. Then the long way must find nothing to do, or fail in the same way; in the end every output
// must be what a build from nothing makes.
func TestPartialRandom(t *testing.T) {
	t.Setenv("KBUILD_CACHE_DIR", t.TempDir())
	t.Setenv("MAKEFLAGS", "")
	builds, good, partial := 0, 0, 0
	for seed := range map[bool]uint64{false: 1, true: 2}[tooltest.All()] {
		p := &editedProject{t: t, dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 1))}
		p.write("kernels.hcl", partialManifest)
		p.write("main.cpp", "#include \"a.h\"\nint main;\n")
		p.write("inc/a.h", "int a;\n")
		p.write("inc/b.h", "int b;\n")
		p.write("data/in", "int table;\n")
		os.MkdirAll(filepath.Join(p.dir, "inc/first"), 0o777)
		for i := range 4 {
			p.write(fmt.Sprintf("one/f%d.cpp", i), p.source())
			p.write(fmt.Sprintf("two/f%d.cpp", i), p.source())
		}
		var log []string
		for range 30 {
			status, printed, isPartial := p.buildWatched()
			if testing.Verbose() {
				t.Log(status, printed)
			}
			if isPartial {
				partial++
			}
			long, printedLong := p.build("-v")
			if status != long || status == 0 && !strings.Contains(printedLong, "nothing to do") {
				t.Fatalf("seed %d, after\n%s\nkbuild ends with %d:\n%s\nand the long way with %d:\n%s", seed, strings.Join(log, "\n"), status, printed, long, printedLong)
			}
			builds++
			if status == 0 {
				good++
			}
			for range 1 + p.rng.IntN(3) {
				log = append(log, strings.ReplaceAll(p.edit(), p.dir+"/", ""))
			}
		}
		for _, name := range p.sources() {
			write(t, name, p.source())
		}
		p.build()
		p.likeFromNothing()
	}
	if good < builds/3 || good == builds || partial < builds/4 {
		t.Errorf("of %d builds %d were good and %d partial: that proves little", builds, good, partial)
	}
}
