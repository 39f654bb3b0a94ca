package cuda

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Host holds what a toolchain for CUDA finds in the host environment.
type Host struct {
	*Toolkit                  // nil if none was found or none is needed
	Missing  string           // why there is none: what was searched for, where, and what to do
	Misses   toolchain.Missed // the attribute of the toolchain block that no toolkit satisfies

	// What NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS add to every nvcc command.
	Flags []string `json:"-"`

	// Code that the toolkit generates for an empty source, by kind: Makes has its versions.
	Code map[gencode.Kind]string `json:"-"`
}

// Info implements toolchain.Toolchain.
func (h *Host) Info() (i toolchain.Info) {
	i.Language, i.Code, i.Opt = "cuda", "CUDA code", toolchain.HostLevels
	i.Linker = "clang++ --offload-link" // of code for clang's new driver, which nvcc does not read
	i.Emits = []string{"ptx", "cubin", "fatbin", "ltoir"}
	if i.Drivers = []toolchain.Driver{{Name: "nvcc", Program: "nvcc"}}; h.Toolkit == nil {
		i.Missing = "no CUDA toolkit was found. " + h.Missing
		return i
	}
	i.Drivers = []toolchain.Driver{
		{Tool: h.NVCC, Name: "nvcc", Program: "nvcc", Of: "CUDA " + h.Version, Flags: h.Flags},
		{Tool: h.Parts, Name: PartsTool},
	}
	i.Version, i.Includes, i.LibDirs, i.Archs = h.Version, h.Includes, h.LibDirs, h.Archs
	i.Disassemble = []string{path.Join(path.Dir(h.Programs["ptxas"]), "nvdisasm"), "-c"}
	i.Compiler = modinfo.Tool{Name: "nvcc", Version: h.Version, Build: h.Build, Digest: h.NVCC.ID}
	i.HostCompiler = modinfo.Tool{Name: path.Base(h.HostCXX.Path), Version: h.HostCXX.Version, Digest: h.HostCXX.ID}
	return i
}

// Ready reports whether there is a toolkit, and reports problems with it, at pos if they have no
// better position.
func (h *Host) Ready(b *toolchain.Build, p *toolchain.Plan, pos manifest.Pos) bool {
	block, is := b.Project.Toolchains["cuda"]
	if h.Toolkit == nil {
		if h.Misses.Attribute != "" && is {
			pos = block.At(h.Misses.Attribute)
		}
		if b.Once(toolchain.NoToolkit) {
			p.Errorf(pos, h.Missing, "%s", h.none(b))
		}
		return false
	}
	switch {
	case b.Reported[toolchain.NoToolkit]:
	case h.RefusesHost(b):
		b.Once(toolchain.NoToolkit)
		p.Errorf(block.At("host_compiler"), "Name an older one; or, on your own account, give nvcc the flag -allow-unsupported-compiler.", "%s", h.HostFault)
	case h.Mixed != "":
		b.Once(toolchain.NoToolkit)
		p.Warnf(pos, h.Mixed, "the programs of this CUDA toolkit are of different versions")
	}
	return true
}

// none returns why no CUDA compiler is available.
func (h *Host) none(b *toolchain.Build) string {
	if h.Misses.Truth != "" {
		return h.Misses.Truth
	}
	if c := b.Project.Toolchains["cuda"].Compiler; strings.Contains(path.Base(c), "clang") {
		return c + " cannot compile CUDA here"
	}
	return "no CUDA toolkit was found"
}

// RefusesHost reports whether the host compiler of the toolchain block does not work with the
// toolkit, and neither the flags of some source nor the environment let nvcc use any.
func (h *Host) RefusesHost(b *toolchain.Build) bool {
	if h.HostFault == "" {
		return false
	}
	told := func(flags []string) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(f, "-allow-unsupported-compiler") })
	}
	return !told(h.Flags) && !slices.ContainsFunc(b.Project.Targets, func(t *manifest.Target) bool {
		return told(t.Flags.NVCC) || slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return told(s.Flags.NVCC) })
	})
}

// OptionsFile describes the response file of nvcc and nvlink.
var OptionsFile = &graph.Response{From: 1, Flag: "--options-file=", List: true}

