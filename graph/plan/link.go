package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// linkage is what a link of t takes from its dependencies. A static library's dependencies come
// along; a shared library is closed: what it links stays its own.
type linkage struct {
	statics []*target // static libraries, users before what they use
	pre     []*target // prebuilt archives
	shared  []*target // shared libraries and prebuilt shared files
	embeds  []string  // objects of embedded modules
	libs    []string
	libDirs []string
}

func (b *walker) linkage(t *target) linkage {
	var l linkage
	var libs, libDirs []string
	for _, d := range b.reached(t) {
		switch {
		case d.Kind == manifest.Module:
			l.embeds = append(l.embeds, d.embeds...)
		case d.Shared || d.SharedFile != "":
			l.shared = append(l.shared, d)
		case d.Kind == manifest.Prebuilt:
			l.pre = append(l.pre, d)
		case d.Kind == manifest.Library:
			l.statics = append(l.statics, d)
		}
		if d.Kind == manifest.Prebuilt || d.Kind == manifest.Library && !d.Shared {
			libs, libDirs = append(libs, d.Libs...), append(libDirs, d.LibDirs...)
		}
	}
	l.libs = appendNew(append([]string(nil), t.Libs...), libs...)
	l.libDirs = appendNew(append([]string(nil), t.LibDirs...), libDirs...)
	return l
}

// reached is the closure of t for linking: it does not look behind shared libraries.
func (b *walker) reached(t *target) []*target {
	behind := func(u *target) bool { return u != t && (u.Shared || u.SharedFile != "") }
	ok := map[*target]bool{}
	var walk func(u *target)
	walk = func(u *target) {
		if ok[u] {
			return
		}
		ok[u] = true
		if !behind(u) {
			for _, d := range u.deps {
				walk(d)
			}
		}
	}
	walk(t)
	var out []*target
	for _, d := range b.closure(t) {
		if ok[d] {
			out = append(out, d)
		}
	}
	return out
}

// appendNew appends those of more that list does not hold yet.
func appendNew(list []string, more ...string) []string {
	if len(more) == 0 {
		return list
	}
	have := make(map[string]bool, len(list)+len(more))
	for _, s := range list {
		have[s] = true
	}
	for _, s := range more {
		if !have[s] {
			have[s] = true
			list = append(list, s)
		}
	}
	return list
}

// library plans the archive or the shared library of t.
func (b *builder) library(t *target) {
	t.include = t.Includes
	if t.Shared {
		b.link(t, b.out("lib", "lib"+t.Name+".so"), graph.SharedLink)
		return
	}
	if b.facts.AR.Path == "" {
		b.errorf(t.Pos, b.facts.AR.Error, "no archiver for %s", t.label)
		return
	}
	members := append(b.members(t), ownEmbeds(t)...)
	if t.DeviceLink && t.isHIP() {
		b.errorf(t.attr("device_link"), "Drop it: the program that uses the library links its device code.", "%s: device_link closes CUDA libraries only", t.label)
	} else if t.DeviceLink {
		if l := b.linkage(t); b.needsDeviceLink(t, l) {
			t.dlink = b.deviceLink(t, l)
			members = append(members, t.dlink)
		}
	}
	t.file = b.out("lib", "lib"+t.Name+".a")
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

func paths(objects []object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.path)
	}
	return out
}

func (b *builder) executable(t *target) {
	b.link(t, b.out("bin", t.Name), graph.HostLink)
}

// atFile is the response file of ar, lld and drivers of linkers, for the arguments from one on.
func atFile(from int) *graph.Response { return &graph.Response{From: from, Flag: "@"} }

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
	deviceLink := b.needsDeviceLink(t, l)
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
		a.Env = []string{compiler.Anywhere} // the link compiles
	}
	b.besideLink(t, a)
	b.emit(t, a)
}

func (b *checks) checkCompiler(t *target) {
	if b.facts.CXX.Path == "" {
		b.errorf(t.Pos, b.facts.CXX.Error, "no compiler to link %s", t.label)
	}
}

