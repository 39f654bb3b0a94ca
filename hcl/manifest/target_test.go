package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArchReplacesShippedCode(t *testing.T) {
	const manifest = `
gencode "server" { code = ["sm_80", "lto_80", "compute_90"] }
gencode "sets" { code = ["native"] }
gencode "jit" { code = ["lto_75"] }
gencode "hip" { code = ["gfx90a"] }
library "server" {
  sources = ["src/a.cu"]
  gencode = gencode.server
}
library "sets" {
  sources = ["src/a.cu"]
  gencode = gencode.sets
}
library "jit" {
  sources = ["src/a.cu"]
  gencode = gencode.jit
}
library "hip" {
  sources = ["src/a.cu"]
  gencode = gencode.hip
}
library "inline" {
  sources = ["src/a.cu"]
  code    = ["sm_70"]
}
`
	for _, c := range []struct {
		arch []string
		want map[string]string
	}{
		{nil, map[string]string{"server": "sm_80 lto_80 compute_90", "sets": "native", "jit": "lto_75", "hip": "gfx90a", "inline": "sm_70"}},
		{[]string{"sm_90,compute_90"}, map[string]string{"server": "sm_90 compute_90 lto_80", "sets": "sm_90 compute_90", "jit": "lto_75", "hip": "gfx90a", "inline": "sm_90 compute_90"}},
		{[]string{"gfx942"}, map[string]string{"server": "sm_80 lto_80 compute_90", "sets": "native", "jit": "lto_75", "hip": "gfx942", "inline": "sm_70"}},
		{[]string{"native"}, map[string]string{"server": "native lto_80", "sets": "native", "jit": "lto_75", "hip": "gfx90a", "inline": "native"}},
	} {
		p := load(t, manifest, Options{Arch: c.arch})
		got := map[string]string{}
		for _, x := range p.Targets {
			got[x.Name] = codes(x.Gencode)
		}
		expect(t, strings.Join(c.arch, " "), got, c.want)
	}
}

func TestDefaultsFillOnlyWhatIsNotSet(t *testing.T) {
	p := load(t, `
gencode "g" { code = ["sm_80"] }
defaults {
  gencode   = gencode.g
  mode      = "lto"
  std       = ["c++17", "c11"]
  includes  = ["include"]
  defines   = { A = 1, B = 2 }
  fast_math = true
}
library "takes" {
  sources = ["src/a.cu", "src/util.c"]
}
library "sets" {
  sources   = ["src/a.cu"]
  code      = ["sm_90"]
  mode      = "rdc"
  std       = "c++20"
  includes  = []
  defines   = { C = true, D = null }
  fast_math = false
}
`, Options{})
	a, b := find(t, p, "library.takes"), find(t, p, "library.sets")
	expect(t, "gencode", []string{codes(a.Gencode), codes(b.Gencode)}, []string{"sm_80", "sm_90"})
	expect(t, "mode", []string{a.Mode, b.Mode}, []string{"lto", "rdc"})
	expect(t, "std", []string{a.Std, a.Sources[0].Std, a.Sources[1].Std, b.Std, b.Sources[0].Std}, []string{"c++17", "c++17", "c11", "c++20", "c++20"})
	expect(t, "includes", [][]string{a.Includes, b.Includes}, [][]string{{"include"}, nil})
	expect(t, "fast_math", []bool{a.FastMath, b.FastMath}, []bool{true, false})
	one := "1"
	expect(t, "defines", b.Sources[0].Defines, []Define{{"C", &one}, {"D", nil}})
	expect(t, "defines of defaults", len(a.Sources[0].Defines), 2)
	expect(t, "languages", []string{a.Sources[0].Language, a.Sources[1].Language}, []string{"cuda", "c"})
	expect(t, "modes", []string{a.Sources[0].Mode, a.Sources[1].Mode}, []string{"lto", ""})
	if _, ok := a.AttrPos["defaults.mode"]; !ok || a.AttrPos["mode"] != (Pos{}) {
		t.Errorf("positions: %v", a.AttrPos)
	}
}

