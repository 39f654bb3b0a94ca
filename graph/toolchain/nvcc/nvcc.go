// Package nvcc knows NVIDIA's compiler driver: its command lines, the passes that it runs, its
// links, and the messages of nvlink. It is pure: it runs no program and reads no file.
package nvcc

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Driver builds nvcc command lines. Every command names the host compiler: without that, nvcc 11.8
// of Debian queries one gcc for its version and compiles with another.
type Driver struct {
	Path    string // of nvcc
	HostCXX string // -ccbin
	LibDir  string // the toolkit's library folder if nvcc passes one that does not exist; else ""
}

// Compile returns the argv that compiles one source. For an object, nvcc keeps its temporary files
// beside the output (--objdir-as-tempdir), which keeps the process id out of the object's symbols.
func (d Driver) Compile(c toolchain.Compile, o toolchain.Options) []string {
	argv := d.start()
	switch {
	case c.Emit != "":
		argv = append(argv, "-"+c.Emit)
		if c.Mode != "whole" {
			argv = append(argv, "-dc")
		}
	case c.Mode == "whole":
		argv = append(argv, "-c")
	default:
		argv = append(argv, "-dc")
	}
	if c.Language == "cuda" {
		argv = append(argv, "-x", "cu")
	}
	argv = append(argv, Gencodes(c.Codes)...)
	argv = append(argv, args(o)...)
	if c.Emit == "" {
		argv = append(argv, "--objdir-as-tempdir")
	}
	return append(argv, "-MD", "-MF", c.Depfile, "-o", c.Output, c.Source)
}

// LTOIR returns the argv that leaves the LTO-IR of one architecture in the folder keep, and its PTX
// if c.Codes has that. ltoir and ptx are the file names. No nvcc up to 12.4 has an option that
// writes LTO-IR.
func (d Driver) LTOIR(c toolchain.Compile, keep string, o toolchain.Options) (argv []string, ltoir, ptx string) {
	c.Emit, c.Mode = "", "lto"
	c.Output = keep + "/out.o"
	argv = d.Compile(c, o)
	argv = slices.Insert(slices.DeleteFunc(argv, func(a string) bool { return a == "--objdir-as-tempdir" }), 1, "--keep", "--keep-dir", keep)
	stem := strings.TrimSuffix(path.Base(c.Source), path.Ext(c.Source))
	return argv, stem + ".ltoir", stem + ".ptx"
}

func (d Driver) start() []string {
	argv := []string{d.Path}
	if d.HostCXX != "" {
		argv = append(argv, "-ccbin", d.HostCXX)
	}
	return argv
}

func args(o toolchain.Options) []string {
	var argv []string
	add := func(a ...string) { argv = append(argv, a...) }
	if o.Std != "" {
		add("-std=" + o.Std)
	}
	switch o.Opt {
	case "":
	case "0", "1", "2", "3":
		add("-O" + o.Opt)
	default: // nvcc accepts only numbers
		add("-Xcompiler", "-O"+o.Opt)
	}
	argv = append(argv, floats(o)...)
	if o.MaxRegisters > 0 {
		add("-maxrregcount=" + strconv.Itoa(o.MaxRegisters))
	}
	if o.Debug {
		add("-g")
	}
	if o.DeviceDebug {
		add("-G")
	}
	if o.LineInfo {
		add("-lineinfo")
	}
	for _, d := range o.Defines {
		add("-D" + defineValue(d))
	}
	for _, i := range o.Includes {
		add("-I" + toolchain.ListWord(i))
	}
	if o.PIC {
		add("-Xcompiler", "-fPIC")
	}
	add(o.Flags...)
	add(forward("-Xcicc", o.CICC)...)
	add(forward("-Xptxas", o.PTXAS)...)
	add(forward("-Xcompiler", o.Host)...)
	return argv
}

