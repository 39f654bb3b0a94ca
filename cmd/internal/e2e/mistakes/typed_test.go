package mistakes

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// typed are mistakes in a manifest or on the command line: what was typed, and what has to be said.
var typed = []struct {
	name, args, manifest string
	want                 []string
}{
	{`srcs`, ``, `library "a" {
  srcs = ["a.cu"]
  code = ["sm_80"]
}
`,
		[]string{`unknown attribute "srcs" in library; did you mean "sources"?`}},
	{`string-deps`, ``, `library "a" {
  sources = ["a.cu"]
  code    = ["sm_80"]
}
executable "m" {
  sources = ["m.cpp"]
  deps    = ["a"]
}
`,
		[]string{`deps takes references such as library.solver, not strings`, `= help: Write library.a, without quotes.`}},
	{`arch-spelt`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm80"]
}
`,
		[]string{`"sm80" is not an architecture; did you mean "sm_80"?`, `= help: sm_80 is SASS, compute_80 PTX, lto_80 LTO-IR, gfx90a, gfx11-generic and amdgcnspirv HIP; native, all and all-major are sets.`}},
	{`arch-number`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = [80]
}
`,
		[]string{`"80" is not an architecture; did you mean "sm_80"?`, `= help: sm_80 is SASS, compute_80 PTX, lto_80 LTO-IR, gfx90a, gfx11-generic and amdgcnspirv HIP; native, all and all-major are sets.`}},
	{`arch-old`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_20"]
}
`,
		[]string{`does not know sm_20`, `= help: It knows sm_`}},
	{`no-code`, ``, `executable "m" {
  sources = ["a.cu"]
}
`,
		[]string{`executable.m has CUDA sources and does not say for which GPUs`, `= help: Set code = ["sm_80"], say, here or in defaults; or pass --arch.`}},
	{`glob-nothing`, ``, `executable "m" {
  sources = glob("source/*.cu")
  code    = ["sm_80"]
}
`,
		[]string{`glob(): "source/*.cu" matches no file`}},
	{`source-spelt`, ``, `executable "m" {
  sources = ["A.cu"]
  code    = ["sm_80"]
}
`,
		[]string{`there is no file A.cu; did you mean "a.cu"?`}},
	{`source-missing`, ``, `executable "m" {
  sources = ["src/other.cu"]
  code    = ["sm_80"]
}
`,
		[]string{`there is no file src/other.cu`}},
	{`comma`, ``, `executable "m" {
  sources = ["a.cu" "m.cpp"]
  code    = ["sm_80"]
}
`,
		[]string{`missing item separator`, `= help: Expected a comma to mark the beginning of the next item.`}},
	{`quotes`, ``, `executable "m" {
  sources = ['a.cu']
  code    = ["sm_80"]
}
`,
		[]string{`invalid character`, `= help: Single quotes are not valid. Use double quotes (") to enclose strings.`, `invalid expression`, `= help: Expected the start of an expression, but found an invalid expression token.`}},
	{`brace`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
`,
		[]string{`unclosed configuration block`, `There is no closing brace for this block`}},
	{`no-quotes`, ``, `executable m {
  sources = [a.cu]
}
`,
		[]string{`nothing is named "a" here`, `= help: If a file is meant, put it in quotes: "a.cu".`}},
	{`twice`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
}
executable "m" {
  sources = ["m.cpp"]
}
`,
		[]string{`executable "m" is declared twice`, `= help: Rename one of them.`}},
	{`dep-spelt`, ``, `library "solver" {
  sources = ["a.cu"]
  code    = ["sm_80"]
}
executable "m" {
  sources = ["m.cpp"]
  deps    = [library.solvr]
}
`,
		[]string{`no library named "solvr"; did you mean "solver"?`, `= help: Known: solver.`}},
	{`cycle`, ``, `library "a" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  deps    = [library.b]
}
library "b" {
  sources = ["m.cpp"]
  deps    = [library.a]
}
`,
		[]string{`library.a depends on itself`, `needs library.b (kernels.hcl:4:14)`}},
	{`flag-arch`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  flags   = { nvcc = ["-arch=sm_80"] }
}
`,
		[]string{`kbuild derives -arch=sm_80 itself`, `= help: Use the attribute gencode.`}},
	{`flag-std`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  flags   = { nvcc = ["-std=c++17"] }
}
`,
		[]string{`kbuild derives -std=c++17 itself`, `= help: Use the attribute std.`}},
	{`flag-rdc`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  flags   = { nvcc = ["-rdc=true"] }
}
`,
		[]string{`kbuild derives -rdc=true itself`, `= help: Use the attribute mode.`}},
	{`flags-list`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  flags   = ["-lineinfo"]
}
`,
		[]string{`flags needs a map by tool, such as { nvcc = ["-lineinfo"] }, not a list`}},
	{`mode-spelt`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  mode    = "dlto"
}
`,
		[]string{`mode = "dlto" is not known; did you mean "lto"?`, `= help: One of: whole, rdc, lto.`}},
	{`std-number`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  std     = 17
}
`,
		[]string{`std: "17" is not a standard of C or C++; did you mean "c++17"?`, `= help: Write for example "c++17", "gnu++17", "c11", or a list of one of each.`}},
	{`std-gnu`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  std     = "gnu++17"
}
`,
		[]string{`nvcc has no gnu++17, and a.cu is CUDA`, `= help: Set cuda_std = "c++17" beside it, for the CUDA sources.`}},
	{`no-main`, ``, `executable "m" {
  sources = ["n.cu"]
  code    = ["sm_80"]
}
`,
		[]string{`= help: no object that is built here defines main`}},
	{`prebuilt-missing`, ``, `prebuilt "p" {
  archive = "lib/libp.a"
}
executable "m" {
  sources = ["m.cpp"]
  deps    = [prebuilt.p]
}
`,
		[]string{`lib/libp.a: there is no such file`, `= help: Build or install it first; the path is relative to the manifest.`}},
	{`variable`, ``, `executable "m" {
  sources = ["a.cu"]
  code    = var.archs
}
`,
		[]string{`no variable named "archs"`, `= help: There is no variable in this manifest.`}},
	{`profile`, `--profile relase`, `profile "release" {
}
executable "m" {
  sources = ["m.cpp"]
}
`,
		[]string{`no profile named "relase"; did you mean "release"?`, `= help: Known: release.`}},
	{`arch-option`, `--arch sm90`, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
}
`,
		[]string{`--arch: "sm90" is not an architecture; did you mean "sm_90"?`, `= help: Pass for example --arch sm_80,sm_90, --arch native or --arch gfx90a.`}},
	{`arch`, ``, `executable "m" {
  sources = ["a.cu"]
  arch    = ["sm_80"]
}
`,
		[]string{`unknown attribute "arch" in executable; did you mean "code"?`}},
	{`arch-unknown`, `--arch sm_20`, `executable "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
}
`,
		[]string{`error: --arch sm_20: CUDA `, ` does not know it`}},
	{`target-spelt`, `mian`, `executable "main" {
  sources = ["m.cpp"]
}
`,
		[]string{`no target, source or output is called "mian"; did you mean main?`}},
	{`block-spelt`, ``, `libary "a" {
  sources = ["a.cu"]
}
`,
		[]string{`unknown block "libary" in a manifest; did you mean "library"?`}},
	{`attribute-as-block`, ``, `executable "m" {
  sources {
  }
}
`,
		[]string{`executable "m" has no sources`, `= help: Write for example sources = glob("src/*.cu").`, `unknown block "sources" in executable`, `= help: sources is an attribute: write sources = [ ... ].`}},
	{`emit-spelt`, ``, `module "m" {
  sources = ["a.cu"]
  code    = ["sm_80"]
  emit    = ["cubins"]
}
`,
		[]string{`emit: "cubins" is not a kind of device code file; did you mean "cubin"?`, `= help: Known: bitcode, cubin, fatbin, hsaco, ltoir, ptx.`}},
	{`command-string`, ``, `generate "g" {
  command = "python3 gen.py"
  outputs = ["x.h"]
}
`,
		[]string{`command needs a list of strings, not a string`, `= help: Write command = ["python3", "gen.py"].`}},
	{`command-missing`, ``, `generate "g" {
  command = ["pyhton3", "gen.py"]
  outputs = ["x.h"]
}
`,
		[]string{`generate.g: pyhton3 was not found in PATH`}},
	{`output-not-written`, ``, `generate "g" {
  command = ["true"]
  outputs = ["x.h"]
}
`,
		[]string{`the command ended well and did not write build/gen/g/x.h`}},
	{`sources-string`, ``, `executable "m" {
  sources = "m.cpp"
}
`,
		[]string{`sources needs a list of strings, not a string`, `= help: Write sources = ["m.cpp"].`}},
	{`function`, ``, `executable "m" {
  sources = globs("*.cpp")
}
`,
		[]string{`no function named "globs"; did you mean "glob"?`}},
	{`lib-file`, ``, `executable "m" {
  sources = ["m.cpp"]
  libs    = ["libz.so"]
}
`,
		[]string{`libs takes names, and libz.so is a file`, `= help: Write "z"; one of the project's is a target in deps, one that lies elsewhere a prebuilt block, or has its folder in lib_dirs.`}},
	{`lib-dash`, ``, `executable "m" {
  sources = ["m.cpp"]
  libs    = ["-lm"]
}
`,
		[]string{`libs takes names, not options`, `= help: Write "m".`}},
	{`define-dash`, ``, `executable "m" {
  sources = ["m.cpp"]
  defines = { "-DX" = "1" }
}
`,
		[]string{`"-DX" is not the name of a macro`, `= help: Write defines = { NAME = value }; null gives -DNAME.`}},
	{`define-list`, ``, `executable "m" {
  sources = ["m.cpp"]
  defines = ["X=1"]
}
`,
		[]string{`defines needs a map, not a list`}},
	{`var-option`, `--var opt=3`, `executable "m" {
  sources = ["m.cpp"]
}
`,
		[]string{`--var opt: no variable named "opt"`, `= help: There is no variable in this manifest.`}},
	{`jobs`, `-j many`, `executable "m" {
  sources = ["m.cpp"]
}
`,
		[]string{`--jobs: "many" is not a number of processes; write 1 or more, or leave -j out for one for each processor`}},
	{`output-folder`, ``, `executable "m" {
  sources     = ["m.cpp"]
  output_name = "tools/m"
}
`,
		[]string{`"tools/m" is not a name for a file`, `= help: Letters, digits and _ . + - may be used, and no folder; lib and the ending are added.`}},
	{`header-source`, ``, `executable "m" {
  sources = ["m.cpp", "x.h"]
}
`,
		[]string{`x.h is a header`, `= help: Drop it from sources: compilers find headers through includes, and kbuild learns which were read.`}},
}

func TestTyped(t *testing.T) {
	t.Parallel()
	for _, m := range typed {
		t.Run(m.name, func(t *testing.T) {
			p := e2e.New(t)
			for file, text := range map[string]string{"kernels.hcl": m.manifest, "a.cu": "__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n",
				"m.cpp": "int main() {}\n", "n.cu": "__global__ void k() {}\n", "x.h": "", "gen.py": ""} {
				p.Write(file, text)
			}
			printed, status := p.Status(nil, append([]string{"kbuild"}, strings.Fields(m.args)...)...)
			if status == 0 {
				t.Errorf("it ends well:\n%s", printed)
			}
			for _, want := range m.want {
				if !strings.Contains(printed, want) {
					t.Errorf("it does not say %q:\n%s", want, printed)
				}
			}
			if len(m.want) == 0 {
				t.Error("nothing is wanted")
			}
		})
	}
}
