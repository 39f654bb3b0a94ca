package manifest

import (
	"slices"
	"strings"
)

// Attributes of several kinds of blocks.

// saying returns a copy for another kind of block, with its own text and without a default.
func (a Attribute) saying(text string) Attribute {
	a.Text, a.Default = text, ""
	return a
}

func (a Attribute) required() Attribute {
	a.Required = true
	return a
}

var (
	attrSources = Attribute{Name: "sources", Type: StringsType, Required: true,
		Example: `sources = ["src/a.cu", "src/main.cpp"]`, See: "language.md#sources", path: true,
		missing: `Write for example sources = glob("src/*.cu").`,
		Text: "The source files, mostly from `glob`. `.c`, `.cc`, `.cpp`, `.cxx`, `.c++` and " +
			"`.C` are for the host compiler, `.cu` for the compiler of the code that the target " +
			"ships, `.hip` for HIP, `.s` and `.S` for the assembler. Headers are found by the " +
			"compiler and are not listed. `[]` makes a library of headers.",
		Becomes: "`nvcc -c` and `g++ -c`, a command for each file"}
	attrDeps = Attribute{Name: "deps", Type: ReferencesType, Example: "deps = [library.solver]",
		Text: "Targets that are built first. They contribute their include folders, link inputs " +
			"and libraries.", Becomes: "`-I` of include folders, and files of links"}
	attrPublicHeaders = Attribute{Name: "public_headers", Type: StringsType,
		Example: `public_headers = glob("include/**/*.h")`, See: "install.md#headers", path: true,
		Text: "Headers that `kbuild install` installs with the target, mostly from `glob`, or " +
			"the `outputs` of a `generate` block. Their folders below that of `includes` stay: " +
			"`include/solver/api.h` becomes `PREFIX/include/solver/api.h`."}
	attrCode = Attribute{Name: "code", Type: StringsType, Example: `code = ["sm_80", "compute_80"]`,
		See: "language.md#device-code",
		Text: "The device code to ship: `sm_80` is machine code (SASS), `compute_80` PTX, " +
			"`lto_80` LTO-IR for linking at run time, `gfx90a` (or `gfx11-generic`, " +
			"`amdgcnspirv`) AMD code. `native`, `all` and `all-major` are expanded by kbuild. " +
			"`--arch` replaces machine code and PTX.",
		Becomes: "`-gencode arch=compute_80,code=sm_80 -gencode " +
			"arch=compute_80,code=compute_80`; HIP: `--offload-arch=gfx90a`"}
	attrIncludes = Attribute{Name: "includes", Type: StringsType, Example: `includes = ["include"]`,
		path: true, option: "-I",
		Text:    "Folders of headers. Targets that depend on the target search them too.",
		Becomes: "`-Iinclude`"}
	attrStd = Attribute{Name: "std", Type: StandardType, Default: "that of the compiler",
		Example: `std = ["c++17", "c11"]`,
		Text:    "The standard of C++ and CUDA sources, or of C sources, or one of each.",
		Becomes: "`-std=c++17`, `-std=c11`"}
	attrCUDAStd = Attribute{Name: "cuda_std", Type: StandardType, Default: "`std`",
		Example: `cuda_std = "c++17"`,
		Text: "The standard of CUDA and HIP sources, where it is not that of C++: nvcc has no " +
			"`gnu++17`, for one.", Becomes: "`-std=c++17`"}
	attrOpt = Attribute{Name: "opt", Type: StringType,
		Words:   []string{"0", "1", "2", "3", "s", "fast"},
		Default: "2 without `debug` and `device_debug`, else that of the compiler; 3 for HIP",
		Example: "opt = 3",
		Text: "The optimisation level of host code, and of device code where clang or hipcc " +
			"compiles it.", Becomes: "`-O3`"}
	attrLibs = Attribute{Name: "libs", Type: StringsType, Example: `libs = ["cufft_static"]`,
		See: "language.md#prebuilt-code", option: "-l",
		Text: "System libraries to link, without `-l`.", Becomes: "`-lcufft_static`"}
	attrLibDirs = Attribute{Name: "lib_dirs", Type: StringsType, Example: `lib_dirs = ["lib"]`,
		path: true, option: "-L", Text: "Folders to search for `libs`.", Becomes: "`-Llib`"}
	attrLabels = Attribute{Name: "labels", Type: StringMapType,
		Example: `labels = { team = "solvers" }`,
		Text:    "Words of your own. They have no effect on the build."}
	attrMemory = Attribute{Name: "memory", Type: SizeType,
		Default: "what the last run took, or a guess by the kind of action",
		Example: `memory = "6GiB"`, See: "scheduling.md#memory",
		Text: "The memory that a large step of the target needs at its peak. kbuild runs " +
			"together what fits into `--mem`."}
	attrMode = Attribute{Name: "mode", Type: StringType, Words: []string{"whole", "rdc", "lto"},
		Default: `"whole"`, Example: `mode = "lto"`, See: "language.md#modes",
		Text: "When device code is optimised. `whole`: each file by itself, without calls into " +
			"others. `rdc`: relocatable device code, joined by nvlink. `lto`: LTO-IR, optimised " +
			"across files by nvlink.",
		Becomes: "`-dc`, `code=lto_80` of `-gencode`, and `-dlink -dlto`; `rdc`: `-dc` and " +
			"`-dlink`; `whole`: `-c`; HIP: `-fgpu-rdc -foffload-lto`, `-fgpu-rdc`, `-fno-gpu-rdc`"}
	attrDefines = Attribute{Name: "defines", Type: StringMapType,
		Example: "defines = { TILE = 64, FAST = true, NDEBUG = null }",
		Text: "Macros with their values. `null` defines the name alone, `true` is 1 and `false` " +
			"is 0.", Becomes: "`-DTILE=64`, `-DFAST=1`, `-DNDEBUG`"}
	attrLanguage = Attribute{Name: "language", Type: StringType,
		Words: []string{"c", "c++", "cuda", "hip", "asm"}, Default: "by the ending of the file",
		Example: `language = "cuda"`, See: "language.md#assembler",
		Text:    "The language of the sources, if their endings say another one or none.",
		Becomes: "`-x cu`; `-x c++`, `-x c`, `-x hip`, `-x assembler-with-cpp`"}
	attrFlags = Attribute{Name: "flags", Type: KeysType,
		Example: `flags = { nvcc = ["-diag-suppress", "177"], host = ["-Wall"] }`,
		See:     "language.md#flags",
		Text: "Options for which there is no attribute, by the tool that gets them. kbuild " +
			"refuses options that it derives itself, and names the attribute to use.",
		Keys: []Attribute{
			flagsOf("nvcc", `["-diag-suppress", "177"]`,
				"nvcc's compiles; those for fatbinary hold for its links, too",
				"`-diag-suppress 177`"),
			flagsOf("cicc", `["-opt-byval=1"]`, "cicc, the device compiler of nvcc",
				"`-Xcicc -opt-byval=1`"),
			flagsOf("ptxas", `["-v"]`, "ptxas, the assembler",
				"`-Xptxas -v`; clang: `-Xcuda-ptxas -v`"),
			flagsOf("nvlink", `["-w"]`, "nvlink, in device links", "`-Xnvlink -w`"),
			flagsOf("hip", `["-munsafe-fp-atomics"]`, "hipcc, in compiles for AMD GPUs",
				"the option, verbatim"),
			flagsOf("lld", `["-plugin-opt=O3"]`, "lld, in device links of AMD code",
				"the option, verbatim; behind `-Xoffload-linker` where hipcc runs as one command"),
			flagsOf("clang", `["-ffp-contract=off"]`, "clang, where it compiles CUDA",
				"the option, verbatim"),
			flagsOf("host", `["-Wall"]`,
				"the host compiler, also of the host half of CUDA and HIP sources",
				"`-Wall`, `-Xcompiler -Wall`; clang: `-Xarch_host -Wall`"),
			flagsOf("link", `["-Wl,--gc-sections"]`, "links of programs and shared libraries",
				"`-Wl,--gc-sections`"),
		}}
	floatAttributes = []Attribute{
		{Name: "fast_math", Type: BoolType,
			Text: "Fast, less exact arithmetic in device code: it sets `ftz`, and clears " +
				"`prec_div` and `prec_sqrt`. " + ltoText,
			Becomes: "`-use_fast_math`; clang and HIP: `-Xarch_device -ffast-math`"},
		floatOption("ftz", "Flush denormal numbers to zero.",
			"as `fast_math`", "clang and HIP: `-Xarch_device -fgpu-flush-denormals-to-zero`"),
		floatOption("prec_div",
			"Divide with correct rounding.", "true without `fast_math`",
			"HIP, together with `prec_sqrt`: "+rounding),
		floatOption("prec_sqrt",
			"Take square roots with correct rounding.", "true without `fast_math`",
			"HIP, together with `prec_div`: "+rounding),
		floatOption("fmad",
			"Join multiplications and additions.", "true",
			"clang and HIP: `-Xarch_device -ffp-contract=fast`, or `=off`"),
	}
)