func (b *checks) linkArgv(t *target, l linkage, objs []string, deviceLink bool, kind graph.Kind) (argv, inputs []string) {
	h := host.LinkOptions{Depfile: b.linkDepfile(t), Trace: b.tracesLink(t, l), Objects: objs, Libs: l.libs, LibDirs: l.libDirs,
		LTO: b.ltoLink(t, l), Flags: t.Flags.Link, Output: t.file}
	for _, s := range append(append([]*target(nil), l.statics...), l.pre...) {
		if s.object != "" {
			h.Objects = append(h.Objects, s.object)
		} else {
			h.Archives = append(h.Archives, s.file)
		}
	}
	inputs = append(inputs, h.Objects...)
	inputs = append(inputs, h.Archives...)
	for _, s := range l.shared {
		h.Shared = append(h.Shared, s.file)
		h.RPaths = appendNew(h.RPaths, rpath(t.file, s.file))
	}
	inputs = append(inputs, h.Shared...)
	if kind == graph.SharedLink {
		h.SOName = path.Base(t.file)
	}
	if !t.isHIP() && b.usesCUDA(t, l) && b.facts.CUDA != nil {
		h.CUDALibs = nvcc.RuntimeLibs(t.CudaRT, deviceLink)
		h.CUDADirs = b.facts.CUDA.LibDirs
		b.checkLibraries(t, h.LibDirs, h.Flags, h.CUDALibs...)
	}
	return host.Link(b.facts.CXX.Path, h), inputs
}

// checkLibraries refuses a link that would take a library of another toolkit, or none. Where the user names folders to search, by
// lib_dirs or an option of the linker, it is theirs to know what is in them.
func (b *checks) checkLibraries(t *target, libDirs, options []string, libs ...string) {
	searches := func(option string) bool {
		return strings.HasPrefix(option, "-L") || strings.HasPrefix(option, "-Wl,-L") || strings.HasPrefix(option, "--library-path")
	}
	if len(libDirs) > 0 || slices.ContainsFunc(options, searches) {
		return
	}
	for _, lib := range libs {
		for _, file := range []string{"lib" + lib + ".a", "lib" + lib + ".so"} {
			if fault := b.facts.CUDA.LibFaults[file]; fault != "" {
				b.errorf(t.Pos, fault, "%s cannot be linked with the %s of CUDA %s", t.label, file, b.facts.CUDA.Version)
				return // the fix of one is mostly that of all
			}
		}
	}
}

// rpath finds a shared library next to the program, wherever the build tree is moved to; a library
// outside of it by its absolute folder.
func rpath(from, to string) string {
	if path.IsAbs(to) && !path.IsAbs(from) {
		return path.Dir(to)
	}
	up := ""
	dir := path.Dir(from)
	for !strings.HasPrefix(to, dir+"/") && dir != "." && dir != "/" {
		up += "/.."
		dir = path.Dir(dir)
	}
	rel := path.Dir(to)
	if dir != "." {
		rel = strings.TrimPrefix(strings.TrimPrefix(rel, dir), "/")
	}
	return strings.TrimSuffix("$ORIGIN"+up+"/"+rel, "/") // not path.Join, which would take $ORIGIN/.. for nothing
}

// usesCUDA reports whether the program needs the CUDA runtime: a CUDA source compiler.Anywhere in the link.
func (b *given) usesCUDA(t *target, l linkage) bool {
	for _, u := range append(append([]*target{t}, l.statics...), l.pre...) {
		for _, s := range u.Sources {
			if s.Language == "cuda" {
				return true
			}
		}
		if len(b.facts.Prebuilt[u.file].Members) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.libs, func(name string) bool { return b.facts.static(name, l.libDirs) != "" })
}

// linkDepfile is where the linker writes which files it opened: the libraries of -l and the system's
// start files are found by it and by nobody else.
func (b *given) linkDepfile(t *target) string {
	if !b.facts.LinkDepfile {
		return ""
	}
	return b.out("obj", fileName(t), "link.d")
}

// tracesLink reports that the linker of t is GNU ld, which tells where it looks for files. Other linkers that a flag names know the
// option as well and say other things, or nothing.
func (b *given) tracesLink(t *target, l linkage) bool {
	other := func(flag string) bool {
		return strings.HasPrefix(flag, "-fuse-ld=") && flag != "-fuse-ld=bfd" || strings.HasPrefix(flag, "--ld-path=")
	}
	return b.facts.LinkDepfile && b.facts.LinkTrace && !slices.ContainsFunc(t.Flags.Link, other) && !slices.ContainsFunc(b.ltoLink(t, l), other)
}

// linkTools are the tools behind a host link. The toolkit is one where its libraries are linked, in case
// the linker cannot say that it read them.
func (b *given) linkTools(t *target, l linkage) []string {
	if b.facts.CUDA != nil && b.usesCUDA(t, l) {
		return []string{"cxx", "nvcc"}
	}
	return []string{"cxx"}
}
