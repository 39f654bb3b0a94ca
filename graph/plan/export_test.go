package plan_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// exports plans a project of empty sources and says what others need to use its targets, by name.
func exports(t *testing.T, text string, facts plan.Facts) map[string]plan.Export {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a.cu", "b.cu", "a.c", "main.cpp", "vendor/libv.so", "vendor/libp.a"} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kernels.hcl"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	p, diags := manifest.Load(manifest.Options{Dir: dir})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	made := plan.New(p, facts, plan.Options{Exports: true})
	if made.Graph == nil {
		t.Fatal(made.Diagnostics)
	}
	all := map[string]plan.Export{}
	for _, e := range made.Exports {
		all[e.Label] = e
	}
	return all
}

// What a link with a static library adds is what the library is compiled of, and not what a program
// of the project would link.
func TestExportedLinks(t *testing.T) {
	facts := usualFacts()
	facts.Prebuilt = map[string]toolchain.Library{"vendor/libp.a": {Form: "archive", Members: []toolchain.Member{
		{Name: "p.o", Relocatable: true, Images: []gencode.Image{{Kind: gencode.LTO, Num: 80}}}}}}
	all := exports(t, `
defaults { code = ["sm_80"] }
prebuilt "p" { archive = "vendor/libp.a" }
library "lto" {
  sources   = ["a.cu"]
  mode      = "lto"
  fast_math = true
  deps      = [library.rdc, prebuilt.p]
  libs      = ["m"]
}
library "rdc" {
  sources = ["b.cu"]
  mode    = "rdc"
  cudart  = "shared"
}
library "whole" { sources = ["a.cu"] }
library "closed" {
  sources     = ["a.cu"]
  mode        = "rdc"
  device_link = true
  deps        = [library.rdc]
}
library "c" {
  sources  = ["a.c"]
  lib_dirs = ["vendor", "/opt/lib"]
}
`, facts)
	arithmetic := "-Xnvvm=-ftz=1,-prec-div=0,-fma=1"
	floats := []string{"-ftz=true", "-prec-div=false", "-prec-sqrt=false", "-fmad=true"}
	for label, want := range map[string]plan.Links{
		"library.lto": {CUDA: true, DeviceLink: true, LTO: true, Arithmetic: arithmetic, Floats: floats, Toolkit: "11.8", Runtime: "static",
			Libs: []string{"m"}, CXX: true},
		"library.rdc":    {CUDA: true, DeviceLink: true, Toolkit: "11.8", Runtime: "shared", CXX: true},
		"library.whole":  {CUDA: true, Toolkit: "11.8", Runtime: "static", CXX: true},
		"library.closed": {CUDA: true, Closed: true, Toolkit: "11.8", Runtime: "static", CXX: true},
		"library.c":      {Runtime: "static", LibDirs: []string{"vendor", "/opt/lib"}},
		"prebuilt.p":     {CUDA: true, DeviceLink: true, LTO: true, CXX: true},
	} {
		got := all[label].Links
		if got.Runtime == "" && want.Runtime == "static" { // what is not written
			got.Runtime = "static"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", label, diff)
		}
	}
	for label, want := range map[string]string{"library.lto": "lto_80", "library.whole": "sm_80", "library.closed": "sm_80", "library.c": ""} {
		if got := strings.Join(all[label].Codes, " "); got != want {
			t.Errorf("%s has the code %q, want %q", label, got, want)
		}
	}
	if got := strings.Join(all["library.lto"].Needs, " "); got != "library.rdc prebuilt.p" {
		t.Errorf("library.lto needs %s", got)
	}
	if e := all["library.c"]; !strings.HasPrefix(e.Fault, "lib_dirs vendor is in the project") || e.FaultPos.Line == 0 {
		t.Errorf("library.c: %+v", e)
	}
}

// nvcc links no code of clang's new offload driver, so no link of CMake does.
func TestExportedNewDriver(t *testing.T) {
	facts := usualFacts()
	facts.Prebuilt = map[string]toolchain.Library{"libp.a": {Form: "archive", Members: []toolchain.Member{
		{Name: "p.o", Relocatable: true, NewDriver: true, Images: []gencode.Image{{Kind: gencode.SASS, Num: 80}}}}}}
	l := exports(t, `prebuilt "p" { archive = "libp.a" }`, facts)["prebuilt.p"].Links
	if l.Other == nil || l.Other.Code != "CUDA code" || l.Other.Runtime != "" || !l.DeviceLink {
		t.Errorf("%+v", l)
	}
}

func TestExportedFiles(t *testing.T) {
	facts := usualFacts()
	facts.Libs = map[string][]string{"q": {"vendor/libq.so"}, "p": {"vendor/libp.a"}}
	all := exports(t, `
defaults { code = ["sm_80"] }
prebuilt "v" { shared = "vendor/libv.so" }
prebuilt "w" {
  shared   = "vendor/libv.so"
  libs     = ["q"]
  lib_dirs = ["vendor"]
}
executable "loads" {
  sources  = ["main.cpp"]
  libs     = ["q"]
  lib_dirs = ["vendor"]
}
executable "has" {
  sources  = ["main.cpp"]
  libs     = ["p"]
  lib_dirs = ["vendor"]
}
library "so" {
  sources   = ["a.cu"]
  type      = "shared"
  soversion = "3"
  deps      = [prebuilt.v]
}
executable "bench" {
  sources = ["main.cpp"]
  deps    = [library.so]
}
module "m" {
  sources = ["b.cu"]
  emit    = ["cubin", "ptx"]
  embed { symbol = "m_table" }
}
`, facts)
	for label, want := range map[string]string{"prebuilt.w": "lib_dirs vendor is in the project", "executable.loads": "vendor/libq.so is loaded from lib_dirs", "executable.has": ""} {
		if e := all[label]; !strings.HasPrefix(e.Fault, want) || (e.Fault == "") != (want == "") || e.InTree != (want != "") {
			t.Errorf("%s: %+v", label, e)
		}
	}
	so, bench, m := all["library.so"], all["executable.bench"], all["module.m"]
	if so.File != "build/lib/libso.so.3" || so.Plain != "build/lib/libso.so" || !so.Shared || !slices.Equal(so.Needs, []string{"prebuilt.v"}) ||
		!slices.Equal(so.RunPaths, []string{"$ORIGIN/../../vendor"}) {
		t.Errorf("%+v", so)
	}
	if bench.File != "build/bin/bench" || !slices.Equal(bench.Needs, []string{"library.so"}) || !slices.Equal(bench.RunPaths, []string{"$ORIGIN/../lib"}) {
		t.Errorf("%+v", bench)
	}
	if want := []string{"build/modules/m.sm_80.cubin", "build/modules/m.compute_80.ptx", "build/modules/m.json"}; !slices.Equal(m.Artifacts, want) {
		t.Errorf("a module has the files %q", m.Artifacts)
	}
}
