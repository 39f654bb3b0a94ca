// Package clang knows what hipcc and a clang that compiles CUDA have in common: one command for the
// host and one for each architecture, the options that select these, and the dry run -###. It is
// pure: it runs no program and reads no file.
package clang

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Optimisation returns the option for the level. For "" the compiler's default applies: -O3 for
// hipcc, -O0 for clang.
func Optimisation(o toolchain.Options) []string {
	if o.Opt == "" {
		return nil
	}
	return []string{"-O" + o.Opt}
}

// Args returns the attributes as clang options. It uses options for device code alone where clang
// has them: the host code of a HIP or CUDA source is compiled like plain C++.
func Args(o toolchain.Options) []string {
	argv := Optimisation(o)
	add := func(a ...string) { argv = append(argv, a...) }
	device := func(a string) { add("-Xarch_device", a) }
	if o.Std != "" {
		add("-std=" + o.Std)
	}
	if o.FastMath {
		device("-ffast-math")
	}
	for _, f := range []struct {
		on      *bool
		yes, no string
	}{
		{o.FTZ, "-fgpu-flush-denormals-to-zero", "-fno-gpu-flush-denormals-to-zero"},
		{o.PrecDiv, "-fhip-fp32-correctly-rounded-divide-sqrt", "-fno-hip-fp32-correctly-rounded-divide-sqrt"},
		{o.FMAD, "-ffp-contract=fast", "-ffp-contract=off"},
	} {
		switch {
		case f.on == nil:
		case *f.on:
			device(f.yes)
		default:
			device(f.no)
		}
	}
	switch {
	case o.DeviceDebug:
		device("-g")
	case o.LineInfo:
		device("-gline-tables-only")
	}
	if o.Debug {
		add("-Xarch_host", "-g")
	}
	for _, d := range o.Defines {
		add("-D" + d)
	}
	for _, i := range o.Includes {
		add("-I" + i)
	}
	if o.PIC {
		add("-fPIC")
	}
	add(o.Flags...)
	for _, f := range o.Host {
		add("-Xarch_host", f)
	}
	return argv
}

// Options that each pass sets itself.
const (
	OffloadArch = "--offload-arch="
	CUID        = "-cuid="
	forCC1      = "-Xclang"
	WithPTX     = "--cuda-include-ptx="
	WithoutPTX  = "--no-cuda-include-ptx="
	ForPTXAS    = "-Xcuda-ptxas"
)

// Passes holds what the passes of one compile by clang have in common.
type Passes struct {
	Clang string   // program
	Flags []string // of clang, for all passes

	// Device libraries by architecture, as paths: bitcode that clang links into the code.
	Libs map[string][]string

	// The host object embeds relocatable device code for clang-linker-wrapper, not final code.
	Embeds  bool
	Bitcode bool // a device pass of CUDA writes LLVM bitcode, not PTX, because of its flags

	DeviceFlags []string // of the device passes
}

// PassesOf returns the clang to run and its flags: argv without the architectures, the files, and
// the options that each pass sets itself.
func PassesOf(argv []string) Passes {
	p := Passes{Clang: argv[0], Libs: map[string][]string{}}
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case a == "-###", a == "-c", a == QuerySource, strings.HasPrefix(a, OffloadArch), strings.HasPrefix(a, WithPTX), strings.HasPrefix(a, WithoutPTX):
		case a == "-o", a == "-x", a == ForPTXAS:
			i++
		default:
			p.Flags = append(p.Flags, a)
		}
	}
	return p
}

// Commands builds the commands of the passes of one source.
type Commands struct {
	Passes
	Language string // "hip", "cuda"
	Source   string

	// -cuid: identifies static device variables in host and device code; hexadecimal digits.
	ID string
}

// Device returns the argv that compiles for one architecture: CUDA to PTX, HIP to a code object, or
// in the modes rdc and lto to LLVM bitcode.
func (c Commands) Device(code gencode.Code, output, depfile string) []string {
	to := "-c"
	if c.Language == "cuda" && !c.Bitcode {
		to = "-S"
	}
	more := slices.Concat(c.DeviceFlags, c.dependencies(&code, depfile), []string{to, "-o", output})
	return c.pass(&code, more...)
}

// Text returns the argv that writes the source for one architecture as one text, with headers in
// place of their includes. Macros, comments and columns stay unchanged, so that compiling the text
// equals compiling the source.
func (c Commands) Text(code gencode.Code, output, depfile string) []string {
	more := slices.Concat([]string{"-E", "-frewrite-includes"}, c.dependencies(&code, depfile), []string{"-o", output})
	return c.pass(&code, more...)
}

