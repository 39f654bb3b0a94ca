package manifest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
)

var (
	// packageVersion matches the versions that CMake can compare.
	packageVersion = pattern(`^[0-9]{1,9}(\.[0-9]{1,9}){0,3}$`)
	// soVersion matches the part of a file name after lib*.so.
	soVersion   = pattern(`^[0-9][0-9A-Za-z]*(\.[0-9A-Za-z]+)*$`)
	toolkitPart = pattern(`^[a-z0-9]+([-_.][a-z0-9]+)*$`)
)

func isConstraint(s string) error {
	if s == "" {
		return nil // as if it were not set
	}
	_, err := ParseConstraint(s)
	return err
}

func isAddress(s string) error {
	_, err := cache.ParseAddress(s)
	return err
}

func isFileBelow(s string) error {
	if p := cleanPath(s); p != "." && filepath.IsLocal(p) {
		return nil
	}
	return fmt.Errorf("%q is not a file in that folder", s)
}

// Schema returns the description of the whole manifest. It is built at the first call: a null build
// needs none.
var Schema = sync.OnceValue(func() *Block {
	b := manifestBlock()
	b.complete()
	return b
})

// complete sets what a row of a boolean leaves out: it is false by default.
func (b *Block) complete() {
	for i := range b.Attributes {
		if a := &b.Attributes[i]; a.Type == BoolType && !a.Required {
			a.Default, a.Example = cmp.Or(a.Default, "false"), cmp.Or(a.Example, a.Name+" = true")
		}
	}
	for _, n := range b.Blocks {
		n.complete()
	}
}

