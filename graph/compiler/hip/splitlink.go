package hip

import (
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// A link of HIP code is taken apart by architecture:
//
//	a.hip: gfx906.bc -> lld [gfx906] --\
//	a.hip: gfx90a.bc -> lld [gfx90a] ---> bundle -> host-part -> dlink.o -> link
//
// lld reads the bitcode itself, not the objects that hold it, so a change of host code or of
// another architecture links no device code. Bitcode of static libraries is linked whole: their
// kernels are named by their host code, and clang 15, which takes of an archive what device code
// names, would drop them. (Given an archive by its path, it does not look for device code in it at
// all.)

// Bitcode is what one device link reads: files, and the options that name them.
type Bitcode struct{ Files, Options []string }

// Add adds files that are linked whole.
func (b *Bitcode) Add(file string, archive bool) {
	b.Files = append(b.Files, file)
	if archive {
		b.Options = append(b.Options, "--whole-archive", file, "--no-whole-archive")
	} else {
		b.Options = append(b.Options, file)
	}
}

// DeviceLinks plans the links of all architectures, whose outputs are in the folder dir, and gives
// these by architecture.
func (l *Link) DeviceLinks(u compiler.Unit, dir string, flags []string, read func(arch string) Bitcode) map[string]string {
	linked := map[string]string{}
	for _, d := range l.Device {
		linked[d.Arch] = dir + "/" + compiler.FileName(d.Arch) + ".co"
		u.Emit(d.Action(u, read(d.Arch), flags, linked[d.Arch]))
	}
	return linked
}

// pack plans the bundle of linked code in dir.
func (l *Link) pack(u compiler.Unit, dir string, linked map[string]string) (bundle string) {
	bundle = dir + "/" + FatbinCode
	argv, inputs := l.Bundle.Pack(linked, bundle)
	a := u.Action(graph.Bundle, argv, bundle)
	a.Inputs, a.Archs, a.Transient = inputs, u.Whole.Archs, true
	u.Emit(a)
	return bundle
}

// Split plans the links of all architectures, whose outputs are in the folder dir, and the object
// that holds them. symbols are what the host code calls it.
func (l *Link) Split(u compiler.Unit, dir, object string, flags, symbols []string, read func(arch string) Bitcode) {
	bundle := l.pack(u, dir, l.DeviceLinks(u, dir, flags, read))
	source := graph.StageDir + "/dlink.S"
	a := u.Action(graph.HostPart, []string{l.Clang, "-c", "-x", "assembler", source, "-o", object}, object)
	a.Inputs, a.Archs = []string{bundle}, u.Whole.Archs
	a.Work.Step.Staged = []graph.StagedFile{{Name: "dlink.S", Text: FatbinSource(graph.StageDir+"/"+FatbinCode, symbols)}, {Name: FatbinCode, From: bundle}}
	u.Emit(a)
}

// SplitNew is Split for the new driver. wrapper is llvm-offload-wrapper, whose module registers
// what entries of the host's objects name.
func (l *Link) SplitNew(u compiler.Unit, dir, object, wrapper string, flags []string, read func(arch string) Bitcode) {
	bundle := l.pack(u, dir, l.DeviceLinks(u, dir, flags, read))
	module := dir + "/linked.bc"
	a := u.Action(graph.HostPart, []string{wrapper, "--triple=" + l.hostTriple(), "--kind=hip", bundle, "-o", module}, module)
	a.Inputs, a.Archs, a.Transient = []string{bundle}, u.Whole.Archs, true
	u.Emit(a)
	a = u.Action(graph.HostPart, []string{l.Clang, "-c", "-fPIC", module, "-o", object}, object)
	a.Inputs, a.Archs = []string{module}, u.Whole.Archs
	u.Emit(a)
}

// hostTriple is what the wrapper was told of the host.
func (l *Link) hostTriple() string {
	for _, a := range l.Wrapper {
		if triple, ok := strings.CutPrefix(a, "--host-triple="); ok {
			return triple
		}
	}
	return "x86_64-pc-linux-gnu"
}

// OverrideImages are options of a link of the new driver that has linked device code in place of
// that of its objects.
func (l *Link) OverrideImages(linked map[string]string) (options, inputs []string) {
	for _, d := range l.Device {
		options = append(options, "-Xlinker", "--override-image=hip="+linked[d.Arch])
		inputs = append(inputs, linked[d.Arch])
	}
	return options, inputs
}

// AskWrapper is the question for what the wrapper of a link of the new driver runs.
func (l *Link) AskWrapper(codes []gencode.Code) compiler.Question {
	return askWrapper(l.Wrapper, compiler.AskInput, codes)
}

// Action is the device link of one architecture.
func (d DeviceLink) Action(u compiler.Unit, code Bitcode, flags []string, output string) *graph.Action {
	options, from := code.Options, 3
	if d.Clang {
		options, from, flags = throughClang(options), 1, flagsThroughClang(flags)
	}
	d.Flags = append(d.Flags[:len(d.Flags):len(d.Flags)], flags...)
	a := u.Action(graph.LLD, d.Device(options, output), output)
	a.Inputs, a.Archs, a.Work.Response = code.Files, []string{d.Arch}, &graph.Response{From: from, Flag: "@"}
	return a
}

// throughClang are files and options for lld as clang hands them on.
func throughClang(args []string) []string {
	var out []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			out = append(out, "-Xlinker")
		}
		out = append(out, a)
	}
	return out
}

// flagsThroughClang is the same of flags, whose operands are no files. What names libraries is one
// word, by which it is found in the command.
func flagsThroughClang(flags []string) []string {
	var out []string
	for i := 0; i < len(flags); i++ {
		a := flags[i]
		if i+1 < len(flags) {
			switch a {
			case "-l", "-L":
				i++
				a += flags[i]
			case "--library", "--library-path":
				i++
				a += "=" + flags[i]
			}
		}
		out = append(out, "-Xlinker", a)
	}
	return out
}

// Unbundle is the archive of what a prebuilt archive holds for an architecture.
func (l *Link) Unbundle(u compiler.Unit, archive, arch, output string) *graph.Action {
	return unbundle(u, []string{l.Bundle.Program, "-unbundle", "-type=a", "-targets=" + l.prefix + arch,
		"-hip-openmp-compatible", "-input=" + archive, "-output=" + output}, archive, arch, output)
}

// Unpackage is Unbundle for an archive of the new driver. packager is the program that packs
// objects.
func (l *Link) Unpackage(u compiler.Unit, packager, archive, arch, output string) *graph.Action {
	return unbundle(u, []string{packager, "--archive", archive, "--image=file=" + output + ",triple=amdgcn-amd-amdhsa,arch=" + arch + ",kind=hip"}, archive, arch, output)
}

func unbundle(u compiler.Unit, argv []string, archive, arch, output string) *graph.Action {
	a := u.Action(graph.Unbundle, argv, output)
	a.Name, a.Inputs, a.Archs = archive, []string{archive}, []string{arch}
	return a
}