func floats(o toolchain.Options) []string {
	var argv []string
	if o.FastMath {
		argv = append(argv, "-use_fast_math")
	}
	for _, f := range []struct {
		name string
		on   *bool
	}{{"-ftz", o.FTZ}, {"-prec-div", o.PrecDiv}, {"-prec-sqrt", o.PrecSqrt}, {"-fmad", o.FMAD}} {
		if f.on != nil {
			argv = append(argv, f.name+"="+strconv.FormatBool(*f.on))
		}
	}
	return argv
}

// Gencodes returns one -gencode for each code, in order: arch=compute_90,code=sm_90.
func Gencodes(codes []gencode.Code) []string {
	var argv []string
	for _, c := range codes {
		argv = append(argv, "-gencode", "arch="+c.Virtual()+",code="+c.String())
	}
	return argv
}

// keepAll is the option that makes nvlink keep code that no host code refers to.
const keepAll = "-ignore-host-info"

// KeepAll returns the command of a device link, by nvcc or by nvlink, with that option.
func KeepAll(argv []string) []string {
	if at := slices.Index(argv, "-dlink") + 1; at > 0 {
		return slices.Insert(slices.Clone(argv), at, "-Xnvlink", keepAll)
	}
	return slices.Insert(slices.Clone(argv), 1, keepAll)
}

// DeviceLink describes one device link.
type DeviceLink struct {
	Files   []File   // of Inputs, for a split link
	Inputs  []string // objects and archives
	Output  string
	Codes   []gencode.Code // SASS
	LTO     bool
	KeepAll bool     // keep code that no host code of Inputs refers to
	Emit    string   // "" for an object, or "cubin", "fatbin", "ptx"
	NVLink  []string // extra flags
}

// DeviceLink returns the argv of `nvcc -dlink`. All but nvcc itself may go into an options file:
// for links nvcc passes very long lists to nvlink and g++ in files of its own (11.8; it does not
// for compiles).
//
// The registration functions are hidden. Suppose that a program and a shared library link the same
// static library. The program's exported functions would replace those of the shared library, whose
// kernels would never be registered.
//
// Objects of nvcc record which kernels and variables their host code refers to. If all its inputs
// have such records, nvlink drops what none of them refers to, with status 0. It would drop what
// only a plain C++ file refers to. Such references are therefore added to the records
// (graph.HostRefs). Where they cannot be determined, KeepAll keeps everything.
func (d Driver) DeviceLink(l DeviceLink, o toolchain.Options) []string {
	argv := append(d.start(), "-dlink")
	if l.LTO {
		argv = append(argv, "-dlto")
	}
	if l.Emit != "" {
		argv = append(argv, "-"+l.Emit)
	}
	argv = append(argv, Gencodes(l.Codes)...)
	if l.KeepAll {
		argv = append(argv, "-Xnvlink", keepAll)
	}
	if d.LibDir != "" {
		argv = append(argv, "-L"+toolchain.ListWord(d.LibDir))
	}
	if o.MaxRegisters > 0 {
		argv = append(argv, "-maxrregcount="+strconv.Itoa(o.MaxRegisters))
	}
	if l.Emit == "" {
		argv = append(argv, "-Xcompiler", "-fvisibility=hidden")
		if o.PIC {
			argv = append(argv, "-Xcompiler", "-fPIC")
		}
	}
	if l.LTO {
		argv = append(argv, forward("-Xptxas", o.PTXAS)...)
	}
	if l.Emit == "" || l.Emit == "fatbin" {
		packing, _ := Packing(o.Flags)
		argv = append(argv, packing...)
	}
	argv = append(argv, forward("-Xnvlink", l.NVLink)...)
	argv = append(argv, "-o", l.Output)
	return append(argv, l.Inputs...)
}

// Packing returns the nvcc options for fatbinary's packing, which a link accepts as well. others
// are the rest.
func Packing(flags []string) (packing, others []string) {
	all, err := SplitOptions(flags)
	if err != nil {
		return nil, flags // nvcc rejects them in the compile
	}
	for _, o := range all {
		switch o.Name {
		case "-Xfatbin", "-compress-mode", "-no-compress", "-concat":
			packing = append(packing, o.Words...)
		default:
			others = append(others, o.Words...)
		}
	}
	return packing, others
}
