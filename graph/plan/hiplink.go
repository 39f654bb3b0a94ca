package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// checkFinal checks that the libraries that t links or loads have final code for each architecture
// that t ships. Shared libraries and sources in mode whole have final code. A program that inherits
// its architectures from its libraries is not checked.
func (ds *diagnostics) checkFinal(t *target, l linkage) {
	if len(t.Gencode.Code) == 0 {
		return
	}
	for _, u := range slices.Concat(l.statics, l.shared) {
		final := slices.ContainsFunc(u.Sources, func(s manifest.Source) bool { return isDevice(s) && (u.Shared || s.Mode == "whole") })
		if !final || u.isHIP() != t.isHIP() {
			continue
		}
		for _, want := range slices.Concat(t.codes.sass, t.codes.gfx) {
			if !u.runsOn(want) {
				ds.bothf(t.attr("gencode"), u.attr("gencode"), u.label+" says what it has",
					"Without it the code of "+u.label+" does not run there. Add it, or drop it here.",
					"%s ships %s, but %s has %s only", t.label, want, u.label, spell(u.codes.shipped()))
			}
		}
	}
}

// runsOn reports whether t has final code that a GPU of an architecture runs: its own, or for CUDA
// that of an older one of its generation, or PTX.
func (t *target) runsOn(want gencode.Code) bool {
	return slices.ContainsFunc(t.codes.shipped(), func(c gencode.Code) bool {
		return gencode.Covers(c, want) || gencode.LinksInto(gencode.Image(c), want, false) && want.Kind == gencode.SASS
	})
}

// checkVendors rejects a link of CUDA and HIP code.
func (ck *checks) checkVendors(t *target, l linkage) {
	for _, u := range l.statics {
		if slices.ContainsFunc(u.Sources, isDevice) && u.isHIP() != t.isHIP() {
			ck.bothf(t.attr("gencode"), u.attr("gencode"), u.label+" says what it ships", "Make a library for each vendor, of the same sources.",
				"%s ships %s, and %s ships %s", t.label, t.vendor(), u.label, u.vendor())
		}
	}
	for _, u := range l.pre {
		for _, m := range ck.facts.Prebuilt[u.file].Members {
			if m.Relocatable && ck.otherDriver(t, m, l) {
				ck.refuseMember(t, u, m)
			} else if m.Relocatable && m.amd() != t.isHIP() {
				ck.bothf(t.attr("gencode"), u.Pos, u.label+" is this file", "Link it into a program of its vendor.",
					"%s ships %s, and %s:%s has %s", t.label, t.vendor(), u.file, m.Name, gencode.Spell(m.Images))
			}
		}
	}
}

// linkHIP plans the link of a program or shared library with HIP code.
func (b *builder) linkHIP(t *target, l linkage, kind graph.Kind) {
	if _, ok := b.hip(t.Pos); !ok {
		return
	}
	h := &hipLink{b: b, t: t, l: l, kind: kind, objects: paths(t.objects), linked: b.linkInputs(t, l), mode: "whole"}
	for _, p := range h.linked {
		if p.t.Kind == manifest.Prebuilt || p.t.isHIP() { // otherwise checkVendors has reported it
			b.checkHIPCoverage(t, p.t)
		}
		if h.mode != "lto" {
			h.mode = linkMode(p.lto)
		}
	}
	var codes []gencode.Code
	if len(h.linked) > 0 {
		codes = t.codes.gfx
		if h.isNew = b.linkDriver(t, l); !b.checkDrivers(t, l) {
			return
		}
		h.packaged = h.isNew
		b.checkHIPLinker(t)
	}
	h.plain = h.inOnePiece()
	passes, err := h.learn(codes)
	if err != nil {
		h.whole(err)
		return
	}
	h.Link = passes
	if codes != nil {
		h.device()
		return
	}
	h.host()
}

