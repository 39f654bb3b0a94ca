package importer

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

var update = flag.Bool("update", false, "write the goldens anew")

// What testdata holds of build trees becomes the manifest that stands behind it.
func TestGoldens(t *testing.T) {
	compareGoldens(t, "testdata/*.txtar", filepath.Clean, func(t *testing.T, dir string) string {
		b, err := Find(dir, "", unwanted{t})
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(b.Manifest().Text(), dir, "DIR")
	})
}

// unwanted fails a test where something runs.
type unwanted struct{ *testing.T }

func (u unwanted) Say(text string) { u.Error(text) }

// compareGoldens writes the files of each archive to a folder, under the name that place returns,
// and compares the manifest that read returns for the folder with the kernels.hcl of the archive.
func compareGoldens(t *testing.T, archives string, place func(name string) string, read func(t *testing.T, dir string) string) {
	t.Helper()
	files, _ := filepath.Glob(archives)
	if len(files) == 0 {
		t.Fatal("there is no golden")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var want string
			kept := ar.Files[:0]
			for _, f := range ar.Files {
				if f.Name == "kernels.hcl" {
					want = string(f.Data)
					continue
				}
				kept = append(kept, f)
				write(t, filepath.Join(dir, place(f.Name)), string(f.Data))
			}
			got := read(t, dir)
			if *update {
				ar.Files = append(kept, txtar.File{Name: "kernels.hcl", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(ar), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a plan refuses is taken out, with what cannot be without it.
func TestDrop(t *testing.T) {
	lib, app := &block{kind: "library", name: "x"}, &block{kind: "executable", name: "app"}
	lib.list("sources", []string{"a.cu", "b.cu"})
	lib.list("libs", []string{"m"})
	app.list("sources", []string{"main.cpp"})
	app.items("deps", "[", []string{"library.x"})
	d := &Document{blocks: []*block{lib, app}}
	drop := func(text string) {
		t.Helper()
		for i, line := range strings.Split(d.Text(), "\n") {
			if strings.Contains(line, text) {
				if !d.Drop([]Fault{{Line: i + 1, Text: "no"}}) {
					t.Errorf("line %q is not dropped", line)
				}
				return
			}
		}
		t.Fatalf("%q is not in\n%s", text, d.Text())
	}
	drop("a.cu")
	drop("libs")
	if text := d.Text(); strings.Contains(text, `"a.cu",`) || !strings.Contains(text, `sources = ["b.cu"]`) || strings.Contains(text, "libs = ") {
		t.Errorf("the text is\n%s", text)
	}
	drop(`sources = ["b.cu"]`)
	if text := d.Text(); strings.Contains(text, "library \"x\"") || strings.Contains(text, "deps") {
		t.Errorf("the library is still in\n%s", text)
	}
	if len(d.Notes) != 3 || d.Notes[0] != `library.x: sources "a.cu": no` ||
		d.Notes[2] != `library.x: all of it, for sources "b.cu": no` {
		t.Errorf("notes are %q", d.Notes)
	}
	defaults := &block{kind: "defaults"}
	defaults.set("opt", "9")
	d.blocks = append(d.blocks, defaults)
	if drop("opt"); d.Notes[3] != "defaults: opt 9: no" {
		t.Errorf("notes are %q", d.Notes)
	}
	if d.Drop([]Fault{{Line: 1000}}) || !d.HasTargets() {
		t.Error("a line that is not there was dropped")
	}
}

// A folder that is no build tree is refused with what was looked for.
func TestNoTree(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find(dir, "", nil); err == nil || !strings.Contains(err.Error(), "CMakeCache.txt, .cmake/api and compile_commands.json were looked for") {
		t.Error(err)
	}
	if _, err := Find(filepath.Join(dir, "x"), "", nil); err == nil || !strings.Contains(err.Error(), "there is no such file or folder") {
		t.Error(err)
	}
}

// cudaGroup is one of CUDA sources.
func cudaGroup(source string, includes ...string) *Group {
	g := &Group{Language: "cuda", Sources: []string{source}}
	g.Mode, g.Opt, g.Includes, g.Codes = "whole", "3", includes, []gencode.Code{{Num: 80}}
	return g
}

// Sources with options that a partition cannot have become a library, which the target links.
func TestParts(t *testing.T) {
	fast := cudaGroup("b.cu")
	fast.FastMath = true
	b := &Build{Targets: []*Target{{Name: "app", Kind: "executable", Groups: []*Group{cudaGroup("a.cu"), fast}}}}
	text := b.Manifest().Text()
	for _, want := range []string{`library "app_part2"`, "deps    = [library.app_part2]", "fast_math   = true", "always_link = true", "# - app: b.cu are compiled with options"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// A device link packs code as the flags of its target say, so what all sources have does not stay
// in partitions.
func TestPacking(t *testing.T) {
	one, two := cudaGroup("a.cu"), cudaGroup("b.cu")
	one.Flags, two.Flags = []string{"-Iinc", "-Xfatbin=-compress-all"}, []string{"-Xfatbin=-compress-all"}
	one.Mode, two.Mode = "rdc", "rdc"
	b := &Build{Targets: []*Target{{Name: "app", Kind: "executable", Groups: []*Group{one, two}}}}
	text := b.Manifest().Text()
	if !strings.Contains(text, "\n    nvcc = [\"-Xfatbin=-compress-all\"]") || !strings.Contains(text, "\n      nvcc = [\"-Iinc\"]") || strings.Count(text, "-Xfatbin") != 1 {
		t.Errorf("the manifest is\n%s", text)
	}
}

// A compiler that kbuild does not find by itself is named once.
func TestUseCompiler(t *testing.T) {
	b := &Build{Version: "13.0.88", Targets: []*Target{{Name: "x", Kind: "library", Groups: []*Group{cudaGroup("x.cu")}}}}
	d := b.Manifest()
	if !d.UseCompiler("/opt/nvcc") || d.UseCompiler("/opt/nvcc") || !strings.Contains(d.Text(), `compiler = "/opt/nvcc"`) || !strings.Contains(d.Text(), `">= 13.0, < 13.1"`) {
		t.Errorf("the manifest is\n%s", d.Text())
	}
}

// What Ninja's files say of a target, with one configuration or several, and with blanks in names.
func TestRules(t *testing.T) {
	r := rules{relocatable: map[string]bool{}, linked: map[string]bool{}, nvlink: map[string][]string{}}
	r.ninja("build CMakeFiles/r.dir/Release/r0.cu.o: CUDA_COMPILER__r_Release /p/r0.cu || x\n"+
		"build sub$ dir/CMakeFiles/w.dir/a$ b.cu.o: CUDA_COMPILER__w /p/a$ b.cu\n"+
		"build CMakeFiles/r.dir/Release/cmake_device_link.o | side: LINK a\n  OBJECT_DIR = CMakeFiles/r.dir/Release\n"+
		"build CMakeFiles/s.dir/cmake_device_link.o: LINK a\n  LINK_FLAGS = -Xlinker=-z -Xnvlink -a,-b -Xnvlink=-c\n  OBJECT_DIR = sub/CMakeFiles/s.dir\n"+
		"build sub/libs.a: LINK a\n  OBJECT_DIR = other/CMakeFiles/o.dir\n",
		"rule CUDA_COMPILER__r_Release\n  command = nvcc -x cu -rdc=true -c $in\nrule CUDA_COMPILER__w\n  command = nvcc -x cu -c $in\n")
	if !r.relocatable["CMakeFiles/r.dir"] || !r.linked["CMakeFiles/r.dir"] || r.relocatable["sub dir/CMakeFiles/w.dir"] || r.linked["sub dir/CMakeFiles/w.dir"] ||
		!r.linked["sub/CMakeFiles/s.dir"] || r.linked["other/CMakeFiles/o.dir"] || !slices.Equal(r.nvlink["sub/CMakeFiles/s.dir"], []string{"-a", "-b", "-c"}) {
		t.Errorf("%+v", r)
	}
}

// No line of a manifest names a path of the build tree, whatever the line was made from; the two
// words of an option go together.
func TestTreePaths(t *testing.T) {
	g := cudaGroup("x.cu", "include", "b/gen")
	g.Host = []string{"-include", "b/x.h", "-Xclang", "-load", "-Xclang", "/p/b/x.so", "-Wall"}
	g.Flags = []string{"--options-file=b/x.rsp", "-Xfatbin", "-compress-all"}
	g.Defines = []string{"NAME=b/x", "DIR=/p/b/x", "N=b"}
	b := &Build{Root: "/p", trees: []string{"/p/b"}, Targets: []*Target{{Name: "b", Kind: "executable", Groups: []*Group{g},
		Libs: []string{"b"}, LibDirs: []string{"b", "lib/b"}, Prebuilt: []string{"b/lib.a"}}}}
	text, notes, _ := strings.Cut(b.Manifest().Text(), "# Not carried over")
	for _, gone := range []string{"b/gen", "-include", "-Xclang", "x.so", "options-file", "DIR", "lib.a", "prebuilt"} {
		if strings.Contains(text, gone) {
			t.Errorf("%q is in\n%s", gone, text)
		}
	}
	for _, kept := range []string{`executable "b"`, `"include"`, `host = ["-Wall"]`, `"-Xfatbin", "-compress-all"`, `NAME = "b/x"`, `N    = "b"`, `libs     = ["b"]`, `"lib/b"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is not in\n%s", kept, text)
		}
	}
	for _, printed := range []string{"executable.b: private_includes \"b/gen\": b/gen is in the build tree", "-load", "b/x.rsp", "DIR", "prebuilt"} {
		if !strings.Contains(notes, printed) {
			t.Errorf("%q is not in\n%s", printed, notes)
		}
	}
}

// Trees of several configurations, and of generators whose files are not read, are refused.
func TestRefusedTrees(t *testing.T) {
	const index = `{"cmake": {"generator": {"name": "X"}}, "objects": [{"kind": "codemodel", "jsonFile": "model.json", "version": {"major": 2}}]}`
	for configurations, want := range map[string]string{
		`{"name": "Debug"}, {"name": "Release"}`: "has 2 configurations",
		`{"name": "Release"}`:                    "has no files of Ninja or make",
	} {
		dir := t.TempDir()
		reply := filepath.Join(dir, ".cmake/api/v1/reply")
		write(t, filepath.Join(reply, "index-1.json"), index)
		write(t, filepath.Join(reply, "model.json"), `{"paths": {"source": "/p", "build": "`+dir+`"}, "configurations": [`+configurations+`]}`)
		if _, err := Find(dir, "", unwanted{t}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A tree beside the sources is known by the folders of CMake in it.
func TestInSourceTree(t *testing.T) {
	b := &Build{Root: "/p", trees: []string{"/p"}}
	for p, want := range map[string]bool{"/p/src/a.cu": false, "/p/CMakeFiles/m.dir/x.h": true, "/p/m_autogen/x.cpp": true, "/q": false, "/p/_deps/x-src/x.cu": true} {
		if got := b.inTree(p); got != want {
			t.Errorf("inTree(%s) is %t", p, got)
		}
	}
}

// FuzzMake reads what no make prints.
func FuzzMake(f *testing.F) {
	for _, s := range []string{"make: Entering directory '/x'\nMakefile:3: update target 'a' due to: b\ncd x && nvcc -O2 -dc -c a.cu \\\n -o a.o 2>&1 | tee log; ar rcs libx.a a.o",
		"(gcc -shared a.c -L. -lx -Wl,-rpath,/x -o liba.so.1)\nnvcc -dlink a.o -o d.o\nnvcc -cudart=none --library m -Xlinker -z,now a.cu", "X=1 ccache g++ \"a b.cpp\" '' `x` $(y) >&", "nvcc -ptx a.cu\nnvcc -lib a.o -o"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := newMakeReader(t.TempDir(), Machine{})
		r.output(text)
		r.rest()
		r.Manifest().Text()
	})
}

// The name of a file that is left out may hold any bytes.
func TestComments(t *testing.T) {
	d := &Document{Lost: "Left out", Notes: []string{"lib/z\xff.cpp\a and\nü"}}
	if text := d.Text(); !strings.Contains(text, "# - lib/z\ufffd.cpp\\u0007 and ü"+"\n") {
		t.Errorf("%q", text)
	}
}