// Dependencies returns the argv that writes the dependency file of the pass for one architecture,
// and nothing else.
func (c Commands) Dependencies(code gencode.Code, depfile string) []string {
	more := slices.Concat([]string{"-E"}, c.dependencies(&code, depfile), []string{"-o", "/dev/null"})
	return c.pass(&code, more...)
}

// Host returns the argv that compiles the host code. placeholder is a file in place of the device
// code. It is "" in the modes rdc and lto, where the device link produces the code.
func (c Commands) Host(placeholder, output, depfile string) []string {
	argv := c.dependencies(nil, depfile)
	switch {
	case placeholder == "":
	case c.Embeds:
		argv = append(argv, forCC1, EmbedOffload+placeholder)
	default:
		argv = append(argv, forCC1, "-fcuda-include-gpubinary", forCC1, placeholder)
	}
	return c.pass(nil, append(argv, "-c", "-o", output)...)
}

// dependencies returns the options that write a dependency file with system headers. Since clang 21
// a pass of HIP device code ignores -MD and -MF ("argument unused"). All versions from 15 to 23
// accept the internal options that the driver derives from them.
func (c Commands) dependencies(code *gencode.Code, depfile string) []string {
	if code == nil || c.Language != "hip" {
		return []string{"-MD", "-MF", depfile}
	}
	var argv []string
	for _, a := range []string{"-dependency-file", depfile, "-MT", "text", "-sys-header-deps"} {
		argv = append(argv, forCC1, a)
	}
	return argv
}

// pass returns the clang command for one side of the source. It also has options that matter only
// to other passes, and disables clang's warning about them.
func (c Commands) pass(code *gencode.Code, more ...string) []string {
	argv := append([]string{c.Clang}, c.Flags...)
	argv = append(argv, "-Qunused-arguments")
	if code == nil {
		argv = append(argv, "--cuda-host-only")
	} else {
		argv = append(argv, "--cuda-device-only")
		if c.Language == "hip" {
			argv = append(argv, "--no-gpu-bundle-output")
		}
		argv = append(argv, OffloadArch+code.String())
	}
	// The option is given twice. clang's driver does not pass -cuid on to a host pass that runs
	// alone. That pass would name a static device variable by the inode of its file, unlike the
	// device code. To a device pass clang passes an id of its own unless it is given one.
	argv = append(argv, CUID+c.ID, "-Xclang", CUID+c.ID)
	argv = append(argv, more...)
	return append(argv, "-x", c.Language, c.Source)
}

// The extensions of the files with the device code that replaces the placeholder: of HIP, of CUDA,
// and of relocatable code of the new offload driver.
const (
	BundleCode  = ".hipfb"
	CUDACode    = ".clang.fatbin"
	OffloadCode = ".offload"
)

// EmbedOffload is the -cc1 option that puts a file into the section .llvm.offloading. clang does
// not parse the file.
const EmbedOffload = "-fembed-offload-object="

// Languages are those of sources with device code, as -x names them.
var Languages = []string{"hip", "cuda"}

// Runs reports whether clang does the work of an action, in whatever driver.
func Runs(a *graph.Action) bool {
	isClang := func(arg string) bool { return strings.Contains(path.Base(arg), "clang") }
	return slices.Contains(a.Tools, "hip") || slices.Contains(a.Tools, "clang") || slices.ContainsFunc(a.Argv, isClang)
}

// ProbesForOther reports whether clang probes a path to find the toolkit of a vendor, and a
// compiles nothing for that vendor's GPUs. clang looks for CUDA and for ROCm at each start.
func ProbesForOther(a *graph.Action, name string) bool {
	// a clang beside nvcc is the host compiler
	cuda, hip := slices.Contains(a.Tools, "clang"), slices.Contains(a.Tools, "hip")
	under := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	switch base := path.Base(name); {
	case strings.HasPrefix(name, "/usr/local/cuda"), under("/usr/lib/cuda"),
		base == "ptxas", base == "cuda.h", under("/usr/nvvm"):
		return !cuda
	case name == "/opt", strings.HasPrefix(name, "/opt/rocm"), base == ".hipVersion",
		strings.HasSuffix(name, "/share/hip/version"):
		return !hip
	}
	return false
}