// device plans the device links, and the host link of their outputs.
func (h *hipLink) device() {
	b, t := h.b, h.t
	dir, object := b.out(graph.PartsDir, b.inTree(t.file)), b.out("obj", fileName(t), "dlink.o")
	wrapper := b.facts.HIP.Programs["llvm-offload-wrapper"]
	switch {
	case !h.isNew:
		h.Split(h.unit(), dir, object, t.Flags.LLD, h.symbols(), h.bitcode)
		h.objects = append(h.objects, object)
	case wrapper != "":
		h.SplitNew(h.unit(), dir, object, wrapper, t.Flags.LLD, h.bitcode)
		h.objects = append([]string{object}, h.objects...) // in the order of clang-linker-wrapper
	default:
		options, images := h.OverrideImages(h.DeviceLinks(h.unit(), dir, t.Flags.LLD, h.bitcode))
		_, inputs := b.linkArgv(t, h.l, append(h.objects, h.l.embeds...), false, h.kind)
		h.emit(&graph.Action{Argv: append(h.plain, options...), Inputs: append(inputs, images...), Work: graph.Work{Driver: &graph.Driver{}}})
		return
	}
	h.host()
}

// checkHIPLinker reports an lld that cannot read clang's output.
func (ck *checks) checkHIPLinker(t *target) {
	if k := ck.facts.HIP; k.LinkFault != "" && !ck.hipPrinted {
		ck.errorf(t.attr("mode"), k.LinkFault, "%s cannot link device code here", k.Driver.Path)
		ck.hipPrinted = true
	}
}

// hipLink plans one link of HIP code.
type hipLink struct {
	*hip.Link
	b       *builder
	t       *target
	l       linkage
	kind    graph.Kind
	objects []string    // of t
	linked  []linkInput // targets with device code to link
	mode    string
	isNew   bool     // by clang's new offload driver
	plain   []string // the unsplit hipcc command
	asked   string

	packaged bool // prebuilt archives hold code of the new driver
}

func (h *hipLink) learn(codes []gencode.Code) (*hip.Link, error) {
	b := h.b
	if err := h.oneCommand(codes); err != nil {
		return nil, err
	}
	cc := hip.Driver{Path: b.facts.HIP.Driver.Path}
	argv := cc.Link(h.t.codes.gfx, h.mode, h.options(), []string{toolchain.QueryInput}, toolchain.AskOutput)
	q := toolchain.Question{Tool: "hip", Args: clang.Query(argv, "", "", "")}
	h.asked = q.Key()
	link, err := learn(&b.answers, q, func(text string) (*hip.Link, error) {
		return hip.LearnLink(text, append(argv[:1:1], q.Args...), codes, h.isNew)
	})
	if err != nil || link.Wrapper == nil {
		return link, err
	}
	wrapped, err := b.learnWrapper(link.AskWrapper(codes), codes)
	if err != nil {
		return nil, err
	}
	link.Device, link.Bundle = wrapped.Device, wrapped.Bundle
	return link, nil
}

// oneCommand returns why the link stays unsplit, or nil if it can be split. The link of a module
// has no host code.
func (h *hipLink) oneCommand(codes []gencode.Code) error {
	major, hosted, wrapper := h.b.facts.HIP.Major, h.kind != "", h.b.facts.HIP.Programs["llvm-offload-wrapper"]
	features := func(c gencode.Code) bool { return c.Feature != "" }
	switch why := h.b.optedOut(h.t); {
	case why != "":
		return optOut(why)
	case codes != nil && major > hip.LastMajor:
		return fmt.Errorf("clang %d is newer than those that were tried", major)
	case h.isNew && major < hip.FirstApart:
		return fmt.Errorf("clang %d optimises in the linker of its new offload driver", major)
	// The linker mislabels code that it did not link.
	case h.isNew && hosted && wrapper == "" && major > hip.FirstWrapped:
		return fmt.Errorf("there is no llvm-offload-wrapper of clang %d (on Debian and Ubuntu: apt install llvm-%[1]d)", major)
	case h.isNew && hosted && wrapper == "" && slices.ContainsFunc(codes, features):
		return fmt.Errorf("the linker of clang %d forgets features of code that was linked before (%s)", major, spell(codes))
	}
	for _, p := range h.linked {
		for _, o := range p.t.objects {
			if relocatable(o.source) && o.bitcode == nil {
				return fmt.Errorf("hipcc compiled %s as one command", o.source.Path)
			}
		}
	}
	return nil
}