func TestPartition(t *testing.T) {
	p := load(t, `
library "a" {
  sources = ["src/solver/cg.cu", "src/solver/sort_keys.cu", "src/odd.txt", "src/main.cpp"]
  mode    = "lto"
  defines = { A = 1, B = 1 }
  flags   = { nvcc = ["-v"] }
  memory  = "1GiB"
  code    = ["sm_80"]

  partition "sort" {
    match   = ["src/**/sort_*.cu"]
    mode    = "whole"
    defines = { B = 2, C = 3 }
    flags   = { nvcc = ["-w"], ptxas = ["-O1"] }
    memory  = 4096
  }
  partition "odd" {
    match    = ["src/odd.txt", "./src/main.cpp"]
    language = "cuda"
  }
}
`, Options{})
	s := find(t, p, "library.a").Sources
	text := func(s Source) string {
		var d []string
		for _, x := range s.Defines {
			d = append(d, x.Name+"="+*x.Value)
		}
		return strings.Join([]string{s.Partition, s.Language, s.Mode, strings.Join(d, " "), strings.Join(s.Flags.NVCC, " "), strings.Join(s.Flags.PTXAS, " ")}, "|")
	}
	expect(t, "plain", text(s[0]), "|cuda|lto|A=1 B=1|-v|")
	expect(t, "sort", text(s[1]), "sort|cuda|whole|A=1 B=2 C=3|-v -w|-O1")
	expect(t, "odd", text(s[2]), "odd|cuda|lto|A=1 B=1|-v|")
	expect(t, "forced", text(s[3]), "odd|cuda|lto|A=1 B=1|-v|")
	expect(t, "memory", []int64{s[0].Memory, s[1].Memory}, []int64{1 << 30, 4096})
}

func TestPartitionStandardsAndCode(t *testing.T) {
	const text = `
library "a" {
  sources          = ["src/a.cu", "src/b.cu", "src/solver/cg.cu", "src/main.cpp", "src/util.c"]
  code             = ["sm_80", "sm_90"]
  std              = ["gnu++17", "c11"]
  cuda_std         = "c++17"
  opt              = 3
  includes         = ["include"]
  private_includes = ["src"]

  partition "b" {
    match    = ["src/b.cu", "src/main.cpp"]
    std      = "c++20"
    opt      = 0
    includes = ["src/b"]
  }
  partition "cg" {
    match    = ["src/solver/cg.cu", "src/util.c"]
    std      = ["c++20", "c99"]
    cuda_std = "c++14"
    code     = ["sm_90a", "sm_90"]
  }
}
`
	values := func(o Options) (out []string) {
		for _, s := range find(t, load(t, text, o), "library.a").Sources {
			out = append(out, strings.TrimSpace(fmt.Sprintln(s.Path, s.Std, s.Opt, s.Includes, s.Code)))
		}
		return out
	}
	want := []string{
		"src/a.cu c++17 3 [] []", "src/b.cu c++20 0 [src/b] []", "src/solver/cg.cu c++14 3 [] [sm_90a sm_90]", "src/main.cpp c++20 0 [src/b] []",
		"src/util.c c99 3 [] [sm_90a sm_90]",
	}
	expect(t, "values", values(Options{}), want)
	expect(t, "--arch of which it has one", values(Options{Arch: []string{"sm_80", "sm_90"}})[2], "src/solver/cg.cu c++14 3 [] [sm_90]")
	expect(t, "--arch of which it has none", values(Options{Arch: []string{"sm_80"}}), want)
	p := load(t, text, Options{})
	expect(t, "private", find(t, p, "library.a").PrivateIncludes, []string{"src"})
}

