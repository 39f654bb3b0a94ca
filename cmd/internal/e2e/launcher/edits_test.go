package launcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// edit changes what a compile depends on.
type edit struct {
	name  string
	files map[string]string // written
	gone  []string          // removed
	env   []string
	args  []string // more of them
	same  bool     // nothing that is made may be another: a hit will do
}

// edits are those of which compiler launchers got some wrong: what only one pass sees, what comes
// from the environment or from files that no depfile names, what was absent.
var edits = []edit{
	{name: "host code alone", files: map[string]string{"onlyhost.h": "#define HOSTVALUE 64\n"}},
	{name: "a header of the second architecture alone", files: map[string]string{"only90.h": "#undef VALUE\n#define VALUE 99\n"}},
	{name: "a shared header", files: map[string]string{"inc/k.h": "#define VALUE 8\n"}},
	{name: "a comment in a shared header", files: map[string]string{"inc/k.h": "// here\n#define VALUE 7\n"}, same: true},
	{name: "appended flags", env: []string{"NVCC_APPEND_FLAGS=-DSCALE=5"}},
	{name: "flags of ptxas", env: []string{"PTXAS_FLAGS=-O1"}},
}

var moreEdits = []edit{
	{name: "a header of relocatable code alone", files: map[string]string{"onlyrdc.h": "#undef SCALE\n#define SCALE 40\n"}},
	{name: "prepended flags", env: []string{"NVCC_PREPEND_FLAGS=-DSCALE=6"}},
	{name: "flags of cicc", env: []string{"NVVM_FLAGS=-O1"}},
	{name: "folders of the environment", env: []string{"INCLUDES=-Ishadow"}, files: map[string]string{"shadow/unused.h": "\n"}, same: true},
	{name: "a folder of gcc", env: []string{"CPATH=other"}, files: map[string]string{"other/maybe.h": "#undef SCALE\n#define SCALE 11\n"}},
	{name: "a header that comes before another", files: map[string]string{"k.h": "#define VALUE 21\n"}},
	{name: "a header that was looked for", files: map[string]string{"maybe.h": "#undef SCALE\n#define SCALE 12\n"}},
	{name: "a macro", args: []string{"-DSCALE=13"}},
	{name: "an option of ptxas", args: []string{"-Xptxas=-O0"}},
	{name: "a file that the assembler takes in", args: []string{"-DTAKES"}, files: map[string]string{"inc/taken.in": "another\n"}},
	{name: "a file that it finds before", args: []string{"-DTAKES"}, files: map[string]string{"taken.in": "before\n"}},
	{name: "a header that goes", gone: []string{"onlyhost.h"}},
	{name: "the source", files: map[string]string{"k.cu": "__global__ void other(int *x) { *x = 1; }\n"}},
}

func TestEdits(t *testing.T) { makeEdits(t, edits) }

func TestMoreEdits(t *testing.T) {
	tooltest.Broad(t)
	makeEdits(t, moreEdits)
}

// makeEdits makes one edit after another, holds the compile behind each against nvcc's, and takes
// it back, which is a hit.
func makeEdits(t *testing.T, edits []edit) {
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := newProject(t, tk)
		argv := []string{"nvcc", "-Iinc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-rdc=true", "-MD", "-MF", "out/k.d", "-c", "k.cu", "-o", "out/k.o"}
		first := p.command(argv...)
		p.same(first, p.command(append([]string{"kbuild", "cc"}, argv...)...))
		for _, e := range edits {
			undo := p.make(e)
			r := p.sameAsPlain(slices.Concat(argv, e.args)...)
			if r == "hit" && !e.same {
				t.Errorf("%s: a hit", e.name)
			}
			undo()
			p.same(first, p.command(append([]string{"kbuild-cc"}, argv...)...))
			if e, last := e.name, p.last(); last.Result != "hit" {
				t.Errorf("%s, taken back: %+v", e, last)
			}
			if t.Failed() {
				t.Fatalf("after %s", e.name)
			}
		}
	})
}

// make makes an edit, and gives what takes it back.
func (p *project) make(e edit) (undo func()) {
	p.T.Helper()
	var undos []func()
	keep := func(name string) {
		file := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(file)
		undos = append(undos, func() {
			if err != nil {
				os.Remove(file)
				return
			}
			p.Write(name, string(text))
		})
	}
	for name, text := range e.files {
		keep(name)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.Dir, name)), 0o777); err != nil {
			p.T.Fatal(err)
		}
		p.Write(name, text)
	}
	for _, name := range e.gone {
		keep(name)
		os.Remove(filepath.Join(p.Dir, name))
	}
	env := p.Env
	p.Env = append(slices.Clone(env), e.env...)
	return func() {
		p.Env = env
		for _, u := range undos {
			u()
		}
	}
}

// TestEqualHeaders has two headers with #pragma once that are equal. gcc reads the second one or
// not by the seconds of their time stamps, and does not say that it looked at it.
func TestEqualHeaders(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := newProject(t, tooltest.Toolkits(t)[0])
	const text = "#pragma once\nADD\n"
	stamped := func(name, text string, seconds int64) {
		p.Write(name, text)
		at := time.Unix(seconds, 0)
		if err := os.Chtimes(filepath.Join(p.Dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("eq.cpp", "int counted = 0\n#define ADD + 1\n#include \"inc/one.h\"\n#include <two.h>\n;\n")
	p.Write("eq.cu", "#include \"eq.cpp\"\n__device__ int there = 0\n#include \"inc/three.h\"\n#include \"inc/four.h\"\n;\n")
	for _, argv := range [][]string{{"g++", "-Iinc", "-MD", "-c", "eq.cpp", "-o", "out/eq.o"}, {"nvcc", "-arch=sm_80", "-Iinc", "-MD", "-c", "eq.cu", "-o", "out/eq.o"}} {
		for _, state := range []struct {
			second  int64
			content string
		}{{1000, text}, {1001, text}, {1000, text}, {1000, text + "ADD\n"}, {1000, text}} {
			for _, name := range []string{"inc/one.h", "inc/three.h"} {
				stamped(name, text, 1000)
			}
			for _, name := range []string{"inc/two.h", "inc/four.h"} {
				stamped(name, state.content, state.second)
			}
			p.sameAsPlain(argv...)
			p.Run(append([]string{"kbuild-cc"}, argv...)...)
			if e := p.last(); e.Result != "hit" {
				t.Errorf("%q in state %v, again: %+v", argv, state, e)
			}
			if t.Failed() {
				t.Fatalf("%q in state %v", argv, state)
			}
		}
	}
}