// options returns the options of the link by hipcc.
func (h *hipLink) options() toolchain.Options {
	o := toolchain.Options{Opt: h.b.hipOpt(h.t, h.t.anySource())}
	if len(h.linked) > 0 {
		o.Flags = append(h.b.driverOptions(h.isNew), hip.CompressOptions(h.t.Flags.HIP)...)
	}
	return o
}

// checkHIPCoverage checks that u has code for each architecture that t links.
func (ck *checks) checkHIPCoverage(t, u *target) {
	if u.Kind == manifest.Prebuilt {
		ck.checkHIPPrebuilt(t, u)
		return
	}
	for _, want := range t.codes.gfx {
		if !slices.Contains(u.codes.gfx, want) {
			ck.bothf(t.attr("gencode"), u.attr("gencode"), u.label+" says what it has",
				"Without it the program would hold no code of it for that architecture. Add it to "+u.label+", or drop it here.",
				"%s needs %s, but %s has %s only", t.label, want, u.label, spell(u.codes.gfx))
		}
	}
}

// checkHIPPrebuilt checks that u has code for the exact target. clang 15's bundler accepts no code
// for gfx90a where gfx90a:xnack- is requested, though it would run there (gencode.Covers).
func (ck *checks) checkHIPPrebuilt(t, u *target) {
	for _, m := range ck.facts.Prebuilt[u.file].Members {
		for _, want := range t.codes.gfx {
			if m.Relocatable && !slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return i.Name == want.Name && i.Feature == want.Feature }) {
				ck.bothf(t.attr("gencode"), u.Pos, u.label+" is this file", "Ask the vendor for that architecture, or drop it here.",
					"%s needs %s, but %s:%s has %s only", t.label, want, u.file, m.Name, gencode.Spell(m.Images))
			}
		}
	}
}

// unit returns the unit for splitting the link. Its folder is the parent of all intermediates,
// because several links share some of them.
func (h *hipLink) unit() toolchain.Unit {
	u := h.b.unit(h.t, &graph.Action{Name: h.t.Name, Mode: h.mode, Archs: names(h.t.codes.gfx), Argv: h.plain, Env: h.b.hipEnv(), Tools: []string{"hip"},
		Work: graph.Work{Driver: &graph.Driver{DryRunKey: h.asked}}}, "")
	u.Dir = h.b.out(graph.PartsDir)
	return u
}

// bitcode returns the inputs of the device link for an architecture.
func (h *hipLink) bitcode(arch string) (code hip.Bitcode) {
	for _, p := range h.linked {
		if p.t.Kind == manifest.Prebuilt {
			archive := h.b.out(graph.SlicesDir, toolchain.FileName(arch), h.b.inTree(p.t.file))
			if _, planned := h.b.graph.Producer(archive); !planned {
				h.b.emit(h.t, h.unpack(p.t.file, arch, archive))
			}
			code.Add(archive, true)
			continue
		}
		for _, o := range p.t.objects {
			if file := o.bitcode[arch]; file != "" {
				code.Add(file, false)
			}
		}
	}
	return code
}

// unpack returns the action that extracts an architecture's code of a prebuilt file into an
// archive.
func (h *hipLink) unpack(file, arch, archive string) *graph.Action {
	if h.packaged {
		return h.Unpackage(h.unit(), h.b.facts.HIP.Programs["packager"], file, arch, archive)
	}
	return h.Unbundle(h.unit(), file, arch, archive)
}