func TestMatrix(t *testing.T) {
	p := load(t, `
module "gemm" {
  sources = ["src/gemm.cu"]
  code    = ["sm_80"]
  mode    = matrix.tile == 64 ? "whole" : "rdc"
  matrix  = { tile = [64, 128], dtype = ["f16", "f32"] }
  exclude = [{ dtype = "f32", tile = "128" }]
  defines = { T = matrix.tile, "D_${upper(matrix.dtype)}" = 1 }

  embed {
    symbol = "gemm_${matrix.dtype}_${matrix.tile}"
  }
}
executable "app" {
  sources = ["src/main.cpp"]
  deps    = [module.gemm]
}
`, Options{})
	expect(t, "names", labels(p), []string{"module.gemm:dtype=f16,tile=64", "module.gemm:dtype=f16,tile=128", "module.gemm:dtype=f32,tile=64", "executable.app"})
	m := find(t, p, "module.gemm:dtype=f16,tile=128")
	expect(t, "values", m.Matrix, []MatrixValue{{"dtype", "f16"}, {"tile", "128"}})
	expect(t, "mode", m.Mode, "rdc")
	expect(t, "base", m.Base, "gemm")
	expect(t, "symbol", m.Embed.Symbol, "gemm_f16_128")
	expect(t, "emit", m.Emit, []string{"fatbin"})
	var names []string
	for _, d := range m.Sources[0].Defines {
		names = append(names, d.Name+"="+*d.Value)
	}
	expect(t, "defines", names, []string{"D_F16=1", "T=128"})
	expect(t, "deps", find(t, p, "executable.app").Deps[0].Label, "module.gemm")
}

func TestGeneratedSources(t *testing.T) {
	const manifest = `
generate "tables" {
  command = ["python3", "tools/tables.py", self.name, "${self.outputs[1]}", self.inputs[0]]
  inputs  = ["data/tables.json"]
  outputs = ["tables.cu", "sub/tables.h"]
}
generate "second" {
  command = ["cp"]
  inputs  = generate.tables.outputs
  outputs = ["x"]
}
library "a" {
  sources = concat(glob("src/*.cu"), [for f in generate.tables.outputs : f if endswith(f, ".cu")])
  deps    = [generate.tables]
}
`
	for _, c := range []struct{ dir, want string }{{"", "build/gen/tables/"}, {"/elsewhere/b", "/elsewhere/b/gen/tables/"}} {
		p := load(t, manifest, Options{BuildDir: c.dir})
		a := find(t, p, "library.a")
		expect(t, "sources", paths(a), []string{"src/a.cu", "src/b.cu", "src/gemm.cu", c.want + "tables.cu"})
		expect(t, "label", a.Sources[3].Generated, "generate.tables")
		expect(t, "command", find(t, p, "generate.tables").Command,
			[]string{"python3", "tools/tables.py", "tables", c.want + "sub/tables.h", "data/tables.json"})
		expect(t, "outputs", find(t, p, "generate.tables").Outputs, []string{"tables.cu", "sub/tables.h"})
		expect(t, "inputs", find(t, p, "generate.second").Inputs, []string{c.want + "tables.cu", c.want + "sub/tables.h"})
	}
}