const (
	ltoText  = "It must agree across an LTO link."
	rounding = "`-Xarch_device -fhip-fp32-correctly-rounded-divide-sqrt`; an error for clang"
)

func flagsOf(tool, example, of, becomes string) Attribute {
	return Attribute{Name: tool, Type: StringsType,
		Example: "flags = { " + tool + " = " + example + " }", Text: "Options of " + of + ".",
		Becomes: becomes}
}

func floatOption(name, text, otherwise, clang string) Attribute {
	option := "-" + strings.ReplaceAll(name, "_", "-")
	return Attribute{Name: name, Type: BoolType, Default: otherwise, Text: text + " " + ltoText,
		Becomes: "`" + option + "=true`; " + clang}
}

// compileAttributes control how sources are compiled and linked.
func compileAttributes() []Attribute {
	return slices.Concat([]Attribute{
		{Name: "gencode", Type: ReferenceType, Example: "gencode = gencode.server",
			See: "language.md#device-code",
			Text: "The gencode block with the device code to ship. A target has `gencode` or " +
				"`code`. A target with host sources only needs neither: a program then inherits " +
				"the code of its libraries.", Becomes: "what the `code` of the block becomes"},
		attrCode, attrMode,
		attrStd, attrCUDAStd, attrIncludes,
		{Name: "private_includes", Type: StringsType, Example: `private_includes = ["src"]`,
			path: true, option: "-I",
			Text: "Folders of headers for the sources of the target alone: what depends on it " +
				"does not search them.", Becomes: "`-Isrc`, behind `includes`"},
		attrDefines, attrLibs, attrLibDirs,
		{Name: "cudart", Type: StringType, Words: []string{"static", "shared", "none"},
			Default: `"static"`, Example: `cudart = "shared"`,
			Text: "Which runtime of CUDA a program links. With `none` no runtime of HIP is " +
				"linked either.", Becomes: "`-lcudart`; `static`: `-lcudart_static`"},
		attrOpt,
		{Name: "debug", Type: BoolType, Text: "Debug information of host code.",
			Becomes: "`-g`; HIP and clang: `-Xarch_host -g`"},
		{Name: "device_debug", Type: BoolType,
			Text: "Debug information of device code, without optimisation. It is refused in an " +
				"LTO link.", Becomes: "`-G`; HIP and clang: `-Xarch_device -g`"},
		{Name: "lineinfo", Type: BoolType, Text: "Line numbers of device code, for profilers.",
			Becomes: "`-lineinfo`; HIP and clang: `-Xarch_device -gline-tables-only`"},
	}, floatAttributes, []Attribute{
		{Name: "max_registers", Type: NumberType, Min: 1, Max: 255, Default: "no limit",
			Example: "max_registers = 64",
			Text: "The most registers that a thread of a kernel may use. AMD code has no such " +
				"limit: it is an error there.",
			Becomes: "`-maxrregcount=64`; clang: `-Xcuda-ptxas --maxrregcount=64`"},
		attrFlags, attrMemory, attrLanguage, attrLabels,
		{Name: "split", Type: BoolType, Default: "true", Example: "split = false", See: "passes.md",
			Text: "Whether kbuild splits nvcc's compiles into passes, so that an edit runs few " +
				"of them. `false` runs nvcc as one command.",
			Becomes: "`nvcc -c`, one command for all architectures"},
		{Name: "strip_unused", Type: BoolType, See: "language.md#device-links",
			Text: "Whether a device link removes the kernels and variables that host code refers " +
				"to by no symbol, even if they could be looked up by name at run time.",
			Becomes: "a device link without `nvlink -ignore-host-info`"},
		{Name: "lto_floats", Type: BoolType, Default: "true, with a warning where it matters",
			See: "nvcc.md#cuda-13",
			Text: "Whether an LTO link computes as its code was compiled. nvlink of CUDA 13 " +
				"forgets `ftz`, `prec_div` and `fmad`, and is told. `false` makes what plain " +
				"`nvcc -dlto` makes.",
			Becomes: "`nvlink -Xnvvm=-ftz=1,-prec-div=0,-fma=1` where nvlink forgets them and " +
				"they are not the defaults"},
		{Name: "lto_group", Type: StringType, Reserved: true, Example: `lto_group = "a"`,
			Text: "Reserved for parts of a large LTO link."},
	})
}

// hostAttributes are for blocks with host code of their own, which modules do not have.
func hostAttributes() []Attribute {
	return []Attribute{
		{Name: "host_lto", Type: StringType, Words: []string{"thin", "full", "none"},
			Default: `"none"`, Example: `host_lto = "full"`, See: "host-lto.md",
			Text:    "Optimisation of C and C++ across files. `thin` needs clang.",
			Becomes: "`-flto`; clang: `-flto=full`, `-flto=thin`"},
	}
}
