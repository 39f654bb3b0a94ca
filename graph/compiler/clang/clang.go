// Package clang knows what hipcc and a clang that compiles CUDA have in common: one command for the
// host and one for each architecture, which public options choose, and the answer to -###. It is
// pure: it runs nothing and looks nothing up.
package clang

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Optimisation is the level; "" leaves it to the compiler: hipcc takes -O3, clang -O0.
func Optimisation(o compiler.Options) []string {
	if o.Opt == "" {
		return nil
	}
	return []string{"-O" + o.Opt}
}

// Args are the attributes in clang's words. Where it has an option for device code alone, that is
// used: the host code of a HIP or CUDA source is compiled as plain C++ is.
func Args(o compiler.Options) []string {
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

// Options that a pass says itself.
const (
	OffloadArch = "--offload-arch="
	CUID        = "-cuid="
	forCC1      = "-Xclang"
	WithPTX     = "--cuda-include-ptx="
	WithoutPTX  = "--no-cuda-include-ptx="
	ForPTXAS    = "-Xcuda-ptxas"
)

// ClangPasses is what the passes of one compile by clang have in common.
type Passes struct {
	Clang string              // program
	Flags []string            // of clang, for all passes
	Libs  map[string][]string // device libraries by architecture, as paths: bitcode that clang links into the code

	Embeds  bool // the host's object embeds relocatable device code for clang-linker-wrapper, not final code
	Bitcode bool // a device pass of CUDA leaves LLVM bitcode, not PTX, by the flags that it has

	DeviceFlags []string // of compiles for an architecture
}

// PassesOf finds the clang to run and its flags: all of argv but the architectures, the files, and
// what else a pass says itself.
func PassesOf(argv []string) Passes {
	p := Passes{Clang: argv[0], Libs: map[string][]string{}}
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case a == "-###", a == "-c", a == AskSource, strings.HasPrefix(a, OffloadArch), strings.HasPrefix(a, WithPTX), strings.HasPrefix(a, WithoutPTX):
		case a == "-o", a == "-x", a == ForPTXAS:
			i++
		default:
			p.Flags = append(p.Flags, a)
		}
	}
	return p
}

// Commands is one source as clang's passes see it: what they have in common and what the source
// adds.
type Commands struct {
	Passes
	Language string // "hip", "cuda"
	Source   string
	ID       string // -cuid: what static device variables are called by in the host's code and the device's; hexadecimal digits
}

// Device returns the argv that compiles for one architecture: CUDA to PTX, HIP to a code object or
// in the modes rdc and lto to LLVM bitcode.
func (c Commands) Device(code gencode.Code, output, depfile string) []string {
	to := "-c"
	if c.Language == "cuda" && !c.Bitcode {
		to = "-S"
	}
	more := slices.Concat(c.DeviceFlags, c.dependencies(&code, depfile), []string{to, "-o", output})
	return c.pass(&code, more...)
}

// Text returns the argv that writes the source for one architecture as one text, with the headers
// in place of their includes. Macros, comments and columns stay as they are, so that a compile of
// the text is the compile of the source.
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

// Host returns the argv that compiles the host's code. placeholder is a file that stands for the
// device code, "" in the modes rdc and lto, whose device link makes it.
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

// dependencies are the options that write a dependency file with system headers. Since clang 21 a
// pass of HIP's device code takes no notice of -MD and -MF ("argument unused"); what the driver
// makes of them is known to all from 15 to 23.
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

// pass is a command of clang for one side of the source. Options that only matter to another pass
// are in it as well: clang would warn of them.
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
	// Twice: clang's driver does not hand -cuid on to a host's pass that is alone, where a static
	// device variable would then be called by the inode of its file, and otherwise on the device;
	// for a device's pass it makes one of its own, unless it is given one.
	argv = append(argv, CUID+c.ID, "-Xclang", CUID+c.ID)
	argv = append(argv, more...)
	return append(argv, "-x", c.Language, c.Source)
}

// Placeholder stands for device code while host code is compiled. No program has this literal, see
// fatbin.WithBundle.
const Placeholder = "The device code of this object belongs here: kbuild puts it in place of this text.\n"

// The endings of the files with the device code that replaces the placeholder, of HIP and of CUDA,
// and of relocatable code of the new offload driver.
const (
	HIPCode     = ".hipfb"
	CUDACode    = ".clang.fatbin"
	OffloadCode = ".offload"
)

// EmbedOffload is the option of -cc1 that puts a file into the section .llvm.offloading. It does
// not look into the file.
const EmbedOffload = "-fembed-offload-object="
