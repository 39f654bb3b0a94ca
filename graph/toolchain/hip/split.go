package hip

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// One hipcc command is split into the passes that it runs:
//
//	a.hip -> device-code [gfx906] --\
//	a.hip -> device-code [gfx90a] ---> bundle --\
//	a.hip -> host-part ------------------------> join -> a.hip.o     (whole)
//
// In the modes rdc and lto the device code is LLVM bitcode. bundle packs it with the host object
// into a.hip.o, and the program links it.

// Split plans the passes of a source for codes. In the modes rdc and lto it returns the bitcode by
// architecture.
func (p *Passes) Split(u toolchain.Unit, codes []gencode.Code) (bitcode map[string]string) {
	if p.New {
		return p.splitNew(u, codes)
	}
	s := clang.NewSplit(u, Tool, p.Passes)
	ending := ".co"
	if u.Whole.Mode != "whole" {
		ending = ".bc"
	}
	files := map[string]string{}
	for _, c := range codes {
		files[c.String()] = s.Dir + "/" + toolchain.FileName(c.String()) + ending
		s.Device(c, files[c.String()])
	}
	if u.Whole.Mode == "whole" {
		code := s.Dir + "/code" + clang.BundleCode
		p.pack(s, files, code)
		s.Join(graph.ClangBundle, s.Host(graph.Placeholder), code)
		return nil
	}
	files[""] = s.Host("")
	p.pack(s, files, u.Whole.Outputs[0])
	delete(files, "")
	return files
}

// splitNew is Split for the new driver. In the modes rdc and lto the packager replaces the bundler,
// and its output is inserted into the host object. In mode whole the code is linked like that of a
// program:
//
//	a.hip -> device-code [gfx906] -> lld [gfx906] ---> bundle --\
//	a.hip -> host-part -----------------------------------------> join -> a.hip.o
func (p *Passes) splitNew(u toolchain.Unit, codes []gencode.Code) map[string]string {
	s, files := clang.NewSplit(u, Tool, p.Passes), map[string]string{}
	for _, c := range codes {
		// The linking clang would compile a file with another extension.
		files[c.String()] = s.Dir + "/" + toolchain.FileName(c.String()) + ".o"
		s.Device(c, files[c.String()])
	}
	if p.Final == nil {
		code := s.Dir + "/code" + clang.OffloadCode
		argv := p.packager.Pack(func(arch string) string { return files[arch] }, code)
		s.Pack(graph.Bundle, argv, slices.Sorted(maps.Values(files)), code)
		s.Join(graph.ClangOffload, s.Host(graph.Placeholder), code)
		return files
	}
	code := s.Dir + "/code" + clang.BundleCode
	bitcode := map[string]Bitcode{}
	for arch, file := range files {
		bitcode[arch] = Bitcode{Files: []string{file}, Options: []string{file}}
	}
	linked := p.Final.DeviceLinks(s.Unit, s.Dir, nil, bitcode)
	argv, inputs := p.Final.Bundle.Pack(linked, code)
	s.Pack(graph.Bundle, argv, inputs, code)
	s.Join(graph.ClangBundle, s.Host(graph.Placeholder), code)
	return nil
}

// pack plans a bundle of files by architecture.
func (p *Passes) pack(s *clang.Split, files map[string]string, output string) {
	argv, inputs := p.Bundle.Pack(files, output)
	s.Pack(graph.Bundle, argv, inputs, output)
}

// A link of HIP code is split by architecture:
//
//	a.hip: gfx906.bc -> lld [gfx906] --\
//	a.hip: gfx90a.bc -> lld [gfx90a] ---> bundle -> host-part -> dlink.o -> link
//
// lld reads the bitcode itself, not the objects that hold it, so a change of host code or of
// another architecture links no device code. Bitcode of static libraries is linked whole, because
// their host code refers to their kernels. clang 15 loads an archive member only if device code
// refers to it, and would drop them. (If an archive is given by its path, clang 15 does not search
// it for device code at all.)

// Bitcode holds the inputs of one device link: files, the options that name them, and the actions
// that extract some from prebuilt archives. Several links share those.
type Bitcode struct {
	Files, Options []string
	Unpack         []*graph.Action
}

// Add adds a file that is linked whole.
func (b *Bitcode) Add(file string, archive bool) {
	b.Files = append(b.Files, file)
	if archive {
		b.Options = append(b.Options, "--whole-archive", file, "--no-whole-archive")
	} else {
		b.Options = append(b.Options, file)
	}
}

// DeviceLinks plans the links of all architectures, with outputs in the folder dir, and returns the
// outputs by architecture.
func (l *Link) DeviceLinks(u toolchain.Unit, dir string, flags []string, code map[string]Bitcode) map[string]string {
	linked := map[string]string{}
	for _, d := range l.Device {
		linked[d.Arch] = dir + "/" + toolchain.FileName(d.Arch) + ".co"
		d.Emit(u, u.Whole.Name, code[d.Arch], flags, linked[d.Arch])
	}
	return linked
}

// pack plans the bundle of linked code in dir.
func (l *Link) pack(u toolchain.Unit, dir string, linked map[string]string) (bundle string) {
	bundle = dir + "/" + FatbinCode
	argv, inputs := l.Bundle.Pack(linked, bundle)
	a := u.Action(graph.Bundle, argv, bundle)
	a.Inputs, a.Archs, a.Transient = inputs, u.Whole.Archs, true
	u.Emit(a)
	return bundle
}