// CheckCodes rejects a device link without machine code, and reports PTX that the link drops.
// compiled reports whether it links code of this build.
func CheckCodes(p *toolchain.Plan, t *toolchain.Target, compiled bool) bool {
	if len(t.Codes.SASS) == 0 {
		p.Errorf(t.Attr("gencode"), "Add the architectures to link for, for example sm_80.", "%s links device code and ships no machine code", t.Label)
	}
	if len(t.Codes.PTX) > 0 && compiled {
		p.Warnf(t.Attr("gencode"), "A device link makes machine code only. Set mode = \"whole\" to ship PTX, or drop "+toolchain.Spell(t.Codes.PTX)+".",
			"%s does not ship %s: its device code is linked", t.Label, toolchain.Spell(t.Codes.PTX))
	}
	return len(t.Codes.SASS) > 0
}

// LinkRuntime makes the host link of t find the runtime. deviceLink reports whether t has a device
// link.
func (h *Host) LinkRuntime(l *toolchain.Linked, r toolchain.LinkRequest, deviceLink bool) {
	if !r.Runtime || h.Toolkit == nil {
		return
	}
	l.Host.CUDALibs, l.Host.CUDADirs = RuntimeLibs(r.Target.CudaRT, h.CUDART, deviceLink), h.LibDirs
	h.CheckLibraries(&l.Plan, r.Target, r.Host.LibDirs, r.Target.Flags.Link, l.Host.CUDALibs...)
}

// RuntimeLibs returns the toolkit's libraries that a program with device code links. cudart is
// "static", "shared" or "none". shared is the -l name of the shared runtime, "" for cudart.
func RuntimeLibs(cudart, shared string, deviceLink bool) []string {
	var libs []string
	if deviceLink {
		libs = append(libs, "cudadevrt")
	}
	switch cudart {
	case "none":
		return libs
	case "shared":
		libs = append(libs, cmp.Or(shared, "cudart"))
	default:
		libs = append(libs, "cudart_static")
	}
	return append(libs, "rt", "pthread", "dl")
}

// CheckLibraries rejects a link that would find no library of the toolkit, or another toolkit's. If
// the user names folders to search, by lib_dirs or a linker option, their content is the user's
// responsibility.
func (h *Host) CheckLibraries(p *toolchain.Plan, t *toolchain.Target, libDirs, options []string, libs ...string) {
	searches := func(option string) bool {
		return strings.HasPrefix(option, "-L") || strings.HasPrefix(option, "-Wl,-L") || strings.HasPrefix(option, "--library-path")
	}
	if len(libDirs) > 0 || slices.ContainsFunc(options, searches) {
		return
	}
	for _, lib := range libs {
		for _, file := range []string{"lib" + lib + ".a", "lib" + lib + ".so"} {
			if fault := h.LibFaults[file]; fault != "" {
				p.Errorf(t.Pos, fault, "%s cannot be linked with the %s of CUDA %s", t.Label, file, h.Version)
				return // the other libraries usually have the same fix
			}
		}
	}
}

// Arithmetic returns the option that makes an LTO link of CUDA 13 compute as cicc did. Its nvlink
// reads the options that the code records, but ignores three of them (13.0 to 13.5; 11.8 and 12.4
// do not).
func Arithmetic(f toolchain.Floats) string {
	digit := map[bool]int{true: 1}
	return fmt.Sprintf("-Xnvvm=-ftz=%d,-prec-div=%d,-fma=%d", digit[f.FTZ], digit[f.PrecDiv], digit[f.FMAD])
}

// ExportLTO implements toolchain.Exporter. The options of a link are those of CUDA 13's nvlink.
func (h *Host) ExportLTO(t *toolchain.Target) (link string, compile []string) {
	f := t.FloatOptions()
	if f == toolchain.DefaultFloats {
		return "", nil
	}
	for i, on := range f.ByName() {
		compile = append(compile, fmt.Sprintf("-%s=%t", strings.ReplaceAll(toolchain.FloatAttributes[i], "_", "-"), on))
	}
	forgotten := toolchain.DefaultFloats
	if forgotten.PrecSqrt = f.PrecSqrt; f == forgotten || t.LTOFloats != nil && !*t.LTOFloats {
		return "", compile
	}
	return Arithmetic(f), compile
}