func TestLibraryAndPrebuiltAndGroup(t *testing.T) {
	p := load(t, `
library "a" {
  sources       = ["src/a.cu"]
  type          = "shared"
  cudart        = "static"
  opt           = 3
  max_registers = 64
  ftz           = true
  libs          = ["m"]
  lib_dirs      = ["lib/"]
  split         = false
  strip_unused  = true
  labels        = { team = "solver" }
  code          = ["sm_80"]
}
library "closed" {
  sources     = ["src/b.cu"]
  device_link = true
}
prebuilt "v" {
  shared   = "third_party/libv.so"
  includes = ["third_party/include"]
  libs     = ["dl"]
}
group "inner" {
  targets = [library.a, prebuilt.v]
}
group "outer" {
  targets = [group.inner, library.closed]
}
`, Options{})
	a, v := find(t, p, "library.a"), find(t, p, "prebuilt.v")
	expect(t, "library", []any{a.Shared, a.CudaRT, a.Opt, a.MaxRegisters, *a.FTZ, a.Libs, a.LibDirs, *a.Split, a.StripUnused, a.Labels["team"], a.PrecDiv == nil},
		[]any{true, "static", "3", 64, true, []string{"m"}, []string{"lib"}, false, true, "solver", true})
	expect(t, "closed", find(t, p, "library.closed").DeviceLink, true)
	expect(t, "prebuilt", []any{v.SharedFile, v.Includes, v.Libs, v.LTO}, []any{"third_party/libv.so", []string{"third_party/include"}, []string{"dl"}, ""})
	expect(t, "group", []string{p.Groups[1].Targets[0].Label, p.Groups[1].Targets[1].Label}, []string{"group.inner", "library.closed"})
	expect(t, "default mode", a.Mode, "whole")
}

func TestHIPSources(t *testing.T) {
	p := load(t, "library \"a\" {\n  sources = [\"src/a.cu\"]\n  code = [\"gfx90a:xnack-\"]\n}\n", Options{})
	expect(t, "language", find(t, p, "library.a").Sources[0].Language, "hip")
}

// TestReferencesNeedOnlyWhatTheyName: two targets may read attributes of each other.
func TestReferencesNeedOnlyWhatTheyName(t *testing.T) {
	p := load(t, `
library "a" {
  sources = ["src/a.cu"]
  defines = library.b.defines
}
library "b" {
  sources = library["a"].sources
  defines = { X = length(library.a.sources) }
}
library "a.sources" {
  sources = [for library in ["src/b.cu"] : library]
}
executable "e" {
  sources = ["src/main.cpp"]
  deps    = [library["a.sources"], library.a]
}
`, Options{})
	expect(t, "defines", *find(t, p, "library.a").Sources[0].Defines[0].Value, "1")
	expect(t, "deps", find(t, p, "executable.e").Deps[0].Label, "library.a.sources")
}

func TestBuildDir(t *testing.T) {
	const manifest = "profile \"dev\" {\n}\n"
	for _, c := range []struct{ dir, profile, want string }{
		{"", "", "build"}, {"", "dev", "build/dev"}, {"out/x/", "dev", "out/x"}, {"/project/b", "", "b"},
		{"../b", "", "/b"}, {"/tmp/b", "", "/tmp/b"}, {"..b", "", "..b"}, {".", "", "."},
	} {
		expect(t, c.dir, load(t, manifest, Options{BuildDir: c.dir, Profile: c.profile}).BuildDir, c.want)
	}
}

// TestOnDisk reads real files: another manifest in a subfolder, sources beside and above it.
func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sub/lib.hcl": "library \"a\" {\n  sources = concat(glob(\"**/*.cu\"), [\"../up.cpp\"])\n}\n",
		"sub/k/a.cu":  "", "up.cpp": "", "sub/out/o.cu": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p, diags := Load(Options{Dir: dir, File: "sub/lib.hcl", BuildDir: "sub/out"})
	if len(diags) > 0 {
		t.Fatal(rendered(diags))
	}
	expect(t, "root", p.Root, filepath.Join(dir, "sub"))
	expect(t, "file", p.File, "lib.hcl")
	expect(t, "sources", paths(p.Targets[0]), []string{"k/a.cu", "../up.cpp"})
	expect(t, "build", p.BuildDir, "out")
	late := Diagnostics{{Summary: "late", Detail: "do", Pos: p.Targets[0].Pos}}
	p.Quote(late)
	expect(t, "late", rendered(late), "error: late\n  --> lib.hcl:1:1\n   |\n 1 | library \"a\" {\n   | ^^^^^^^\n   = help: do\n")
}