// Split plans the links of all architectures, with outputs in the folder dir, and the object that
// holds them. symbols are the names by which the host code refers to it.
func (l *Link) Split(u toolchain.Unit, dir, object string, flags, symbols []string, code map[string]Bitcode) {
	bundle := l.pack(u, dir, l.DeviceLinks(u, dir, flags, code))
	source := graph.StageDir + "/dlink.S"
	a := u.Action(graph.HostPart, []string{l.Clang, "-c", "-x", "assembler", source, "-o", object}, object)
	a.Inputs, a.Archs = []string{bundle}, u.Whole.Archs
	a.Work.Pass.Staged = []graph.StagedFile{{Name: "dlink.S", Text: FatbinSource(graph.StageDir+"/"+FatbinCode, symbols)}, {Name: FatbinCode, From: bundle}}
	u.Emit(a)
}

// SplitNew is Split for the new driver. wrapper is llvm-offload-wrapper; its module registers the
// entries that the host objects list.
func (l *Link) SplitNew(u toolchain.Unit, dir, object, wrapper string, flags []string, code map[string]Bitcode) {
	bundle := l.pack(u, dir, l.DeviceLinks(u, dir, flags, code))
	module, triple := dir+"/linked.bc", "x86_64-pc-linux-gnu"
	for _, a := range l.Wrapper {
		if host, ok := strings.CutPrefix(a, "--host-triple="); ok {
			triple = host
		}
	}
	a := u.Action(graph.HostPart, []string{wrapper, "--triple=" + triple, "--kind=hip", bundle, "-o", module}, module)
	a.Inputs, a.Archs, a.Transient = []string{bundle}, u.Whole.Archs, true
	u.Emit(a)
	a = u.Action(graph.HostPart, []string{l.Clang, "-c", "-fPIC", module, "-o", object}, object)
	a.Inputs, a.Archs = []string{module}, u.Whole.Archs
	u.Emit(a)
}

// AskWrapper returns the dry run query for the wrapper of a link by the new driver.
func (l *Link) AskWrapper(codes []gencode.Code) toolchain.Question {
	return askWrapper(l.Wrapper, toolchain.QueryInput, codes)
}

// Emit plans the device link of one architecture.
func (d DeviceLink) Emit(u toolchain.Unit, name string, code Bitcode, flags []string, output string) {
	for _, a := range code.Unpack {
		u.Emit(a)
	}
	options, from := code.Options, 3
	if d.Clang {
		from = 1
		var passed []string // a clang passes on files and options for lld
		for _, a := range options {
			if strings.HasPrefix(a, "-") {
				passed = append(passed, "-Xlinker")
			}
			passed = append(passed, a)
		}
		options, flags = passed, flagsThroughClang(flags)
	}
	d.Flags = append(d.Flags[:len(d.Flags):len(d.Flags)], flags...)
	a := u.Action(graph.LLD, d.Device(options, output), output)
	a.Name, a.Inputs, a.Archs, a.Work.Response = name, code.Files, []string{d.Arch}, toolchain.AtFile(from)
	u.Emit(a)
}

// flagsThroughClang returns flags for lld as a clang passes them on. Their operands are no files. It
// joins library
// options with their values, because kbuild finds them in the command as one word.
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

// Unbundle returns the action that extracts an architecture's code of a prebuilt archive into
// another archive.
func (l *Link) Unbundle(u toolchain.Unit, archive, arch, output string) *graph.Action {
	return unbundle(u, []string{l.Bundle.Program, "-unbundle", "-type=a", "-targets=" + l.prefix + arch,
		"-hip-openmp-compatible", "-input=" + archive, "-output=" + output}, archive, arch, output)
}

// Unpackage is Unbundle for an archive of the new driver. packager is the program that packs
// objects.
func (l *Link) Unpackage(u toolchain.Unit, packager, archive, arch, output string) *graph.Action {
	return unbundle(u, []string{packager, "--archive", archive, "--image=file=" + output + ",triple=amdgcn-amd-amdhsa,arch=" + arch + ",kind=hip"}, archive, arch, output)
}

func unbundle(u toolchain.Unit, argv []string, archive, arch, output string) *graph.Action {
	a := u.Action(graph.Unbundle, argv, output)
	a.Name, a.Inputs, a.Archs = archive, []string{archive}, []string{arch}
	return a
}

// A clang may find the device libraries of another ROCm release. It rejects them if they are older
// than the ABI of its code objects: version 6 from clang 20 on, which ROCm has since 6.3. clang 22
// on Debian 13, whose ROCm is 6.0, prints "cannot find ROCm device library for ABI version 6, which
// requires ROCm 6.3 or higher".

const forABI = "cannot find ROCm device library for ABI version "

// OldLibs reports whether the output has that message, and returns the fix. major is clang's.
func OldLibs(printed string, major int) (fix string, ok bool) {
	_, rest, ok := strings.Cut(printed, forABI)
	if !ok {
		return "", false
	}
	number, _, _ := strings.Cut(rest, ",")
	needs := "newer device libraries"
	if _, release, known := strings.Cut(rest, "requires ROCm "); known {
		release, _, _ = strings.Cut(release, " ")
		needs = "those of ROCm " + release + " or newer"
	}
	older := ""
	if n, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && n > 1 {
		older = fmt.Sprintf(`, or set flags = { hip = ["-mcode-object-version=%d"] }`, n-1)
	}
	return fmt.Sprintf("clang %d makes code objects of ABI version %s, for which the device libraries that it finds are too old. Install %s (on Debian and Ubuntu: apt install %s), set HIP_DEVICE_LIB_PATH to theirs%s.",
		major, strings.TrimSpace(number), needs, LibsPackage(major), older), true
}
