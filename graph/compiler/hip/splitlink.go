package hip

import (
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// A link of HIP code is taken apart by architecture:
//
//	a.hip: gfx906.bc -> lld [gfx906] --\
//	a.hip: gfx90a.bc -> lld [gfx90a] ---> bundle -> host-part -> dlink.o -> link
//
// lld reads the bitcode itself, not the objects that hold it, so a change of host code or of another architecture links no device
// code. Bitcode of static libraries is linked whole: their kernels are named by their host code, and clang 15, which takes of an
// archive what device code names, would drop them. (Given an archive by its path, it does not look for device code in it at all.)

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

// Split plans the links of all architectures, whose outputs are in the folder dir, and the object that holds them. symbols are
// what the host code calls it.
func (l *Link) Split(u compiler.Unit, dir, object string, flags, symbols []string, read func(arch string) Bitcode) {
	linked, archs := map[string]string{}, u.Whole.Archs
	for _, d := range l.Device {
		linked[d.Arch] = dir + "/" + compiler.FileName(d.Arch) + ".co"
		u.Emit(d.Action(u, read(d.Arch), flags, linked[d.Arch]))
	}
	bundle := dir + "/" + FatbinCode
	argv, inputs := l.Bundle.Pack(linked, bundle)
	a := u.Action(graph.Bundle, argv, bundle)
	a.Inputs, a.Archs, a.Transient = inputs, archs, true
	u.Emit(a)

	source := graph.StageDir + "/dlink.S"
	a = u.Action(graph.HostPart, []string{l.Clang, "-c", "-x", "assembler", source, "-o", object}, object)
	a.Inputs, a.Archs = []string{bundle}, archs
	a.Work.Step.Staged = []graph.StagedFile{{Name: "dlink.S", Text: FatbinSource(graph.StageDir+"/"+FatbinCode, symbols)}, {Name: FatbinCode, From: bundle}}
	u.Emit(a)
}

// Action is the device link of one architecture.
func (d DeviceLink) Action(u compiler.Unit, code Bitcode, flags []string, output string) *graph.Action {
	d.Flags = append(d.Flags[:len(d.Flags):len(d.Flags)], flags...)
	a := u.Action(graph.LLD, d.Device(code.Options, output), output)
	a.Inputs, a.Archs, a.Work.Response = code.Files, []string{d.Arch}, &graph.Response{From: 3, Flag: "@"}
	return a
}

// Unbundle is the archive of what a prebuilt archive holds for an architecture.
func (l *Link) Unbundle(u compiler.Unit, archive, arch, output string) *graph.Action {
	a := u.Action(graph.Unbundle, []string{l.Bundle.Program, "-unbundle", "-type=a", "-targets=" + l.prefix + arch,
		"-hip-openmp-compatible", "-input=" + archive, "-output=" + output}, output)
	a.Name, a.Inputs, a.Archs = archive, []string{archive}, []string{arch}
	return a
}
