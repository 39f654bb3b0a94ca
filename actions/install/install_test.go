package install

import (
	"debug/elf"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

var update = flag.Bool("update", false, "rewrite the wanted packages")

const samples = "../fatbin/testdata/" // files with real device code

// library is an export of a static library with the code of a sample.
func library(name, sample string, links plan.Links, needs ...string) plan.Export {
	return plan.Export{Label: "library." + name, Name: name, Kind: manifest.Library, Pos: manifest.Pos{File: "kernels.hcl", Line: len(name)},
		File: samples + sample, Links: links, Needs: needs}
}

// solvers are libraries of all kinds.
func solvers() []plan.Export {
	loaded := library("loaded", "libshared.so", plan.Links{CUDA: true, Runtime: "shared"})
	loaded.Shared = true
	headers := library("solver", "lib.a", plan.Links{CUDA: true, DeviceLink: true, LTO: true, Arithmetic: "-Xnvvm=-ftz=1,-prec-div=0,-fma=1",
		Floats: []string{"-ftz=true"}, Toolkit: "11.8", CUDADirs: []string{"/cuda/stubs", "/cuda/lib"}, CXX: true}, "library.whole", "prebuilt.system")
	headers.Headers = []manifest.Header{{Path: "include/solver/api.h", As: "solver/api.h"}}
	amd := new(hip.Toolchain).Info()
	return []plan.Export{
		{Label: "prebuilt.system", Name: "system", Kind: manifest.Prebuilt, File: mustAbs(samples + "lib.a")},
		library("whole", "whole.o", plan.Links{CUDA: true, HostLTO: "thin", Libs: []string{"m"}, LibDirs: []string{"/opt/a lib"}, CXX: true}),
		headers,
		library("closed", "lib.a", plan.Links{CUDA: true, Closed: true}, "library.solver"),
		library("amd", "libhip.a", plan.Links{Other: &amd, DeviceLink: true, CXX: true}),
		loaded,
		{Label: "module.gemm", Name: "gemm", Kind: manifest.Module, Artifacts: []string{"build/modules/sub/gemm.sm_80.cubin", "build/modules/gemm.json"}},
	}
}

func mustAbs(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		panic(err)
	}
	return abs
}

func known(t *testing.T) (archs []gencode.Code) {
	t.Helper()
	for _, name := range []string{"sm_75", "sm_80", "sm_86", "sm_90", "sm_90a"} {
		c, err := gencode.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		archs = append(archs, c)
	}
	return archs
}

func labelsOf(exports []plan.Export) (labels []string) {
	for _, e := range exports {
		labels = append(labels, e.Label)
	}
	return labels
}

// packageOf returns the package of all exports of a project in this folder.
func packageOf(t *testing.T, exports []plan.Export) (*Package, manifest.Diagnostics) {
	t.Helper()
	p := &manifest.Project{Root: mustAbs("."), Package: &manifest.Package{Name: "solver", Version: "1.4.0"}}
	return New(p, exports, labelsOf(exports), known(t))
}

// The files that are written here are those in testdata. The end-to-end tests have CMake and
// pkg-config read such.
func TestConfigs(t *testing.T) {
	k, diags := packageOf(t, solvers())
	if diags != nil {
		t.Fatal(diags)
	}
	for _, f := range k.Files() {
		if f.From != "" || f.Link != "" {
			continue
		}
		got, err := k.generated(f)
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, filepath.Base(f.Path), got)
	}
}

// compareGolden holds a text against a file in testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.NewReplacer(mustAbs(samples), "/samples", mustAbs("../.."), "/kbuild").Replace(got)
	golden := filepath.Join("testdata", name)
	if *update {
		os.WriteFile(golden, []byte(got), 0o666)
	}
	want, _ := os.ReadFile(golden)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites):\n%s", name, diff)
	}
}