func manifestBlock() *Block {
	return &Block{Name: "a manifest", Blocks: []*Block{{
		Name: "kbuild", Once: true,
		Text: "Which versions of kbuild can read the manifest.",
		Example: `kbuild {
  required_version = ">= 0.1"
}`,
		Attributes: []Attribute{
			{Name: "required_version", Type: StringType,
				Example: `required_version = ">= 0.1, < 2"`, form: &form{check: isConstraint},
				Text: "The versions of kbuild that the manifest was written for. Another kbuild " +
					"refuses it. " + constraintText},
		},
	}, {
		Name: "package", Once: true, Root: true, See: "install.md",
		Text: "The name under which CMake and pkg-config find what `kbuild install` installs.",
		Example: `package {
  name    = "solver"
  version = "1.4.0"
}`,
		Attributes: []Attribute{
			{Name: "name", Type: StringType, Required: true, Example: `name = "solver"`,
				See: "install.md",
				form: &form{valid: targetName, what: "name for a package",
					help: "Letters, digits and _ . + - may be used: it becomes the name of files."},
				Text:    "The name of the package. CMake knows its libraries as `NAME::LIBRARY`.",
				Becomes: "`solverConfig.cmake` for `find_package(solver)`, and `solver.pc`"},
			{Name: "version", Type: StringType, Default: "none", Example: `version = "1.4.0"`,
				See: "install.md",
				form: &form{valid: packageVersion, what: "version of a package",
					help: `Write up to four numbers, as in "1.4.0": CMake compares them.`},
				Text: "Numbers with dots between them. CMake accepts the version for a request " +
					"with the same first number that is not newer."},
			{Name: "description", Type: StringType,
				Example: `description = "Sparse solvers for GPUs."`,
				Text:    "What the package is for, in a line."},
		},
	}, {
		Name: "cache", Once: true, Root: true, See: "remote.md#in-kernelshcl",
		Text: "A cache on another machine, for everybody who builds the project.",
		Example: `cache {
  remote = "grpcs://cache.example:8980/instance"
}`,
		Attributes: []Attribute{
			{Name: "remote", Type: StringType, Default: "none",
				Example: `remote = "grpcs://cache.example:8980/instance"`, See: "remote.md",
				form: &form{check: isAddress, help: "Where there is none, write null."},
				Text: "The address: `grpc://`, `grpcs://`, `http://` or `https://`. `--remote` " +
					"and `KBUILD_REMOTE` override it; an empty value means none. Credentials are " +
					"sent only to the servers in the user's `KBUILD_REMOTE_HOSTS`."},
			{Name: "read_only", Type: BoolType, See: "remote.md#who-can-poison-whom",
				Text: "Whether builds write nothing to a remote cache. `--remote-read-only` and " +
					"`KBUILD_REMOTE_READ_ONLY` forbid it too, and nothing allows it again. Where " +
					"some may write, let a variable decide."},
		},
	}, {
		Name: "variable", Label: "a name", See: "language.md#variables",
		Text: "An input of the manifest, read as `var.NAME`. It is set by `--var`, the " +
			"environment, `kernels.local.hcl` or a profile.",
		Example: `variable "archs" {
  type        = list(string)
  default     = ["sm_80", "sm_90"]
  description = "Code to ship."
}`,
		Attributes: []Attribute{
			{Name: "type", Type: TypeType,
				Default: "the type of `default`, if that is a string, number or bool; else any",
				Example: "type = list(string)",
				Text: "The type to which values are converted: `string`, `number`, `bool`, " +
					"`any`, or a `list`, `set`, `map`, `object` or `tuple` of types."},
			{Name: "default", Type: AnyType, Default: "none: the variable must be set",
				Example: `default = ["sm_80"]`, Text: "The value if nothing else sets one."},
			{Name: "description", Type: StringType, Example: `description = "Code to ship."`,
				Text: "What the variable is for."},
		},
		Blocks: []*Block{{
			Name: "validation",
			Text: "A condition on the value that is used. A variable may have several.",
			Example: `variable "jobs" {
  default = 4
  validation {
    condition     = var.jobs > 0
    error_message = "Use a positive number."
  }
}`,
			Attributes: []Attribute{
				{Name: "condition", Type: BoolType, Required: true,
					Example: "condition = var.x > 0",
					Text: "An expression that is true for allowed values. It reads the value as " +
						"`var.NAME`."},
				{Name: "error_message", Type: StringType, Required: true,
					Example: `error_message = "Use a positive number."`,
					Text:    "The error message if the condition is false."},
			},
		}},
	}, {
		Name: "locals", Open: "values",
		Text: "Named values, read as `local.NAME`. There may be several such blocks.",
		Example: `locals {
  kernels = glob("src/*.cu")
}`,
	}, {
		Name: "profile", Label: "a name", Root: true, Open: "variables",
		Text: "Values of variables for `--profile NAME`, which builds under `build/NAME`.",
		Example: `variable "lto" {
  default = true
}

profile "dev" {
  lto = false
}`,
	}, {
		Name: "toolchain", Label: `"cuda" or "hip"`, Root: true,
		Text: "The compiler to use, and the version that it must have.",
		Example: `toolchain "cuda" {
  version = ">= 11.8"
}`,
		Attributes: []Attribute{
			{Name: "compiler", Type: StringType,
				Default: "`nvcc` or `hipcc`, as `CUDA_HOME`, `ROCM_PATH` or PATH has it",
				Example: `compiler = "nvcc"`, See: "clang-cuda.md",
				Text: "A name or path of the compiler: `nvcc` or a clang for `cuda`, `hipcc` or " +
					"the clang of ROCm for `hip`."},
			{Name: "host_compiler", Type: StringType, Default: "the g++ that the toolkit supports",
				Example: `host_compiler = "g++-11"`,
				Text:    "A name or path of the compiler of C, C++ and the host half of CUDA sources.",
				Becomes: "`nvcc -ccbin`, and the program of host compiles and links"},
			{Name: "version", Type: StringType, Default: "any",
				Example: `version = ">= 11.8, < 13"`, form: &form{check: isConstraint},
				Text: "The versions of the toolkit that are allowed. " + constraintText + " With " +
					"`from = \"pypi\"` it is one version, such as `13.5.0`."},
			{Name: "from", Type: StringType, Words: []string{"system", "pypi"}, Default: `"system"`,
				Example: `from = "system"`, See: "toolkits.md",
				Text: "Where the CUDA toolkit comes from. `system`: it is installed. `pypi`: " +
					"NVIDIA's packages of exactly one `version`, which `kbuild toolkit lock` " +
					"pins and `kbuild toolkit install` installs."},
			{Name: "path", Type: StringType, Example: `path = "third_party/cuda"`,
				See: "toolkits.md", path: true,
				Text: "The folder of an installed CUDA toolkit, relative to the manifest. It has " +
					"`bin/nvcc`."},
			{Name: "parts", Type: StringsType, Example: "parts = []", See: "toolkits.md",
				form: &form{valid: toolkitPart, what: "part of a toolkit",
					help: "Extras of cuda-toolkit have names such as cublas."},
				Text: "With `from = \"pypi\"`: further parts of the toolkit, named as the extras " +
					"of PyPI's `cuda-toolkit`: `cublas`, `nvjitlink`, `nvdisasm`."},
		},
	}, {
		Name: "gencode", Label: "a name",
		Text: "A named list of device code to ship: targets set `gencode = gencode.NAME`.",
		Example: `gencode "server" {
  code = ["sm_80", "sm_90", "compute_90"]
}`,
		Attributes: []Attribute{
			attrCode.required(),
			{Name: "arch_list", Type: StringsType, Default: "the architectures of `code`",
				Example: `arch_list = ["sm_70", "sm_80", "sm_90"]`, See: "passes.md",
				Text: "The architectures in `__CUDA_ARCH_LIST__`, in every pass. With the full " +
					"list of a project, a build with `--arch sm_90` shares cache entries with " +
					"full builds, even where CUB puts the list into its namespace.",
				Becomes: "`-D__CUDA_ARCH_LIST__=700,800,900` of cicc's and cudafe++'s passes, " +
					"where nvcc is split"},
		},
	}, {Name: importKind, Label: "a path", Example: `import "math/kernels.hcl" {}`,
		See: "language.md#several-manifests",
		Text: "Adds the manifest of a subfolder. Its names get the folder as a prefix: `library " +
			"\"vec\"` of `math/kernels.hcl` is `library[\"math/vec\"]` in references."}, {
		Name: "defaults", Once: true,
		Text: "Values of attributes that libraries, executables and modules do not set. A " +
			"target's own value replaces that of `defaults`; lists and maps are not merged.",
		Example: `defaults {
  code = ["sm_80"]
  std  = "c++17"
}`,
		Attributes: slices.Concat(compileAttributes(), hostAttributes()),
	}, {
		Name: "library", Label: "a name", Target: true, Inherits: "defaults",
		Text: "A static library, `build/lib/libNAME.a`, or a shared one.",
		Example: `library "solver" {
  sources = ["src/a.cu"]
  code    = ["sm_80"]
}`,
		Attributes: slices.Concat([]Attribute{attrSources, attrDeps,
			{Name: "type", Type: StringType, Words: []string{"static", "shared"},
				Default: `"static"`, Example: `type = "shared"`,
				Text: "Whether the library is `build/lib/libNAME.a` or `build/lib/libNAME.so`. A " +
					"shared library has its own device link.",
				Becomes: "`-shared -Wl,-soname,libx.so`, and `-fPIC` of its compiles; for a " +
					"static library `ar qcsD`"},
			{Name: "device_link", Type: BoolType, See: "language.md#device-links",
				Text: "Whether a static library gets its own device link, for programs that " +
					"other build tools link. A shared library always has one.",
				Becomes: "`nvcc -dlink`, whose object is a member of the archive"},
			attrAlwaysLink,
			{Name: "soversion", Type: StringType, Default: "none", Example: `soversion = "1"`,
				See: "install.md#shared-libraries",
				form: &form{valid: soVersion, what: "version of a shared library",
					help: `Write for example "1", for libNAME.so.1.`},
				Text: "The version of the interface of a shared library. Programs load " +
					"`libNAME.so.SOVERSION`, also when a library with another `soversion` is " +
					"installed beside it.",
				Becomes: "`-Wl,-soname,libx.so.1`, and `libx.so.1` beside `libx.so`"},
			attrOutputName("`build/lib/libNAME.a` or `.so`"),
			attrForEach("a library", "The target is library.NAME[\"KEY\"]."),
			attrPublicHeaders,
		}, compileAttributes(), hostAttributes()),
		Blocks: []*Block{partitionBlock()},
	}, {
		Name: "executable", Label: "a name", Target: true, Inherits: "defaults",
		Text: "A program, `build/bin/NAME`.",
		Example: `executable "bench" {
  sources = ["src/main.cpp", "src/a.cu"]
  code    = ["sm_80"]
}`,
		Attributes: slices.Concat([]Attribute{attrSources, attrDeps, attrOutputName("`build/bin/NAME`"),
			attrForEach("a program", "The target is executable.NAME[\"KEY\"]."),
		}, compileAttributes(), hostAttributes()),
		Blocks: []*Block{partitionBlock()},
	}, {
		Name: "module", Label: "a name", Target: true, Inherits: "defaults", See: "modules.md",
		Text: "Device code to load at run time: files below `build/modules`, which programs may " +
			"embed.",
		Example: `module "gemm" {
  sources = ["src/gemm.cu"]
  code    = ["sm_80"]
  emit    = ["cubin", "ptx"]
}`,
		Attributes: slices.Concat([]Attribute{attrSources, attrDeps,
			{Name: "emit", Type: StringsType,
				Words:   []string{"ptx", "cubin", "fatbin", "ltoir", "hsaco", "bitcode"},
				Default: `["fatbin"]`, Example: `emit = ["cubin"]`, See: "modules.md",
				Text: "The files to write: `cubin`, `ptx` and `ltoir` are one for each " +
					"architecture, `fatbin` is one for all. AMD code has `hsaco`, `bitcode` and " +
					"`fatbin`.",
				Becomes: "`nvcc -cubin`; or `-ptx`, `-fatbin`, and for `ltoir` the file that " +
					"`--keep` leaves"},
			{Name: "late_bound", Type: StringsType, Example: `late_bound = ["callback"]`,
				See: "modules.md",
				Text: "Functions that the LTO-IR calls and the program defines when it links at " +
					"run time. `--check-link` accepts them. The parameters of a C++ function may " +
					"be left out: `ops::apply`."},
			{Name: "matrix", Type: ListsType, Example: "matrix = { tile = [64, 128] }",
				See: "language.md#matrices",
				Text: "Axes and their values. The module has an instance for each combination, " +
					"in which other attributes read `matrix.AXIS`."},
			{Name: "exclude", Type: MapsType, Example: "exclude = [{ tile = 128 }]",
				See: "language.md#matrices",
				Text: "Combinations to leave out: a map excludes the instances that have all its " +
					"values."},
			attrPublicHeaders,
		}, compileAttributes()),
		Blocks: []*Block{partitionBlock(), {
			Name: "embed", Once: true, See: "language.md#embedding",
			Text: "Puts the files of the module into an object with a table and a C header. " +
				"Targets that depend on the module link the object.",
			Example: `module "gemm" {
  sources = ["src/gemm.cu"]
  code    = ["sm_80"]

  embed {
    symbol = "gemm"
  }
}`,
			Attributes: []Attribute{{Name: "symbol", Type: StringType, Required: true,
				Example: `symbol = "gemm"`,
				form: &form{valid: identifierRE, what: "C identifier",
					help: "Letters, digits and underscores; it becomes a name in a C header."},
				Text: "The name of the table, and of the header `NAME.h`. It is a C identifier."}},
		}},
	}, {
		Name: "prebuilt", Label: "a name", Target: true, See: "language.md#prebuilt-code",
		Text: "A library that another tool built, or device code to link: an `archive` or a " +
			"`shared` file. kbuild opens the file and checks what the block says. `fast_math`, " +
			"`ftz`, `prec_div`, `prec_sqrt` and `fmad` say how bare LTO-IR was compiled.",
		Example: `prebuilt "spectra" {
  archive = "third_party/libspectra.a"
  lto     = "none"
}`,
		Attributes: slices.Concat([]Attribute{
			{Name: "archive", Type: StringType, Example: `archive = "third_party/libspectra.a"`,
				path: true,
				Text: "The path of an archive, an object, a fatbin from `nvcc -dc`, or bare " +
					"LTO-IR.", Becomes: "the path in device links and host links"},
			{Name: "shared", Type: StringType, Example: `shared = "third_party/libspectra.so"`,
				path: true, Text: "The path of a shared library.",
				Becomes: "the path in host links, with `-Wl,-rpath`"},
			attrIncludes.saying("Folders of headers, for the targets that depend on the block."),
			attrLibs.saying("Libraries that the file needs, without `-l`."),
			attrLibDirs.saying("Folders with the libraries that the file needs."),
			{Name: "lto", Type: StringType, Words: []string{"required", "none"},
				Default: "an LTO link refuses a file without LTO-IR", Example: `lto = "none"`,
				Text: "What an LTO link does with a file without LTO-IR: `required` refuses it, " +
					"`none` links its machine code, which is not optimised with the rest."},
			attrAlwaysLink, attrDeps, attrLabels,
		}, floatAttributes),
	}, {
		Name: "generate", Label: "a name", Target: true, See: "language.md#generated-files",
		Text: "A command that writes files into `build/gen/NAME`. Dependent targets have that " +
			"folder on their include path.",
		Example: `generate "tables" {
  command = ["python3", "tools/tables.py", self.outputs[0]]
  inputs  = ["tools/tables.py"]
  outputs = ["tables.cuh"]
}`,
		Attributes: []Attribute{
			{Name: "command", Type: StringsType, Required: true,
				Example: `command = ["python3", "tools/tables.py", self.outputs[0]]`,
				Text: "The program and its arguments. It runs in the root of the project, " +
					"without a shell. It can use `self.outputs`, `self.inputs`, `self.depfile`, " +
					"`self.dir` (`build/gen/NAME`), `self.source_dir` (the folder of the " +
					"manifest) and `self.name`.", Becomes: "the argv, verbatim"},
			{Name: "inputs", Type: StringsType, Example: `inputs = ["tools/tables.py"]`, path: true,
				exists: true,
				Text:   "Files that the command reads. It runs again when one of them changes."},
			{Name: "outputs", Type: StringsType, Required: true,
				Example: `outputs = ["tables.cuh"]`, path: true,
				Text: "Files that the command writes, relative to `build/gen/NAME`. Other blocks " +
					"read their paths as `generate.NAME.outputs`. Patterns (`*.cu`, `**/*.h`) " +
					"and folders (`src/`) are for files whose names the command chooses."},
			{Name: "depfile", Type: StringType, Example: `depfile = "tables.d"`,
				form: &form{check: isFileBelow,
					help: "It is relative to the folder that the command writes to."},
				Text: "A file in `build/gen/NAME` that names the files which the command has " +
					"read, as make rules (`-MD` of compilers). The command runs again when one " +
					"of them changes. `self.depfile` is its path. kbuild removes it after " +
					"reading it, unless it is one of `outputs`."},
			attrDeps, attrMemory, attrLabels,
		},
	}, {
		Name: "test", Label: "a name", See: "test.md",
		Text: "A program that `kbuild test` builds and runs in the root of the project. It " +
			"passes if its exit status is 0. It runs again only after its program, data, " +
			"arguments or environment changed.",
		Example: `executable "check" {
  sources = ["src/util.c"]
}

test "check" {
  executable = executable.check
  args       = ["--fast"]
}`,
		Attributes: []Attribute{
			attrForEach("a test", "The test of a key is `NAME:KEY`."),
			{Name: "executable", Type: ReferenceType, Required: true,
				Example: "executable = executable.check", Text: "The program."},
			{Name: "args", Type: StringsType, Example: `args = ["--size", "1024"]`,
				Text: "Its arguments. Files that they name count as data."},
			{Name: "data", Type: StringsType, Example: `data = glob("data/*.bin")`, path: true,
				exists: true,
				Text:   "Files that it reads. Changes of other files do not run the test again."},
			{Name: "deps", Type: ReferencesType, Example: "deps = [library.solver]",
				Text: "Targets whose files it reads or loads when it runs: modules, programs, " +
					"shared libraries. They are built first, and their files are data."},
			{Name: "env", Type: StringMapType, Example: `env = { OMP_NUM_THREADS = "2" }`,
				Text: "Environment variables, besides those that commands of a build have."},
			{Name: "needs_gpu", Type: BoolType,
				Text: "Whether the test needs a GPU. Without one it is skipped, and kbuild " +
					"reports that. Such tests run one at a time, and again on another GPU or " +
					"with another driver."},
			{Name: "timeout", Type: DurationType, Default: "none", Example: `timeout = "90s"`,
				Text: "The time after which the test and its processes are killed, and it has " +
					"failed."},
			{Name: "cache", Type: BoolType, Default: "true", Example: "cache = false",
				Text: "Whether a passed test is remembered. `false` runs it each time."},
			attrMemory,
		},
	}, {
		Name: "group", Label: "a name",
		Text: "A name for several targets on the command line. `group \"default\"` is what " +
			"`kbuild` builds.",
		Example: `library "x" {
  sources = ["src/util.c"]
}

group "default" {
  targets = [library.x]
}`,
		Attributes: []Attribute{{Name: "targets", Type: ReferencesType, Required: true,
			Example: "targets = []", Text: "The targets, and other groups."}},
	}}}
}

