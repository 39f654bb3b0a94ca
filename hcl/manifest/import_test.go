package manifest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kbuild-dev/kbuild/cache"
)

// unpack reads files of the form "-- name --" and their text; what follows "-- want --" is the
// golden.
func unpack(text string) (fsys fstest.MapFS, given string) {
	fsys = fstest.MapFS{}
	given, _, _ = strings.Cut(text, "-- want --\n")
	var file *fstest.MapFile
	for line := range strings.Lines(given) {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			file = &fstest.MapFile{}
			fsys[strings.TrimSuffix(name, " --\n")] = file
		} else {
			file.Data = append(file.Data, line...)
		}
	}
	return fsys, given
}

// TestImportMistakes loads every testdata/imports/*.txt and compares what is said about its
// manifests with the end of the file.
func TestImportMistakes(t *testing.T) {
	list, err := filepath.Glob("testdata/imports/*.txt")
	if err != nil || len(list) < 6 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	for _, file := range list {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fsys, given := unpack(string(text))
			_, diags := try("", Options{FS: fsys})
			if !diags.HasErrors() {
				t.Error("no error")
			}
			golden(t, file, given+"-- want --\n"+rendered(diags))
		})
	}
}

// TestImport loads two folders: paths, names and what a folder has from above.
func TestImport(t *testing.T) {
	fsys, _ := unpack(`-- kernels.hcl --
import "math/kernels.hcl" {}
variable "n" { default = 1 }
gencode "gpu" { code = ["sm_80"] }
defaults {
  gencode          = gencode.gpu
  private_includes = ["include"]
  opt              = "3"
}
library "all" {
  sources = concat(library["math/vec"].sources, generate["math/made"].outputs)
  deps    = [generate["math/made"], executable["math/perf"]["one"]]
}
-- math/kernels.hcl --
import "deep/kernels.hcl" {}
variable "n" { default = 2 }
defaults { opt = "1" }
gencode "mid" { code = ["sm_90"] }
locals { kernels = glob("src/*.cu") }
library "vec" {
  sources  = concat(local.kernels, ["../a.cpp"])
  includes = [".", "/usr/include"]
  defines  = { N = var.n }
  partition "p" {
    match = ["src/*.cu"]
    opt   = "2"
  }
}
generate "made" {
  command = [self.source_dir, self.name, self.inputs[0], self.outputs[0]]
  inputs  = ["tool"]
  outputs = ["made.cpp"]
}
executable "perf" {
  for_each = ["one", "two"]
  sources  = generate.made.outputs
  deps     = [generate.made]
}
-- math/deep/kernels.hcl --
library "low" {
  gencode = gencode.mid
  sources = ["x.cu"]
  deps    = [library["//all"], module.m]
}
module "m" {
  sources = ["x.cu"]
  matrix  = { n = [1] }
  embed { symbol = "m" }
}
-- math/deep/x.cu --
-- math/src/v.cu --
-- math/tool --
-- a.cpp --
`)
	p, diags := try("", Options{FS: fsys})
	if len(diags) > 0 {
		t.Fatal(rendered(diags))
	}
	sources := func(label string) (s string) {
		for _, f := range find(t, p, label).Sources {
			s += f.Path + f.Opt + " "
		}
		return s
	}
	made := "build/gen/math@made/made.cpp"
	vec, low, gen := find(t, p, "library.math/vec"), find(t, p, "library.math/deep/low"), find(t, p, "generate.math/made")
	for _, c := range []struct{ got, want string }{
		{sources("library.all"), "math/src/v.cu3 a.cpp3 " + made + "3 "},
		{sources("library.math/vec"), "math/src/v.cu2 a.cpp1 "},
		{sources("executable.math/perf:two"), made + "1 "},
		{strings.Join(vec.Includes, " "), "math /usr/include"},
		{strings.Join(vec.PrivateIncludes, " "), "include"},
		{strings.Join(gen.Command, " "), "math made math/tool " + made},
		{strings.Join(gen.Inputs, " "), "math/tool"},
		{*vec.Sources[0].Defines[0].Value, "1"},
		{low.Opt + low.Gencode.Code[0].String(), "1sm_90"},
		{low.Deps[0].Label + " " + low.Deps[1].Label, "library.all module.math/deep/m"},
		{find(t, p, "executable.math/perf:one").OutputName, "math/one"},
		{find(t, p, "module.math/deep/m:n=1").Base, "math/deep/m"},
		{find(t, p, "library.all").Deps[1].Label, "executable.math/perf:one"},
		{low.Pos.String(), "math/deep/kernels.hcl:1:1"},
		{strings.Join(p.Files, " "), "kernels.hcl math/kernels.hcl math/deep/kernels.hcl"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, want := range []string{"math/kernels.hcl", "math/src", "math/deep/kernels.hcl"} {
		if !slices.ContainsFunc(p.Observed, func(o cache.Observation) bool { return o.Path == want }) {
			t.Errorf("%s is not among what was looked at", want)
		}
	}
}

// TestImportTwice imports one file through two names.
func TestImportTwice(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"kernels.hcl": "import \"a/kernels.hcl\" {}\nimport \"b/kernels.hcl\" {}\nimport \"a/self/kernels.hcl\" {}\n",
		"a/kernels.hcl": "locals {}\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"b": "a", "a/self": ".."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	_, diags := Load(Options{Dir: dir})
	if printed := rendered(diags); len(diags) != 2 || !strings.Contains(printed, "b/kernels.hcl is a/kernels.hcl") || !strings.Contains(printed, "a/self/kernels.hcl is this project's manifest itself") {
		t.Error(printed)
	}
}