// symbols returns the symbols by which the host code in the link refers to the linked device code.
func (h *hipLink) symbols() []string {
	var names []string
	for _, p := range h.linked {
		for _, m := range h.b.facts.Prebuilt[p.t.file].Members {
			names = append(names, m.Fatbins...)
		}
		for _, o := range p.t.objects {
			if s := o.source; relocatable(s) {
				names = append(names, hip.FatbinSymbol(h.b.facts.HIP.Major, clang.ID(p.t.label, s.Path, s.Partition)))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// host plans the link of the host code.
func (h *hipLink) host() {
	argv, inputs := h.b.linkArgv(h.t, h.l, append(h.objects, h.l.embeds...), false, h.kind)
	argv[0] = h.Clang
	if h.t.CudaRT != "none" {
		argv = append(argv, h.runtimeArgs()...)
	}
	h.emit(&graph.Action{Argv: argv, Inputs: inputs, Work: graph.Work{Response: atFile(1), Driver: &graph.Driver{}}})
}

// runtimeArgs returns the arguments that link HIP's runtime, as hipcc does.
func (h *hipLink) runtimeArgs() []string {
	var argv []string
	for _, d := range h.LibDirs {
		argv = append(argv, "-L"+d)
		if d != "/usr/lib" {
			argv = append(argv, host.ForLinker("-rpath", d)...)
		}
	}
	argv = append(argv, h.Libs...)
	if !slices.Contains(argv, "-lamdhip64") {
		argv = append(argv, "-lamdhip64")
	}
	return argv
}

// inOnePiece returns the hipcc command that links device and host code. hipcc extracts the objects
// with device code from archives. A clang that is named in its place reads an archive only if -l
// names it, so it gets the objects of libraries one by one. So does a hipcc whose linker loads an
// archive member only if device code refers to it.
func (h *hipLink) inOnePiece() []string {
	objects := slices.Clone(h.objects)
	for _, p := range h.linked {
		for _, o := range p.t.objects {
			if p.t != h.t && relocatable(o.source) && !h.looksIntoArchives() {
				objects = append(objects, o.path)
			}
		}
	}
	argv, _ := h.b.linkArgv(h.t, h.l, append(objects, h.l.embeds...), false, h.kind)
	o := h.options()
	o.LLD = h.t.Flags.LLD
	hip := hip.Driver{Path: h.b.facts.HIP.Driver.Path}.Link(h.t.codes.gfx, h.mode, o, nil, "")
	return append(hip[:len(hip)-2], argv[1:]...)
}

// looksIntoArchives reports whether the unsplit link reads all device code of archives.
func (h *hipLink) looksIntoArchives() bool {
	if h.isNew {
		return h.b.facts.HIP.Major >= hip.FirstApart
	}
	return h.b.facts.HIP.isHipcc()
}

// whole plans device and host link as one command of hipcc.
func (h *hipLink) whole(why error) {
	switch r := (driverError{}); {
	case errors.As(why, &r):
		h.b.hipRefused(h.t, r)
		return
	case errors.Is(why, hip.ErrDriver):
		h.b.refuseLinkDriver(h.t, h.isNew)
		return
	}
	_, inputs := h.b.linkArgv(h.t, h.l, append(h.objects, h.l.embeds...), false, h.kind)
	for _, p := range h.linked {
		if p.t.Kind == manifest.Prebuilt && !h.looksIntoArchives() && !errors.Is(why, errNotQueried) {
			h.b.errorf(p.t.Pos, "Link its objects instead.", "%s: clang links as one command (%v), and would not see the device code of %s", h.t.label, why, p.t.file)
		}
		for _, o := range p.t.objects {
			if !slices.Contains(inputs, o.path) {
				inputs = append(inputs, o.path)
			}
		}
	}
	d := &graph.Driver{UnsplitReason: why.Error(), Fallback: !errors.As(why, new(optOut))}
	h.emit(&graph.Action{Argv: h.plain, Inputs: inputs, Work: graph.Work{Driver: d}})
}

// emit adds the action that writes the program.
func (h *hipLink) emit(a *graph.Action) {
	out := h.t.file
	a.Kind, a.Name, a.Outputs = h.kind, path.Base(path.Dir(out))+"/"+path.Base(out), []string{out}
	a.Env, a.Tools, a.Depfile = h.b.hipEnv(), []string{"hip"}, h.b.linkDepfile(h.t)
	a.Work.Driver.Ships = names(h.t.codes.gfx)
	h.b.besideLink(h.t, a)
	h.b.emit(h.t, a)
}