// attrAlwaysLink is for blocks that links read as an archive.
var attrAlwaysLink = Attribute{Name: "always_link", Type: BoolType,
	See: "language.md#objects-that-nothing-names",
	Text: "Whether links take all objects of the archive, even those that nothing refers to, " +
		"such as objects that register themselves. A device link keeps all kernels.",
	Becomes: "`-Wl,--whole-archive build/lib/libx.a -Wl,--no-whole-archive`; `-Xnvlink " +
		"-ignore-host-info`"}

// attrForEach is for blocks that may have several instances.
func attrForEach(what, called string) Attribute {
	return Attribute{Name: "for_each", Type: EachType, Example: `for_each = ["copy", "scale"]`,
		See: "language.md#many-programs",
		Text: "Makes " + what + " for each string of a list, or for each key of a map. " +
			"`each.key` and `each.value` are known in the other attributes. " + called}
}

// attrOutputName is for blocks that write one file.
func attrOutputName(becomes string) Attribute {
	return Attribute{Name: "output_name", Type: StringType, Default: "the name of the block",
		Example: `output_name = "solver-cuda"`,
		form: &form{valid: targetName, what: "name for a file",
			help: "Letters, digits and _ . + - may be used, and no folder; lib and the " +
				"ending are added."},
		Text: "The name of the file, if it is not that of the target: targets in two folders may " +
			"have one name, or a name may be taken.", Becomes: becomes}
}