// What CMake is told of libraries that are not built yet. The end-to-end tests have it read such.
func TestTree(t *testing.T) {
	exports := solvers()
	for i, e := range exports {
		if e.Kind == manifest.Library {
			exports[i].File, exports[i].Codes = "build/lib/lib"+e.Name+".a", []string{"sm_80", "lto_90"}
		}
	}
	exports[2].Headers = append(exports[2].Headers, manifest.Header{Path: "/out/gen/version/solver/version.h", As: "solver/version.h", Generated: "generate.version"})
	p := &manifest.Project{Root: mustAbs("."), Files: []string{"kernels.hcl"}}
	tree := Tree{Name: "kbuild_1", Labels: []string{"library.closed", "library.loaded", "module.gemm"}, Exports: exports, Archs: known(t)}
	text, diags, err := tree.CMake(p)
	if err != nil || diags != nil {
		t.Fatal(diags, err)
	}
	compareGolden(t, "tree.cmake", text)

	for label, want := range map[string]string{"executable.tool": "executable.tool is a program", "prebuilt.system": "prebuilt.system and library.system have one name"} {
		tree.Exports = append(solvers()[:1], plan.Export{Label: "executable.tool", Kind: manifest.Executable}, library("system", "lib.a", plan.Links{}, "prebuilt.system"))
		tree.Labels = []string{label, "library.system"}
		if _, diags, _ := tree.CMake(p); diags == nil || !strings.HasPrefix(diags[0].Summary, want) {
			t.Errorf("%s is refused by %v, want %q", label, diags, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	k, diags := packageOf(t, append(solvers(), plan.Export{Label: "executable.tool", Kind: manifest.Executable, File: "build/bin/tool"}))
	if diags != nil {
		t.Fatal(diags)
	}
	var got []string
	for _, f := range k.Files() {
		if !strings.Contains(f.Path, "pkgconfig") {
			got = append(got, f.Path)
		}
	}
	want := []string{"lib/whole.o", "lib/lib.a", "include/solver/api.h", "lib/libhip.a", "lib/libshared.so", "lib/solver/modules/sub/gemm.sm_80.cubin",
		"lib/solver/modules/gemm.json", "bin/tool", "lib/cmake/solver/solverConfigVersion.cmake", "lib/cmake/solver/solverConfig.cmake"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLabels(t *testing.T) {
	if got := strings.Join(Labels(solvers(), []string{"library.closed", "generate.x"}), " "); got != "prebuilt.system library.whole library.solver library.closed" {
		t.Errorf("with library.closed are installed %s", got)
	}
}

func TestRefused(t *testing.T) {
	faulty := library("faulty", "lib.a", plan.Links{})
	faulty.Fault, faulty.FaultPos = "It cannot be.", manifest.Pos{Line: 7}
	vendor := plan.Export{Label: "prebuilt.v", Name: "v", Kind: manifest.Prebuilt, Shared: true, File: "testdata/none.so"}
	header := func(name, path string) plan.Export {
		e := library(name, name+".a", plan.Links{})
		e.Headers = []manifest.Header{{Path: path, As: "api.h", Pos: manifest.Pos{Line: 9}}}
		return e
	}
	for want, exports := range map[string][]plan.Export{
		"library.faulty cannot be installed":                           {faulty},
		"library.a and prebuilt.a have one name":                       {library("a", "lib.a", plan.Links{}), {Label: "prebuilt.a", Name: "a", Kind: manifest.Prebuilt, File: "/a.a"}},
		"prebuilt.v cannot be installed":                               {vendor},
		"a/api.h and b/api.h would both be installed as include/api.h": {header("one", "a/api.h"), header("two", "b/api.h")},
	} {
		_, diags := packageOf(t, exports)
		if !slices.ContainsFunc(diags, func(d manifest.Diagnostic) bool { return strings.HasPrefix(d.Summary, want) }) {
			t.Errorf("want %q, got %v", want, diags)
		}
	}
	if _, diags := packageOf(t, []plan.Export{header("one", "a/api.h"), header("two", "a/api.h")}); diags != nil {
		t.Errorf("one header of two libraries: %v", diags)
	}
}

// A file that is replaced goes on being what it was for who has it open, and one that is not
// replaced keeps its time.
func TestWriteInOneStep(t *testing.T) {
	dir := t.TempDir()
	k := &Package{root: dir}
	text := "one"
	f := File{Path: "a/b", Mode: 0o644, From: "built"}
	write := func(want bool) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "built"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if changed, err := k.Write(f, filepath.Join(dir, "to")); err != nil || changed != want {
			t.Fatalf("changed %t, %v", changed, err)
		}
	}
	name := filepath.Join(dir, "to", "a", "b")
	write(true)
	open, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	before, _ := open.Stat()
	write(false)
	text = "two"
	write(true)
	after, _ := os.Stat(name)
	old := make([]byte, 3)
	if _, err := open.Read(old); string(old) != "one" || os.SameFile(before, after) {
		t.Errorf("the open file holds %q now (%v)", old, err)
	}
	f = File{Path: "a/b", Link: "elsewhere"}
	write(true)
	write(false)
	f = File{Path: "a/b", From: "none", Mode: 0o644}
	if _, err := k.Write(f, filepath.Join(dir, "to")); err == nil {
		t.Error("a file that is not there was installed")
	}
	if to, _ := os.Readlink(name); to != "elsewhere" {
		t.Errorf("what stood there is gone: %q", to)
	}
}

func TestRunPaths(t *testing.T) {
	program, err := os.ReadFile("testdata/librun.so")
	if err != nil {
		t.Fatal(err)
	}
	if err := changeRunPaths("librun.so", program, map[string]string{"$ORIGIN/../../third_party": "$ORIGIN/../lib"}); err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(strings.NewReader(string(program)))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := f.DynString(elf.DT_RUNPATH); err != nil || len(list) != 1 || list[0] != "$ORIGIN/../lib:/opt/vendor" {
		t.Errorf("it searches %q (%v)", list, err)
	}
	if name, err := f.DynString(elf.DT_SONAME); err != nil || name[0] != "librun.so.2" {
		t.Errorf("it is called %q (%v)", name, err)
	}
	err = changeRunPaths("librun.so", program, map[string]string{"/opt/vendor": "/a/folder/that/is/longer/than/all/that/was/there/before"})
	if err == nil || !strings.Contains(err.Error(), "there is no room for") {
		t.Errorf("a longer list: %v", err)
	}
}

func TestSoname(t *testing.T) {
	k := &Package{root: mustAbs(".")}
	vendor := plan.Export{Kind: manifest.Prebuilt, Shared: true, File: "testdata/librun.so"}
	if name, err := k.soname(vendor); name != "librun.so.2" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	for _, file := range []string{samples + "whole.o", "testdata/solver.pc", "testdata/none.so"} {
		vendor.File = strings.TrimPrefix(file, "../")
		k := &Package{root: mustAbs(strings.Repeat("../", strings.Count(file, "../")))}
		if name, err := k.soname(vendor); err == nil {
			t.Errorf("%s is called %q", file, name)
		}
	}
}
