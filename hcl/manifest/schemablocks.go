package manifest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
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
	return fmt.Errorf("%q is no file in that folder", s)
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
		Name: "package", Once: true, See: "install.md",
		Text: "What `kbuild install` calls what it installs: CMake and pkg-config find the libraries " +
			"and modules of a project by the name of its package.",
		Example: `package {
  name    = "solver"
  version = "1.4.0"
}`,
		Attributes: []Attribute{
			{Name: "name", Type: StringType, Required: true, Example: `name = "solver"`,
				See: "install.md",
				form: &form{valid: targetName, what: "name for a package",
					help: "Letters, digits and _ . + - may be used: it becomes the name of files."},
				Text: "The name of the package. Its libraries are the targets `NAME::LIBRARY` of " +
					"CMake.",
				Becomes: "`solverConfig.cmake` for `find_package(solver)`, and `solver.pc`"},
			{Name: "version", Type: StringType, Default: "none", Example: `version = "1.4.0"`,
				See: "install.md",
				form: &form{valid: packageVersion, what: "version of a package",
					help: `Write up to four numbers, as in "1.4.0": CMake compares them.`},
				Text: "The version of the package: numbers with dots between them. CMake takes " +
					"it for every request of the same first number that is not newer."},
			{Name: "description", Type: StringType,
				Example: `description = "Sparse solvers for GPUs."`,
				Text:    "What the package is for, in a line."},
		},
	}, {
		Name: "cache", Once: true, See: "remote.md#in-kernelshcl",
		Text: "A cache on another machine, for all who build the project.",
		Example: `cache {
  remote = "grpcs://cache.example:8980/instance"
}`,
		Attributes: []Attribute{
			{Name: "remote", Type: StringType, Default: "none",
				Example: `remote = "grpcs://cache.example:8980/instance"`, See: "remote.md",
				form: &form{check: isAddress, help: "Where there is none, write null."},
				Text: "The address of the cache: `grpc://`, `grpcs://`, `http://` or `https://`. " +
					"`--remote` and `KBUILD_REMOTE` name another, or with an empty value none. " +
					"Credentials are sent there only if the user's `KBUILD_REMOTE_HOSTS` lists " +
					"the server."},
			{Name: "read_only", Type: BoolType, See: "remote.md#who-can-poison-whom",
				Text: "Whether builds send nothing to a remote cache, however it is named. " +
					"`--remote-read-only` and `KBUILD_REMOTE_READ_ONLY` add to this, and nothing " +
					"takes it back; where some may write, let a variable decide."},
		},
	}, {
		Name: "variable", Label: "a name", See: "language.md#variables",
		Text: "An input of the manifest, read as `var.NAME`. It is set by `--var`, the environment, " +
			"`kernels.local.hcl` or a profile.",
		Example: `variable "archs" {
  type        = list(string)
  default     = ["sm_80", "sm_90"]
  description = "Code to ship."
}`,
		Attributes: []Attribute{
			{Name: "type", Type: TypeType,
				Default: "the type of `default`, if that is a string, number or bool; else any",
				Example: "type = list(string)",
				Text: "The type that every value is converted to: `string`, `number`, `bool`, " +
					"`any`, or `list`, `set`, `map`, `object`, `tuple` of types."},
			{Name: "default", Type: AnyType, Default: "none: the variable must be set",
				Example: `default = ["sm_80"]`, Text: "The value if nothing else sets one."},
			{Name: "description", Type: StringType, Example: `description = "Code to ship."`,
				Text: "What the variable is for."},
		},
		Blocks: []*Block{{
			Name: "validation",
			Text: "A condition that the value in force must meet. A variable may have several.",
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
					Text: "An expression that is true for values that are allowed. It reads the " +
						"value as `var.NAME`."},
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
		Name: "profile", Label: "a name", Open: "variables",
		Text: "Values of variables for `--profile NAME`, which builds under `build/NAME`.",
		Example: `variable "lto" {
  default = true
}

profile "dev" {
  lto = false
}`,
	}, {
		Name: "toolchain", Label: `"cuda" or "hip"`,
		Text: "Which compiler to use, and which version it must have.",
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
				Text: "Where the CUDA toolkit comes from. `system` is one that is installed. " +
					"`pypi` is NVIDIA's own, from PyPI, in exactly one `version`: `kbuild " +
					"toolkit lock` pins it, and `kbuild toolkit install` installs it."},
			{Name: "path", Type: StringType, Example: `path = "third_party/cuda"`,
				See: "toolkits.md", path: true,
				Text: "The folder of an installed CUDA toolkit, with `bin/nvcc` in it, relative " +
					"to the manifest."},
			{Name: "parts", Type: StringsType, Example: "parts = []", See: "toolkits.md",
				form: &form{valid: toolkitPart, what: "part of a toolkit",
					help: "Extras of cuda-toolkit have names such as cublas."},
				Text: "With `from = \"pypi\"`: parts of the toolkit besides the compiler, the " +
					"runtime and CCCL, as the extras of PyPI's package `cuda-toolkit` are " +
					"called: `cublas`, `nvjitlink`, `nvdisasm`."},
		},
	}, {
		Name: "gencode", Label: "a name",
		Text: "The device code that targets ship, under a name: `gencode = gencode.NAME` takes it.",
		Example: `gencode "server" {
  code = ["sm_80", "sm_90", "compute_90"]
}`,
		Attributes: []Attribute{
			attrCode.required(),
			{Name: "arch_list", Type: StringsType, Default: "the architectures of `code`",
				Example: `arch_list = ["sm_70", "sm_80", "sm_90"]`, See: "passes.md",
				Text: "The architectures that `__CUDA_ARCH_LIST__` spells in every pass. With " +
					"the full list of a project, a build with `--arch sm_90` shares cache " +
					"entries with full builds, also where CUB spells the list into its namespace.",
				Becomes: "`-D__CUDA_ARCH_LIST__=700,800,900` of cicc's and cudafe++'s passes, " +
					"where nvcc is split"},
		},
	}, {
		Name: importKind, Label: "a path", Example: `import "math/kernels.hcl" {}`,
		See: "language.md#several-manifests",
		Text: "Takes in the manifest of a folder below. Its targets are called by their folder: " +
			"`library \"vec\"` of `math/kernels.hcl` is `math/vec`, and `library[\"math/vec\"]` " +
			"in references.",
	}, {
		Name: "defaults", Once: true,
		Text: "Attributes of libraries, executables and modules that do not set them. A value that a " +
			"target sets replaces that of `defaults`; lists and maps are not merged.",
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
				Text: "Whether `build/lib/libNAME.a` or `build/lib/libNAME.so` is made. A shared " +
					"library has a device link of its own.",
				Becomes: "`-shared -Wl,-soname,libx.so`, and `-fPIC` of its compiles; for a " +
					"static library `ar qcsD`"},
			{Name: "device_link", Type: BoolType, See: "language.md#device-links",
				Text: "Whether a static library gets a device link of its own, for programs that " +
					"are linked by other build tools. A shared library always has one.",
				Becomes: "`nvcc -dlink`, whose object is a member of the archive"},
			attrAlwaysLink,
			{Name: "soversion", Type: StringType, Default: "none", Example: `soversion = "1"`,
				See: "install.md#shared-libraries",
				form: &form{valid: soVersion, what: "version of a shared library",
					help: `Write for example "1", for libNAME.so.1.`},
				Text: "The version of the interface of a shared library: programs load " +
					"`libNAME.so.SOVERSION`, and go on using it where a library of another " +
					"`soversion` is installed beside it.",
				Becomes: "`-Wl,-soname,libx.so.1`, and `libx.so.1` beside `libx.so`"},
			attrOutputName("`build/lib/libNAME.a` or `.so`"),
			attrForEach("a library", "The library is called as the key."),
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
			attrForEach("a program", "The program is called as the key."),
		}, compileAttributes(), hostAttributes()),
		Blocks: []*Block{partitionBlock()},
	}, {
		Name: "module", Label: "a name", Target: true, Inherits: "defaults", See: "modules.md",
		Text: "Device code to load at run time: files below `build/modules`, which may also be put " +
			"into programs.",
		Example: `module "gemm" {
  sources = ["src/gemm.cu"]
  code    = ["sm_80"]
  emit    = ["cubin", "ptx"]
}`,
		Attributes: slices.Concat([]Attribute{attrSources, attrDeps,
			{Name: "emit", Type: StringsType,
				Words:   []string{"ptx", "cubin", "fatbin", "ltoir", "hsaco", "bitcode"},
				Default: `["fatbin"]`, Example: `emit = ["cubin"]`, See: "modules.md",
				Text: "The kinds of files to make. `cubin`, `ptx` and `ltoir` are one file for " +
					"each architecture, `fatbin` is one file for all. AMD code has `hsaco`, " +
					"`bitcode` and `fatbin`.",
				Becomes: "`nvcc -cubin`; or `-ptx`, `-fatbin`, and for `ltoir` the file that " +
					"`--keep` leaves"},
			{Name: "late_bound", Type: StringsType, Example: `late_bound = ["callback"]`,
				See: "modules.md",
				Text: "Functions that the LTO-IR calls and nothing here defines, since the " +
					"program brings one when it links at run time. `--check-link` takes them for " +
					"defined. A function of C++ is named with or without its parameters: " +
					"`ops::apply`."},
			{Name: "matrix", Type: ListsType, Example: "matrix = { tile = [64, 128] }",
				See: "language.md#matrices",
				Text: "Axes with their values: the module has an instance for each combination. " +
					"`matrix.AXIS` is the value in the other attributes."},
			{Name: "exclude", Type: MapsType, Example: "exclude = [{ tile = 128 }]",
				See: "language.md#matrices",
				Text: "Combinations of the matrix that are left out: each map excludes the " +
					"instances that agree with it on the axes that it names."},
			attrPublicHeaders,
		}, compileAttributes()),
		Blocks: []*Block{partitionBlock(), {
			Name: "embed", Once: true, See: "language.md#embedding",
			Text: "Puts the files of the module into an object with a table and a C header. A target with " +
				"the module among its `deps` links the object.",
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
		Text: "A library that was built elsewhere, or device code to link. kbuild opens the file and " +
			"compares it with what the block says. The block names either an `archive` or a `shared` " +
			"file. `fast_math`, `ftz`, `prec_div`, `prec_sqrt` and `fmad` say how bare LTO-IR was " +
			"compiled.",
		Example: `prebuilt "spectra" {
  archive = "third_party/libspectra.a"
  lto     = "none"
}`,
		Attributes: slices.Concat([]Attribute{
			{Name: "archive", Type: StringType, Example: `archive = "third_party/libspectra.a"`,
				path: true,
				Text: "The path of an archive, an object, a fatbin that `nvcc -dc` made, or bare " +
					"LTO-IR.", Becomes: "the path in device links and host links"},
			{Name: "shared", Type: StringType, Example: `shared = "third_party/libspectra.so"`,
				path: true, Text: "The path of a shared library.",
				Becomes: "the path in host links, with `-Wl,-rpath`"},
			attrIncludes.saying("Folders of headers, for the targets that depend on the block."),
			attrLibs.saying("Libraries that the file needs, without `-l`."),
			attrLibDirs.saying("Folders with the libraries that the file needs."),
			{Name: "lto", Type: StringType, Words: []string{"required", "none"},
				Default: "an LTO link refuses a file without LTO-IR", Example: `lto = "none"`,
				Text: "Whether the device code must be LTO-IR in an LTO link. `required` refuses " +
					"a file without; `none` accepts machine code, which is not optimised with " +
					"the rest."},
			attrAlwaysLink, attrDeps, attrLabels,
		}, floatAttributes),
	}, {
		Name: "generate", Label: "a name", Target: true, See: "language.md#generated-files",
		Text: "A command that writes files into `build/gen/NAME`, which is on the include path of what " +
			"depends on the block.",
		Example: `generate "tables" {
  command = ["python3", "tools/tables.py", self.outputs[0]]
  inputs  = ["tools/tables.py"]
  outputs = ["tables.cuh"]
}`,
		Attributes: []Attribute{
			{Name: "command", Type: StringsType, Required: true,
				Example: `command = ["python3", "tools/tables.py", self.outputs[0]]`,
				Text: "The program and its arguments. It runs in the root of the project, and no " +
					"shell is involved. `self.outputs`, `self.inputs`, `self.depfile`, " +
					"`self.dir` (`build/gen/NAME`), `self.source_dir` (the folder of the " +
					"manifest) and `self.name` are known in it.", Becomes: "the argv, verbatim"},
			{Name: "inputs", Type: StringsType, Example: `inputs = ["tools/tables.py"]`, path: true,
				exists: true,
				Text: "Files that the command reads. The command runs again when one of them " +
					"changes."},
			{Name: "outputs", Type: StringsType, Required: true,
				Example: `outputs = ["tables.cuh"]`, path: true,
				Text: "Files that the command writes, relative to `build/gen/NAME`. Elsewhere " +
					"`generate.NAME.outputs` has their paths. Patterns (`*.cu`, `**/*.h`) and " +
					"folders (`src/`) stand for files whose names the command chooses."},
			{Name: "depfile", Type: StringType, Example: `depfile = "tables.d"`,
				form: &form{check: isFileBelow,
					help: "It is relative to the folder that the command writes to."},
				Text: "A file that the command writes, relative to `build/gen/NAME`: it names " +
					"the files that the command has read, as rules of make (ninja's depfile, " +
					"`-MD` of compilers). The command runs again when one of them changes. " +
					"`self.depfile` is its path. kbuild removes it when it has read it, unless " +
					"it is one of `outputs`."},
			attrDeps, attrMemory, attrLabels,
		},
	}, {
		Name: "test", Label: "a name", See: "test.md",
		Text: "A program that `kbuild test` builds and runs in the root of the project. It passes if " +
			"it ends with status 0. A test that passed does not run again for as long as its program, its " +
			"data, its arguments and its environment are the same.",
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
				Text: "Files that it reads. What is neither here nor among the arguments may " +
					"change without the test running again."},
			{Name: "deps", Type: ReferencesType, Example: "deps = [library.solver]",
				Text: "Targets whose files it reads or loads when it runs: modules, programs, " +
					"shared libraries. They are built first, and their files are data."},
			{Name: "env", Type: StringMapType, Example: `env = { OMP_NUM_THREADS = "2" }`,
				Text: "Variables of its environment, on top of what commands of a build have."},
			{Name: "needs_gpu", Type: BoolType,
				Text: "The test needs a GPU. Without one it is skipped, and kbuild reports that. " +
					"Such tests run one at a time, and again on another GPU or with another " +
					"driver."},
			{Name: "timeout", Type: DurationType, Default: "none", Example: `timeout = "90s"`,
				Text: "A test that runs longer is ended, with all that it has started, and has " +
					"failed."},
			{Name: "cache", Type: BoolType, Default: "true", Example: "cache = false",
				Text: "Whether a result holds for as long as nothing changes. With `false` the " +
					"test runs each time: it depends on what is in no file."},
			attrMemory,
		},
	}, {
		Name: "group", Label: "a name",
		Text: "A name for several targets on the command line. `group \"default\"` is what `kbuild` " +
			"builds.",
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
	Text: "Whether links of programs and shared libraries take all objects of the archive, also " +
		"those that nothing names, such as objects that register themselves. A device link keeps " +
		"all kernels.",
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
		Text: "What the file is called, where that is not the name of the target: two targets " +
			"may be called the same in their own folders, or a name may be taken.",
		Becomes: becomes}
}

const constraintText = "It is a list of bounds such as `>= 11.8, < 13`; `~> 11.2` allows every " +
	"later 11.x."

// partitionBlock is part of several blocks, but documented once.
var partitionBlock = sync.OnceValue(func() *Block {
	return &Block{
		Name: "partition", Label: "a name", Inherits: "the target",
		Text: "Other values for some of the sources of its target. A source is in one partition at " +
			"most, and each pattern selects a source.",
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
