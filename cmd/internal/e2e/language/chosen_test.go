package language_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

const choosing = `
generate "parts" {
  command = ["sh", "parts.sh", self.dir]
  inputs  = ["parts.sh", "names"]
  outputs = ["*.cpp", "inc/"]
}

library "parts" {
  sources = [for f in generate.parts.outputs : f if endswith(f, ".cpp")]
  deps    = [generate.parts]
}

executable "app" {
  sources = ["main.cpp"]
  deps    = [library.parts, generate.parts]
}
`

// script writes a source for each line "NAME VALUE" of names, and a header with all.
const script = `mkdir "$1/inc"
while read name value; do
  echo "int $name() { return $value; }" > "$1/$name.cpp"
  echo "int $name();" >> "$1/inc/all.h"
  sum="$sum + $name()"
done < names
echo "#define SUM 0$sum" >> "$1/inc/all.h"
`

// choice is a project with a command that chooses its files.
type choice struct {
	*e2e.Project
	values map[string]int
}

// write writes what the command reads.
func (c *choice) write() {
	var text strings.Builder
	for _, name := range []string{"ant", "bee", "cat", "dog"} {
		if v, ok := c.values[name]; ok {
			fmt.Fprintln(&text, name, v)
		}
	}
	c.Project.Write("names", text.String())
}

// check holds what was built against what the command reads.
func (c *choice) check(what string) {
	c.T.Helper()
	want, sum := []string{"inc/all.h"}, 0
	for name, v := range c.values {
		want = append(want, name+".cpp")
		sum += v
	}
	slices.Sort(want)
	var got []string
	filepath.WalkDir(filepath.Join(c.Dir, "build/gen/parts"), func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(filepath.Join(c.Dir, "build/gen/parts"), name)
			got = append(got, rel)
		}
		return err
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		c.T.Errorf("%s: there are %q, want %q", what, got, want)
	}
	if out, _ := c.Run("build/bin/app"); strings.TrimSpace(out) != fmt.Sprint(sum) {
		c.T.Errorf("%s: the sum is %s, want %d", what, out, sum)
	}
	objects, _ := filepath.Glob(filepath.Join(c.Dir, "build/obj/library.parts/gen/parts/*.o"))
	if len(objects) != len(c.values) {
		c.T.Errorf("%s: there are the objects %q", what, objects)
	}
}

func TestChosenFiles(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := e2e.New(t)
	c := &choice{&p, map[string]int{"ant": 1, "bee": 2}}
	c.Project.Write("kernels.hcl", choosing)
	c.Project.Write("parts.sh", script)
	c.Project.Write("main.cpp", "#include \"inc/all.h\"\n#include <cstdio>\nint main() { std::printf(\"%d\\n\", SUM); }\n")
	c.write()
	if got := c.Kbuild("-n"); got.Kinds != "generate 1" {
		t.Errorf("before the command has run: %+v", got)
	}
	if got := c.Kbuild(); got.Kinds != "archive 1, extract 1, generate 1, host-compile 3, link 1" || got.Ran != 7 {
		t.Errorf("at first: %+v", got)
	}
	c.check("at first")
	c.Settled("build/bin/app")
	c.values["cat"] = 3
	c.write()
	c.Ran("one more", "archive 1, extract 1, generate 1, host-compile 2, link 1")
	c.check("one more")
	delete(c.values, "ant")
	c.write()
	c.Ran("one less", "archive 1, extract 1, generate 1, host-compile 1, link 1")
	c.check("one less")
	other := c.In(t.TempDir())
	for _, name := range []string{"kernels.hcl", "parts.sh", "main.cpp", "names"} {
		other.Write(name, string(c.Read(name)))
	}
	if got := other.Kbuild(); got.Ran > 0 || got.Cached != 7 {
		t.Errorf("a second checkout: %+v", got)
	}
	(&choice{other, c.values}).check("a second checkout")

	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 20 {
		var what []string
		for range 1 + rng.IntN(2) {
			what = append(what, c.edit(rng))
		}
		c.Kbuild()
		c.check(fmt.Sprintf("step %d, %s", step, what))
		if got := c.Kbuild(); got.Up_to_date != got.Actions {
			t.Errorf("step %d, %s: then %+v", step, what, got)
		}
	}
}

// edit changes what the command reads, or damages what it has written.
func (c *choice) edit(rng *rand.Rand) (what string) {
	name := []string{"ant", "bee", "cat", "dog"}[rng.IntN(4)]
	switch _, there := c.values[name]; rng.IntN(6) {
	case 0, 1:
		c.values[name] = rng.IntN(4)
	case 2:
		if there && len(c.values) > 1 {
			delete(c.values, name)
		}
	case 3:
		names := []string{".parts.list", ".parts.pack", "parts/inc/all.h", "parts"}
		gone := "build/gen/" + names[rng.IntN(4)]
		os.RemoveAll(filepath.Join(c.Dir, gone))
		return "without " + gone
	case 4:
		file := filepath.Join(c.Dir, "build/gen/parts", name+".cpp")
		if text, err := os.ReadFile(file); err == nil {
			os.WriteFile(file, append(text, "int more;\n"...), 0o666)
		}
		return "another " + file
	case 5:
		c.Project.Write("parts.sh", script+fmt.Sprintf("# %d\n", rng.IntN(3)))
		return "another script"
	}
	c.write()
	return fmt.Sprint(c.values)
}

func TestChosenFilesThatAreWrong(t *testing.T) {
	t.Parallel()
	p := e2e.New(t)
	p.Write("kernels.hcl", choosing)
	p.Write("main.cpp", "int main() {}\n")
	p.Write("names", "ant 1\n")
	for more, want := range map[string]string{
		"touch $1/x.txt\n":     "the command of generate.parts (kernels.hcl:2) wrote build/gen/parts/x.txt, which the block does not declare",
		"rm $1/*.cpp\n":        "wrote no file that matches \"*.cpp\" of its outputs in build/gen/parts",
		"exit 3\n":             "exit status 3",
		"ln -s x.h $1/inc/y\n": "wrote build/gen/parts/inc/y, which is no regular file",
	} {
		p.Write("parts.sh", script+more)
		_, printed, status := p.Fails()
		if status != 1 || !strings.Contains(printed, want) {
			t.Errorf("%q: status %d\n%s", more, status, printed)
		}
		if _, err := os.Stat(filepath.Join(p.Dir, "build/gen/parts")); err == nil {
			t.Errorf("%q: its files stay", more)
		}
	}
	p.Write("parts.sh", script)
	p.Kbuild()
}
