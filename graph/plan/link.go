package plan

import (
	"path"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// library plans the archive or the shared library of t.
func (b *builder) library(t *target) {
	t.include = t.Includes
	if t.HeaderOnly() {
		return
	}
	if t.Shared {
		b.sharedLibrary(t, libFile(b, t, ".so"))
		return
	}
	if b.facts.AR.Path == "" {
		b.errorf(t.Pos, b.facts.AR.Error, "no archiver for %s", t.label)
		return
	}
	members := append(b.members(t), ownEmbeds(t)...)
	if t.DeviceLink && t.isHIP() {
		b.errorf(t.attr("device_link"), "Drop it: the program that uses the library links its device code.", "%s: device_link is for libraries with CUDA code only", t.label)
	} else if t.DeviceLink {
		b.checkClosedBehind(t)
		l := b.linkage(t)
		linked := b.linkInputs(t, l)
		if b.linksByClang(linked) {
			b.errorf(t.attr("device_link"), "Drop it: the program that uses the library links its device code.", "%s: clang links device code into programs and shared libraries only", t.label)
		} else if len(linked) > 0 {
			t.dlink = b.deviceLink(t, l)
			members = append(members, t.dlink)
		}
	}
	t.file = libFile(b, t, ".a")
	a := &graph.Action{
		Kind: graph.Archive, Name: path.Base(t.file),
		Argv:   host.Archive(b.facts.AR.Path, t.file, members),
		Inputs: members, Outputs: []string{t.file}, Tools: []string{"ar"},
		Work: graph.Work{Response: atFile(3)},
	}
	b.ltoArchive(t, a, members)
	b.emit(t, a)
	t.node.Outputs = []string{t.file}
}

// libFile returns the path of a library: lib/libvec.a, or lib/math/libvec.a for math/vec.
func libFile(b *builder, t *target, ending string) string {
	dir, name := path.Split(t.OutputName)
	return b.out("lib", dir, "lib"+name+ending)
}

// sharedLibrary plans the link of t. With a soversion its file name ends in that; programs load it
// by this name. Links search for the plain name, which is a copy because no cache keeps symbolic
// links. kbuild install creates a symbolic link instead.
func (b *builder) sharedLibrary(t *target, plain string) {
	if t.SOVersion == "" {
		b.link(t, plain, graph.SharedLink)
		return
	}
	b.link(t, plain+"."+t.SOVersion, graph.SharedLink)
	b.emit(t, &graph.Action{Kind: graph.Copy, Name: path.Base(plain), Inputs: []string{t.file}, Outputs: []string{plain}})
	t.node.Outputs = append(t.node.Outputs, plain)
}

// link plans the device link, if any device code needs one, and the host link.
func (b *builder) link(t *target, out string, kind graph.Kind) {
	t.file = out
	t.node.Outputs = []string{out}
	l := b.linkage(t)
	b.checkVendors(t, l)
	b.checkFinal(t, l)
	if t.isHIP() {
		b.linkHIP(t, l, kind)
		return
	}
	objs := paths(t.objects)
	linked := b.linkInputs(t, l)
	if b.linksByClang(linked) {
		(&clangLink{b, t, l, kind, linked}).plan()
		return
	}
	deviceLink := len(linked) > 0
	if deviceLink {
		if t.dlink = b.deviceLink(t, l); t.dlink != "" {
			objs = append(objs, t.dlink)
		}
	}
	b.checkCompiler(t)
	argv, inputs := b.linkArgv(t, l, append(objs, l.embeds...), deviceLink, kind)
	a := &graph.Action{
		Kind: kind, Name: path.Base(path.Dir(out)) + "/" + path.Base(out), Argv: argv, Inputs: inputs,
		Outputs: []string{out}, Depfile: b.linkDepfile(t), Tools: b.linkTools(t, l), Work: graph.Work{Response: atFile(1)},
	}
	if linkLTO(t, l) != "" {
		a.Env = []string{toolchain.Anywhere} // the link compiles
	}
	b.besideLink(t, a)
	b.emit(t, a)
}