const constraintText = "It is a list of bounds such as `>= 11.8, < 13`; `~> 11.2` allows every " +
	"later 11.x."

// partitionBlock is part of several blocks, but documented once.
var partitionBlock = sync.OnceValue(func() *Block {
	return &Block{
		Name: "partition", Label: "a name", Inherits: "the target",
		Text: "Other values for some sources of its target. A source is in at most one " +
			"partition, and each pattern must match a source.",
		Example: `library "solver" {
  sources = ["src/a.cu", "src/b.cu"]
  code    = ["sm_80"]
  mode    = "lto"

  partition "sort" {
    match = ["src/b.cu"]
    mode  = "rdc"
  }
}`,
		Attributes: []Attribute{
			{Name: "match", Type: StringsType, Required: true, Example: `match = ["src/*.cu"]`,
				Text: "Paths and patterns of the sources, as in `glob`."},
			attrCode.saying("The device code that these sources are compiled for, in mode `whole`. " +
				"`--arch` leaves of it what it names, or all."),
			attrMode.saying("When the device code of these sources is optimised."),
			attrStd.saying("The standard of these sources; that of C++ holds for CUDA, too."),
			attrCUDAStd.saying("The standard of those that are CUDA or HIP."),
			attrIncludes.saying("Folders that these sources search before those of the target."),
			attrDefines.saying("Macros, merged over those of the target: a name in both has the " +
				"value of the partition."),
			attrOpt.saying("The optimisation level of these sources."),
			attrFlags.saying("Options, appended to those of the target."),
			attrMemory, attrLanguage,
		},
	}
})

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
		Text: "The source files, mostly from `glob`: `.c`, `.cc`, `.cpp`, `.cxx`, `.c++` and " +
			"`.C` for the host compiler, `.cu` for CUDA or HIP, as the target ships, `.hip` for " +
			"HIP, `.s` and `.S` for the assembler. Compilers find headers themselves. `[]` makes " +
			"a library of headers.", Becomes: "`nvcc -c` and `g++ -c`, a command for each file"}
	attrDeps = Attribute{Name: "deps", Type: ReferencesType, Example: "deps = [library.solver]",
		Text:    "Targets that are built first. They add include folders, link inputs and libraries.",
		Becomes: "`-I` of include folders, and files of links"}
	attrPublicHeaders = Attribute{Name: "public_headers", Type: StringsType,
		Example: `public_headers = glob("include/**/*.h")`, See: "install.md#headers", path: true,
		Text: "Headers for `kbuild install`, mostly from `glob` or `generate.NAME.outputs`. " +
			"Folders below those of `includes` are kept: `include/solver/api.h` becomes " +
			"`PREFIX/include/solver/api.h`."}
	attrCode = Attribute{Name: "code", Type: StringsType, Example: `code = ["sm_80", "compute_80"]`,
		See: "language.md#device-code",
		Text: "The device code to ship: `sm_80` is machine code (SASS), `compute_80` PTX, " +
			"`lto_80` LTO-IR for links at run time; `gfx90a`, `gfx11-generic` and `amdgcnspirv` " +
			"are AMD code. kbuild expands `native`, `all` and `all-major`. `--arch` replaces " +
			"machine code and PTX.",
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
		Text:    "The standard of CUDA and HIP sources, if not that of C++: nvcc has no `gnu++17`.",
		Becomes: "`-std=c++17`"}
	attrOpt = Attribute{Name: "opt", Type: StringType,
		Words:   []string{"0", "1", "2", "3", "s", "fast"},
		Default: "2 without `debug` and `device_debug`, else that of the compiler; 3 for HIP",
		Example: "opt = 3",
		Text:    "The optimisation level of host code, and of device code of clang and hipcc.",
		Becomes: "`-O3`"}
	attrLibs = Attribute{Name: "libs", Type: StringsType, Example: `libs = ["cufft_static"]`,
		See: "language.md#prebuilt-code", option: "-l",
		Text: "System libraries to link, without `-l`.", Becomes: "`-lcufft_static`"}
	attrLibDirs = Attribute{Name: "lib_dirs", Type: StringsType, Example: `lib_dirs = ["lib"]`,
		path: true, option: "-L", Text: "Folders to search for `libs`.", Becomes: "`-Llib`"}
	attrLabels = Attribute{Name: "labels", Type: StringMapType,
		Example: `labels = { team = "solvers" }`,
		Text:    "Your own words. They have no effect on the build."}
	attrMemory = Attribute{Name: "memory", Type: SizeType,
		Default: "what the last run took, or a guess by the kind of action",
		Example: `memory = "6GiB"`, See: "scheduling.md#memory",
		Text: "The peak memory of a large action of the target. kbuild runs concurrently what " +
			"fits into `--mem`."}
	attrMode = Attribute{Name: "mode", Type: StringType, Words: []string{"whole", "rdc", "lto"},
		Default: `"whole"`, Example: `mode = "lto"`, See: "language.md#modes",
		Text: "When device code is optimised. `whole`: each file alone, without calls into " +
			"others. `rdc`: relocatable code, linked by nvlink. `lto`: LTO-IR, optimised across " +
			"files by nvlink.",
		Becomes: "`-dc`, `code=lto_80` of `-gencode`, and `-dlink -dlto`; `rdc`: `-dc` and " +
			"`-dlink`; `whole`: `-c`; HIP: `-fgpu-rdc -foffload-lto`, `-fgpu-rdc`, `-fno-gpu-rdc`"}
	attrDefines = Attribute{Name: "defines", Type: StringMapType,
		Example: "defines = { TILE = 64, FAST = true, NDEBUG = null }",
		Text:    "Macros and their values. `null` defines only the name; `true` is 1, `false` 0.",
		Becomes: "`-DTILE=64`, `-DFAST=1`, `-DNDEBUG`"}
	attrLanguage = Attribute{Name: "language", Type: StringType,
		Words: slices.Concat([]string{"c", "c++"}, deviceLanguages, []string{"asm"}), Default: "by the ending of the file",
		Example: `language = "cuda"`, See: "language.md#assembler",
		Text:    "The language of the sources, if it does not follow from their extensions.",
		Becomes: "`-x cu`; `-x c++`, `-x c`, `-x hip`, `-x assembler-with-cpp`"}
	attrFlags = Attribute{Name: "flags", Type: KeysType,
		Example: `flags = { nvcc = ["-diag-suppress", "177"], host = ["-Wall"] }`,
		See:     "language.md#flags",
		Text: "Options that have no attribute, by tool. kbuild refuses options that it derives " +
			"itself, and names their attribute.",
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
			Text: "Fast, less exact arithmetic in device code. It sets `ftz` and clears " +
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
			Text: "The gencode block with the device code to ship; a target has `gencode` or " +
				"`code`. With host sources only it needs neither: a program inherits the code of " +
				"its libraries.", Becomes: "what the `code` of the block becomes"},
		attrCode, attrMode,
		attrStd, attrCUDAStd, attrIncludes,
		{Name: "private_includes", Type: StringsType, Example: `private_includes = ["src"]`,
			path: true, option: "-I",
			Text:    "Folders of headers for the target's own sources. Dependents do not search them.",
			Becomes: "`-Isrc`, behind `includes`"},
		attrDefines, attrLibs, attrLibDirs,
		{Name: "cudart", Type: StringType, Words: []string{"static", "shared", "none"},
			Default: `"static"`, Example: `cudart = "shared"`,
			Text:    "The CUDA runtime that a program links. `none` means no runtime of HIP either.",
			Becomes: "`-lcudart`; `static`: `-lcudart_static`"},
		attrOpt,
		{Name: "debug", Type: BoolType, Text: "Debug information of host code.",
			Becomes: "`-g`; HIP and clang: `-Xarch_host -g`"},
		{Name: "device_debug", Type: BoolType,
			Text:    "Debug information of device code, without optimisation. LTO links refuse it.",
			Becomes: "`-G`; HIP and clang: `-Xarch_device -g`"},
		{Name: "lineinfo", Type: BoolType, Text: "Line numbers of device code, for profilers.",
			Becomes: "`-lineinfo`; HIP and clang: `-Xarch_device -gline-tables-only`"},
	}, floatAttributes, []Attribute{
		{Name: "max_registers", Type: NumberType, Min: 1, Max: 255, Default: "no limit",
			Example: "max_registers = 64",
			Text: "The most registers of a thread of a kernel. AMD code has no limit and refuses " +
				"it.", Becomes: "`-maxrregcount=64`; clang: `-Xcuda-ptxas --maxrregcount=64`"},
		attrFlags, attrMemory, attrLanguage, attrLabels,
		{Name: "split", Type: BoolType, Default: "true", Example: "split = false", See: "passes.md",
			Text: "Whether kbuild splits nvcc's compiles into passes, so that an edit runs few " +
				"of them.", Becomes: "`nvcc -c`, one command for all architectures"},
		{Name: "strip_unused", Type: BoolType, See: "language.md#device-links",
			Text: "Whether a device link removes kernels and variables that host code refers to " +
				"by no symbol. Lookups by name at run time do not find them then.",
			Becomes: "a device link without `nvlink -ignore-host-info`"},
		{Name: "lto_floats", Type: BoolType, Default: "true, with a warning where it matters",
			See: "nvcc.md#cuda-13",
			Text: "Whether an LTO link computes as its code was compiled. nvlink of CUDA 13 " +
				"forgets `ftz`, `prec_div` and `fmad` unless it is told. `false` links as plain " +
				"`nvcc -dlto`.",
			Becomes: "`nvlink -Xnvvm=-ftz=1,-prec-div=0,-fma=1` where nvlink forgets them and " +
				"they are not the defaults"},
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
