package plan

import (
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// library plans the archive or the shared library of t.
func (b *builder) library(t *target) {
	t.include = t.Includes
	if t.HeaderOnly() {
		return
	}
	dir, name := path.Split(t.OutputName) // lib/libvec.a, or lib/math/libvec.a for math/vec
	file := b.build.Out("lib", dir, "lib"+name)
	if t.Shared {
		plain := file + ".so"
		if t.SOVersion == "" {
			b.link(t, plain, graph.SharedLink)
			return
		}
		// Programs load the library by its name with the soversion. Links search for the plain name,
		// which is a copy because no cache keeps symbolic links. kbuild install creates a link.
		b.link(t, plain+"."+t.SOVersion, graph.SharedLink)
		b.emit(t, &graph.Action{Kind: graph.Copy, Name: path.Base(plain), Inputs: []string{t.File}, Outputs: []string{plain}})
		t.node.Outputs = append(t.node.Outputs, plain)
		return
	}
	if b.facts.AR.Path == "" {
		b.problems.Errorf(t.Pos, b.facts.AR.Error, "no archiver for %s", t.Label)
		return
	}
	members := b.members(t)
	// Of the modules that t itself depends on, for other build tools. A link by kbuild names the
	// objects themselves, so the linker does not load these members.
	var embeds []string
	for _, d := range t.deps {
		if d.Kind == manifest.Module {
			embeds = appendNew(embeds, d.embeds...)
		}
	}
	members = append(members, embeds...)
	if t.DeviceLink {
		if t.Codes.Language() == "cuda" {
			// The link of t cannot use device code that is linked already.
			for _, u := range b.walk.reached(t) {
				if u.DeviceLink && !u.Shared && slices.ContainsFunc(u.Sources, toolchain.IsRelocatable) {
					b.problems.Bothf(t.Attr("device_link"), u.Attr("device_link"), u.Label+" has it too",
						"Drop it from "+u.Label+": the device link of "+t.Label+" then has its code.",
						"%s depends on %s, and both have device_link: the device code of %s is linked already, and no other link can use it",
						t.Label, u.Label, u.Label)
				}
			}
		}
		if t.dlink = b.deviceLink(t, b.walk.linkage(t)).Device; t.dlink != "" {
			members = append(members, t.dlink)
		}
	}
	t.File = file + ".a"
	a := &graph.Action{
		Kind: graph.Archive, Name: path.Base(t.File),
		Argv:   host.Archive(b.facts.AR.Path, t.File, members),
		Inputs: members, Outputs: []string{t.File}, Tools: []string{"ar"},
		Work: graph.Work{Response: toolchain.AtFile(3)},
	}
	if lto := b.facts.HostLTO; hostLTO(t) != "" { // by an archiver that indexes intermediate code
		a.Tools, a.Argv = []string{"lto-ar"}, host.Archive(lto.AR.Path, t.File, members)
		if lto.Plugin != "" {
			a.Argv, a.Work.Response = append([]string{lto.AR.Path, "--plugin", lto.Plugin, "qcsD", t.File}, members...), toolchain.AtFile(5)
		}
	}
	b.emit(t, a)
	t.node.Outputs = []string{t.File}
}

// link plans the device link, if any device code needs one, and the host link.
func (b *builder) link(t *target, out string, kind graph.Kind) {
	t.File = out
	t.node.Outputs = []string{out}
	l := b.walk.linkage(t)
	b.checkCodes(t, l)
	made := b.deviceLink(t, l)
	if made.Failed {
		return
	}
	if t.dlink = made.Device; made.Command == nil {
		b.checkCompiler(t)
	}
	argv := host.Link(b.facts.CXX.Path, made.Host)
	if made.Command != nil {
		argv = append(slices.Clip(made.Command), argv[1:]...)
	}
	inputs := slices.DeleteFunc(slices.Concat(made.Host.Objects, made.Host.Whole, made.Host.Archives), func(in string) bool {
		return slices.Contains(made.Inputs, in) && slices.Contains(made.Host.Objects, in)
	})
	for _, s := range l.shared {
		inputs = append(inputs, s.File)
	}
	a := &graph.Action{
		Kind: kind, Name: path.Base(path.Dir(out)) + "/" + path.Base(out), Argv: append(argv, made.Options...), Env: made.Env,
		Inputs: append(inputs, made.Inputs...), Outputs: []string{out}, Depfile: made.Host.Depfile, Tools: made.Tools,
		Archs: made.Archs, Mode: made.Mode, Work: made.Work,
	}
	if a.Env == nil && linkLTO(t, l) != "" {
		a.Env = []string{toolchain.Anywhere} // the link compiles
	}
	b.problems.BesideLink(&t.Target, a)
	b.emit(t, a)
}

// deviceLink plans the device link of t, and returns how it changes the host link.
func (b *builder) deviceLink(t *target, l linkage) toolchain.Linked {
	r := toolchain.LinkRequest{Build: b.build, Target: &t.Target, Static: t.DeviceLink, Inputs: b.linkInputs(t, l)}
	if !r.Static {
		r.Host, r.Runtime = b.hostLink(t, l), b.usesCUDA(t, l)
	}
	if len(r.Inputs) > 0 && t.Codes.Language() == "cuda" {
		if r.KeepsAll = b.keepsAll(t); r.KeepsAll == "" {
			r.HostRefs = b.hostRefs(t)
		}
	}
	made := b.toolchain(t).Link(r)
	b.take(t, made.Plan)
	if made.Device != "" {
		b.checkClosed(t)
	}
	return made
}

// linkInputs returns the targets with relocatable device code in the link of t, t first.
func (b *builder) linkInputs(t *target, l linkage) []toolchain.LinkInput {
	closed := map[*target]bool{}
	for _, s := range l.statics {
		if s.DeviceLink && s != t {
			closed[s] = true
			for _, u := range b.walk.reached(s) {
				closed[u] = true
			}
		}
	}
	var all []*toolchain.Target // those that are not closed, and the libraries that they name by -l
	for _, u := range append(append([]*target{t}, l.statics...), l.pre...) {
		if !closed[u] {
			all = append(all, &u.Target)
		}
	}
	for _, u := range slices.Clone(all) { // other links read no archive with NVIDIA code
		if t.Codes.Language() != "cuda" {
			break
		}
		for _, lib := range b.deviceLibs(u, l.libDirs) {
			if !slices.ContainsFunc(all, func(have *toolchain.Target) bool { return have.File == lib.File }) {
				all = append(all, lib)
			}
		}
	}
	var out []toolchain.LinkInput
	for _, u := range all {
		if p, ok := linkInputOf(b.toolchain(t), u); ok {
			out = append(out, p)
		}
	}
	return out
}

// linkInputOf returns the device code that u contributes to a link by tc. ok is false if it has
// none.
func linkInputOf(tc toolchain.Toolchain, u *toolchain.Target) (p toolchain.LinkInput, ok bool) {
	p.Target = u
	for _, s := range u.Sources {
		p.LTO = p.LTO || toolchain.IsRelocatable(s) && s.Mode == "lto"
		p.RDC = p.RDC || toolchain.IsRelocatable(s) && s.Mode == "rdc"
	}
	for _, m := range u.Library.Members {
		lto, rdc := tc.Reads(m)
		p.LTO, p.RDC = p.LTO || lto, p.RDC || rdc
	}
	return p, p.LTO || p.RDC
}

// deviceLibs returns the archives with relocatable device code that the -l of u find in a link that
// searches dirs first. They act as prebuilt libraries without a block. nvlink gets them as files:
// it prints nothing if it does not find a -l.
func (b *builder) deviceLibs(u *toolchain.Target, dirs []string) (libs []*toolchain.Target) {
	for _, name := range u.Libs {
		file := b.facts.static(name, dirs)
		if file == "" || !slices.ContainsFunc(b.facts.Prebuilt[file].Members, toolchain.Member.NVLinkReads) {
			continue
		}
		_, built := b.graph.Producer(file)
		libs = append(libs, &toolchain.Target{Label: "-l" + name, File: file, Undeclared: true, Library: b.facts.Prebuilt[file], Built: built,
			Target: &manifest.Target{Kind: manifest.Prebuilt, Name: name, Archive: file, Pos: u.Attr("libs")}})
	}
	return libs
}

// runsOn reports whether t has final code that a GPU of an architecture runs: its own, or for CUDA
// that of an older one of its generation, or PTX.
func (t *target) runsOn(want gencode.Code) bool {
	return slices.ContainsFunc(t.Codes.Shipped(), func(c gencode.Code) bool {
		return gencode.Covers(c, want) || gencode.LinksInto(gencode.Image(c), want, false) && want.Kind == gencode.SASS
	})
}

// checkCodes rejects a link of device code of several toolchains, and libraries without final code
// for an architecture that t ships.
func (b *builder) checkCodes(t *target, l linkage) {
	tc := b.toolchain(t)
	for _, u := range l.statics {
		if slices.ContainsFunc(u.Sources, manifest.Source.IsDevice) && u.Codes.Language() != t.Codes.Language() {
			b.problems.Bothf(t.Attr("gencode"), u.Attr("gencode"), u.Label+" says what it ships", "Make a library for each vendor, of the same sources.",
				"%s ships %s, and %s ships %s", t.Label, tc.Info().Code, u.Label, b.toolchain(u).Info().Code)
		}
	}
	for _, u := range l.pre {
		for _, m := range u.Library.Members {
			lto, rdc := tc.Reads(m)
			own := m.Language() == t.Codes.Language()
			switch {
			case !m.Relocatable || (lto || rdc) && own:
			case m.NewDriver || own:
				toolchain.RefuseMember(&b.problems, &t.Target, &u.Target, m)
			default:
				b.problems.Bothf(t.Attr("gencode"), u.Pos, u.Label+" is this file", "Link it into a program of its vendor.",
					"%s ships %s, and %s:%s has %s", t.Label, tc.Info().Code, u.File, m.Name, gencode.Spell(m.Images))
			}
		}
	}
	// Shared libraries and sources in mode whole have final code. A program that inherits its
	// architectures from its libraries is not checked.
	if len(t.Gencode.Code) == 0 {
		return
	}
	for _, u := range slices.Concat(l.statics, l.shared) {
		final := slices.ContainsFunc(u.Sources, func(s manifest.Source) bool { return s.IsDevice() && (u.Shared || s.Mode == "whole") })
		if !final || u.Codes.Language() != t.Codes.Language() {
			continue
		}
		for _, want := range slices.Concat(t.Codes.SASS, t.Codes.Other) {
			if !u.runsOn(want) {
				b.problems.Bothf(t.Attr("gencode"), u.Attr("gencode"), u.Label+" says what it has",
					"Without it the code of "+u.Label+" does not run there. Add it, or drop it here.",
					"%s ships %s, but %s has %s only", t.Label, want, u.Label, toolchain.Spell(u.Codes.Shipped()))
			}
		}
	}
}

// checkClosed rejects a library that is device-linked twice, inside two closed static libraries.
func (b *builder) checkClosed(t *target) {
	inside := map[*target]*target{}
	for _, s := range b.walk.reached(t) {
		if s.Kind != manifest.Library || !s.DeviceLink || s.Shared {
			continue
		}
		for _, u := range b.walk.reached(s) {
			if len(b.linkInputs(u, linkage{})) == 0 {
				continue
			}
			if other := inside[u]; other != nil && other != s {
				b.problems.Bothf(s.Attr("device_link"), other.Attr("device_link"), other.Label,
					"One program can register its kernels once only: drop device_link from one of them.",
					"%s is device-linked into both %s and %s", u.Label, other.Label, s.Label)
			}
			inside[u] = s
		}
	}
}
