package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// shape describes a tree of trivial compiles.
type shape struct {
	compiler string
	sources  int
}

func sourceName(i int) string { return fmt.Sprintf("lib%d/f%d.cc", i/perLibrary, i%perLibrary) }

func objectName(i int) string { return "out/" + sourceName(i) + ".o" }

// libraries calls visit for each library with the range of its objects.
func (s shape) libraries(visit func(name string, from, to int)) {
	for from := 0; from < s.sources; from += perLibrary {
		visit(fmt.Sprintf("lib%d", from/perLibrary), from, min(s.sources, from+perLibrary))
	}
}

func objects(from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, objectName(i))
	}
	return names
}

func (s shape) compile(i int) []string {
	o := objectName(i)
	return []string{s.compiler, "-O2", "-MD", "-MF", o + ".d", "-c", "-o", o, sourceName(i)}
}

// write writes the sources and creates the folders of outputs.
func (s shape) write(dir string) (err error) {
	write := func(name, text string) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)
		}
	}
	s.libraries(func(name string, from, to int) {
		for _, d := range []string{name, "out/" + name} {
			if err == nil {
				err = os.MkdirAll(filepath.Join(dir, d), 0o777)
			}
		}
		for i := from; i < to; i++ {
			write(sourceName(i), fmt.Sprintf("int f%d;\n", i))
			write(strings.TrimSuffix(sourceName(i), ".cc")+".h", "")
		}
	})
	return err
}

// hcl returns the tree's kernels.hcl.
func (s shape) hcl() string {
	var b strings.Builder
	fmt.Fprintf(&b, "toolchain \"cuda\" {\n  host_compiler = %q\n}\n", s.compiler)
	s.libraries(func(name string, _, _ int) {
		fmt.Fprintf(&b, "library %q {\n  sources = glob(\"%s/*.cc\")\n}\n", name, name)
	})
	return b.String()
}

// ninja returns the tree's build.ninja.
func (s shape) ninja() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule cc\n  command = %s -O2 -MD -MF $out.d -c -o $out $in\n  depfile = $out.d\n  deps = gcc\n", s.compiler)
	fmt.Fprintf(&b, "rule ar\n  command = rm -f $out && ar qcsD $out $in\n")
	s.libraries(func(name string, from, to int) {
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "build %s: cc %s\n", objectName(i), sourceName(i))
		}
		fmt.Fprintf(&b, "build out/%s.a: ar %s\n", name, strings.Join(objects(from, to), " "))
	})
	return b.String()
}

// makefile returns the tree's Makefile.
func (s shape) makefile() string {
	var b strings.Builder
	b.WriteString("all:\n")
	s.libraries(func(name string, from, to int) {
		fmt.Fprintf(&b, "all: out/%s.a\nout/%s.a: %s\n\t@rm -f $@ && ar qcsD $@ $^\n", name, name, strings.Join(objects(from, to), " "))
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "%s: %s\n\t@%s\n-include %s.d\n", objectName(i), sourceName(i), strings.Join(s.compile(i), " "), objectName(i))
		}
	})
	return b.String()
}

// commands returns all commands for spawn.c.
func (s shape) commands() string {
	var b strings.Builder
	command := func(argv ...string) { b.WriteString(strings.Join(append(argv, "", ""), "\x00")) }
	for i := range s.sources {
		command(s.compile(i)...)
	}
	b.WriteByte(0) // archives come after all compiles
	s.libraries(func(name string, from, to int) {
		command(append([]string{"ar", "qcsD", "out/" + name + ".a"}, objects(from, to)...)...)
	})
	return b.String()
}

// newTree writes a tree for one program: kbuild, make, spawn, or a program that reads build.ninja.
func newTree(o *options, n int, program, compiler string, number int) (*treeTool, error) {
	t := &treeTool{name: program, dir: filepath.Join(o.dir, fmt.Sprintf("tree-%d-%d", n, number))}
	t.argv = []string{program, "-j", fmt.Sprint(o.jobs)}
	s := shape{compiler, n}
	name, text := "build.ninja", ""
	switch {
	case program == o.kbuild:
		t.name, name, text = "kbuild", "kernels.hcl", s.hcl()
		// The cache is next to the tree, as a user's cache is outside it. The private
		// XDG_RUNTIME_DIR keeps kbuild from waiting for other builds of the user; ninja does not
		// wait either.
		t.env = append(os.Environ(), "KBUILD_CACHE_DIR="+t.dir+".cache", "XDG_RUNTIME_DIR="+o.dir)
	case filepath.Base(program) == "make":
		name, text = "Makefile", s.makefile()
	case filepath.Base(program) == "spawn":
		t.name, name, text = "the commands alone, from C", "commands", s.commands()
		t.argv = []string{program, fmt.Sprint(o.jobs), name}
	default:
		text = s.ninja()
	}
	if err := s.write(t.dir); err != nil {
		return nil, err
	}
	return t, os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o666)
}
