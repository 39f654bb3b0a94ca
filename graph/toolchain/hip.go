package toolchain

import (
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// HIP builds the command lines of hipcc, or of the clang that it runs. Both take the same options; hipcc adds its own, which
// are learned from it (LearnHIP).
type HIP struct {
	Path string // of hipcc, amdclang++ or clang++
}

// HIPOptions are the attributes of a target that reach the HIP compiler. Where clang has an option for device code alone, it is
// used: the host code of a HIP source is compiled as plain C++ is.
type HIPOptions struct {
	Std                          string
	Opt                          string // "" leaves it to hipcc, which takes -O3
	Includes                     []string
	Defines                      []string
	FastMath                     bool
	FTZ, FMAD                    *bool
	Rounded                      *bool // correctly rounded division and square root
	Debug, DeviceDebug, LineInfo bool
	PIC                          bool
	HIP, Host, LLD               []string // extra flags: for both passes, for the host's, for the device link
}

// modeArgs are the options of a mode: -fgpu-rdc leaves the device code as LLVM bitcode, which lld links and optimises as a whole;
// -foffload-lto prepares it for that (whole-program visibility).
func modeArgs(mode string) []string {
	switch mode {
	case "rdc":
		return []string{"-fgpu-rdc"}
	case "lto":
		return []string{"-fgpu-rdc", "-foffload-lto"}
	}
	return []string{"-fno-gpu-rdc"}
}

// Compile gives the argv that compiles one source as hipcc does it in one piece. id is for -cuid, see HIPUnit.
func (h HIP) Compile(c Compile, id string, o HIPOptions) []string {
	argv := append([]string{h.Path}, offloadArchs(c.Codes)...)
	argv = append(argv, modeArgs(c.Mode)...)
	argv = append(argv, o.args()...)
	argv = append(argv, cuid+id, "-MD", "-MF", c.Depfile, "-c", "-x", "hip", c.Source)
	return append(argv, "-o", c.Output)
}

// Link gives the argv that links objects with device code in one piece: -fgpu-rdc links that of inputs.
func (h HIP) Link(codes []gencode.Code, mode string, o HIPOptions, inputs []string, output string) []string {
	argv := append([]string{h.Path}, offloadArchs(codes)...)
	argv = append(argv, modeArgs(mode)...)
	argv = append(argv, o.optimisation()...)
	for _, f := range o.LLD {
		argv = append(argv, "-Xoffload-linker", f)
	}
	argv = append(argv, "--hip-link")
	argv = append(argv, inputs...)
	return append(argv, "-o", output)
}

func offloadArchs(codes []gencode.Code) []string {
	var argv []string
	for _, c := range codes {
		argv = append(argv, offloadArch+c.String())
	}
	return argv
}

func (o HIPOptions) optimisation() []string {
	if o.Opt == "" {
		return nil
	}
	return []string{"-O" + o.Opt}
}

func (o HIPOptions) args() []string {
	argv := o.optimisation()
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
		{o.Rounded, "-fhip-fp32-correctly-rounded-divide-sqrt", "-fno-hip-fp32-correctly-rounded-divide-sqrt"},
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
	add(o.HIP...)
	for _, f := range o.Host {
		add("-Xarch_host", f)
	}
	return argv
}

const (
	offloadArch = "--offload-arch="
	cuid        = "-cuid="
)

// HIPUnit is one source as clang's passes see it: what LearnHIP found and what the source adds.
type HIPUnit struct {
	*HIPPasses
	Source string
	ID     string // -cuid: what static device variables are called by in the host's code and the device's; hexadecimal digits
}

// Preprocess gives the argv that writes the text of one architecture, or with code nil of the host.
func (u HIPUnit) Preprocess(code *gencode.Code, output, depfile string) []string {
	return u.pass(code, "-E", "-MD", "-MF", depfile, "-o", output)
}

// Device gives the argv that compiles for one architecture: to a code object, or in the modes rdc and lto to LLVM bitcode.
func (u HIPUnit) Device(code gencode.Code, output string) []string {
	return u.pass(&code, "-c", "-o", output)
}

// Host gives the argv that compiles the host's code. placeholder is a file that stands for the device code, "" in the modes
// rdc and lto, whose device link makes it.
func (u HIPUnit) Host(placeholder, output string) []string {
	var argv []string
	if placeholder != "" {
		argv = []string{"-Xclang", "-fcuda-include-gpubinary", "-Xclang", placeholder}
	}
	return u.pass(nil, append(argv, "-c", "-o", output)...)
}

// pass is a command of clang for one side of the source. Options that only matter to another pass are in it as well: clang
// would warn of them.
func (u HIPUnit) pass(code *gencode.Code, more ...string) []string {
	argv := append([]string{u.Clang}, u.Flags...)
	argv = append(argv, "-Qunused-arguments")
	if code == nil {
		argv = append(argv, "--cuda-host-only")
	} else {
		argv = append(argv, "--cuda-device-only", "--no-gpu-bundle-output", offloadArch+code.String())
	}
	// Twice: clang's driver does not hand -cuid on to a host's pass that is alone, where a static device variable would then be called
	// by the inode of its file, and otherwise on the device; for a device's pass it makes one of its own, unless it is given one.
	argv = append(argv, cuid+u.ID, "-Xclang", cuid+u.ID)
	argv = append(argv, more...)
	return append(argv, "-x", "hip", u.Source)
}

// Bundle gives the argv that puts code of several targets into one file. files has one for each of b.Targets: "" is an empty
// one.
func (b HIPBundle) Bundle(files []string, output string) []string {
	argv := append([]string{b.Program}, b.Flags...)
	argv = append(argv, "-targets="+strings.Join(b.Targets, ","))
	for _, f := range files {
		if f == "" {
			f = "/dev/null"
		}
		argv = append(argv, "-input="+f)
	}
	return append(argv, "-output="+output)
}

// Device gives the argv that links the device code of one architecture.
func (l HIPDeviceLink) Device(inputs []string, output string) []string {
	argv := append([]string{l.Program}, l.Flags...)
	argv = append(argv, "-o", output)
	return append(argv, inputs...)
}

// FatbinSource is the assembler source of the object that holds linked device code, as clang 15 writes it for its own use, but
// hidden: a program and a shared library that it loads each have their own. The code is in a file of that name.
const FatbinSource = `	.section .hip_fatbin,"a",@progbits
	.p2align 12
	.globl __hip_fatbin
	.hidden __hip_fatbin
	.type __hip_fatbin,@object
__hip_fatbin:
	.incbin "` + FatbinCode + `"
	.section .note.GNU-stack,"",@progbits
`

// FatbinCode is the name of the file that FatbinSource includes.
const FatbinCode = "linked.hipfb"

// Placeholder stands for device code while host code is compiled. No program has this literal, see fatbin.WithBundle.
const Placeholder = "The device code of this object belongs here: kbuild puts it in place of this text.\n"
