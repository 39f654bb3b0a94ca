package hip

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// link plans one link of HIP code.
type link struct {
	*Toolchain
	*Link
	b      *toolchain.Build
	p      *toolchain.Plan
	t      *toolchain.Target
	inputs []toolchain.LinkInput
	codes  []gencode.Code // to link for; nil if there is no code to link
	hosted bool           // it has host code: it is no link of a module
	mode   string
	isNew  bool     // by clang's new offload driver
	plain  []string // the unsplit hipcc command
	asked  string

	packaged bool // prebuilt archives hold code of the new driver
}

// Link implements toolchain.Toolchain.
func (k *Toolchain) Link(r toolchain.LinkRequest) (l toolchain.Linked) {
	t := r.Target
	if r.Static {
		l.Errorf(t.Attr("device_link"), "Drop it: the program that uses the library links its device code.", "%s: device_link is for libraries with CUDA code only", t.Label)
		return l
	}
	if l.Failed = !k.Ready(r.Build, &l.Plan, t.Pos); l.Failed {
		return l
	}
	for _, u := range r.Inputs {
		for _, m := range u.Library.Members {
			if m.Relocatable && m.Language() == Tool && m.NewDriver != k.linkDriver(r.Inputs) {
				toolchain.RefuseMember(&l.Diagnostics, t, u.Target, m)
			}
		}
	}
	h := &link{Toolchain: k, b: r.Build, p: &l.Plan, t: t, inputs: r.Inputs, hosted: true, mode: "whole"}
	for _, u := range h.inputs {
		if u.Kind == manifest.Prebuilt || u.Codes.Language() == Tool { // otherwise its vendor is reported
			checkCoverage(h.p, t, u.Target)
		}
		if h.mode != "lto" {
			h.mode = toolchain.LinkMode(u.LTO)
		}
	}
	if len(h.inputs) > 0 {
		h.codes, h.isNew = t.Codes.Other, k.linkDriver(h.inputs)
		if l.Failed = !checkDrivers(h.p, t, h.inputs); l.Failed {
			return l
		}
		h.packaged = h.isNew
		h.checkLinker()
	}
	l.Host, l.Env, l.Tools = r.Host, k.Environ(), []string{Tool}
	l.Work.Driver = &graph.Driver{Ships: toolchain.CodeNames(t.Codes.Other)}
	command := h.inOnePiece(r, &l)
	var err error
	if h.Link, err = h.learn(); err != nil {
		l.Command, l.Failed = command, !h.whole(&l, err)
		return l
	}
	objects, dir, object := t.ObjectPaths(), r.Out(graph.PartsDir, r.InTree(t.File)), r.Out("obj", t.Folder(), "dlink.o")
	wrapper := k.Programs["llvm-offload-wrapper"]
	switch {
	case h.codes == nil:
	case !h.isNew:
		h.Split(h.unit(), dir, object, t.Flags.LLD, h.symbols(), h.bitcode())
		objects = append(objects, object)
	case wrapper != "":
		h.SplitNew(h.unit(), dir, object, wrapper, t.Flags.LLD, h.bitcode())
		objects = append([]string{object}, objects...) // in the order of clang-linker-wrapper
	default:
		l.Command = command
		// The link uses linked device code instead of its objects' own.
		linked := h.DeviceLinks(h.unit(), dir, t.Flags.LLD, h.bitcode())
		for _, d := range h.Device {
			l.Options = append(l.Options, "-Xlinker", "--override-image=hip="+linked[d.Arch])
			l.Inputs = append(l.Inputs, linked[d.Arch])
		}
		return l
	}
	l.Host, l.Command = r.WithObjects(objects), []string{h.Link.Clang}
	if t.CudaRT != "none" {
		for _, d := range h.LibDirs { // as hipcc does
			l.Options = append(l.Options, "-L"+d)
			if d != "/usr/lib" {
				l.Options = append(l.Options, host.ForLinker("-rpath", d)...)
			}
		}
		if l.Options = append(l.Options, h.Libs...); !slices.Contains(l.Options, "-lamdhip64") {
			l.Options = append(l.Options, "-lamdhip64")
		}
	}
	l.Work.Response = toolchain.AtFile(1)
	return l
}

// inOnePiece sets the hipcc command that links device and host code, and the objects that it names.
// It returns the part of the command that replaces the compiler of the host link. hipcc extracts
// the objects with device code from archives. A clang that is named in its place reads an archive
// only if -l names it, so it gets the objects of libraries one by one. So does a hipcc whose linker
// loads an archive member only if device code refers to it.
func (h *link) inOnePiece(r toolchain.LinkRequest, l *toolchain.Linked) []string {
	objects := h.t.ObjectPaths()
	for _, u := range h.inputs {
		for _, o := range u.Objects {
			if u.Target != h.t && toolchain.IsRelocatable(o.Source) && !h.looksIntoArchives() {
				objects = append(objects, o.Path)
			}
		}
	}
	l.Host = r.WithObjects(objects)
	o := h.options()
	o.LLD = h.t.Flags.LLD
	command := h.linkArgv(h.t.Codes.Other, h.mode, o, nil, "")
	command = command[:len(command)-2]
	h.plain = append(slices.Clone(command), host.Link("", l.Host)[1:]...)
	return command
}

// looksIntoArchives reports whether the unsplit link reads all device code of archives.
func (h *link) looksIntoArchives() bool {
	if h.isNew {
		return h.Major >= FirstApart
	}
	return h.isHipcc()
}

// checkLinker reports an lld that cannot read clang's output.
func (h *link) checkLinker() {
	if h.LinkFault != "" && h.b.Once(toolchain.NoCompiler) {
		h.p.Errorf(h.t.Attr("mode"), h.LinkFault, "%s cannot link device code here", h.Driver.Path)
	}
}

// learn returns the steps of the link from dry runs, or why the link stays unsplit.
func (h *link) learn() (*Link, error) {
	wrapper := h.Programs["llvm-offload-wrapper"]
	features := func(c gencode.Code) bool { return c.Feature != "" }
	switch err := h.b.OptedOut(h.t); {
	case err != nil:
		return nil, err
	case h.codes != nil && h.Major > LastMajor:
		return nil, fmt.Errorf("clang %d is newer than those that were tried", h.Major)
	case h.isNew && h.Major < FirstApart:
		return nil, fmt.Errorf("clang %d optimises in the linker of its new offload driver", h.Major)
	// The linker mislabels code that it did not link.
	case h.isNew && h.hosted && wrapper == "" && h.Major > FirstWrapped:
		return nil, fmt.Errorf("there is no llvm-offload-wrapper of clang %d (on Debian and Ubuntu: apt install llvm-%[1]d)", h.Major)
	case h.isNew && h.hosted && wrapper == "" && slices.ContainsFunc(h.codes, features):
		return nil, fmt.Errorf("the linker of clang %d forgets features of code that was linked before (%s)", h.Major, toolchain.Spell(h.codes))
	}
	if err := clang.AllSplit(h.inputs, "hipcc"); err != nil {
		return nil, err
	}
	argv := h.linkArgv(h.t.Codes.Other, h.mode, h.options(), []string{toolchain.QueryInput}, toolchain.AskOutput)
	q := toolchain.Question{Tool: Tool, By: "hipcc -###", Args: clang.Query(argv, "", "", "")}
	h.asked = q.Key()
	link, err := toolchain.Learn(&h.b.Answers, q, func(text string) (*Link, error) {
		return LearnLink(text, append(argv[:1:1], q.Args...), h.codes, h.isNew)
	})
	if err != nil || link.Wrapper == nil {
		return link, err
	}
	wrapped, err := learnWrapper(h.b, link.AskWrapper(h.codes), h.codes)
	if err != nil {
		return nil, err
	}
	link.Device, link.Bundle = wrapped.Device, wrapped.Bundle
	return link, nil
}

// options returns the options of the link by hipcc.
func (h *link) options() toolchain.Options {
	o := toolchain.Options{Opt: h.levels().Of(h.t, h.t.AnySource())}
	if len(h.inputs) == 0 {
		return o
	}
	if h.isNew != h.LinksNew {
		o.Flags = []string{DriverOption(h.isNew)}
	}
	o.Flags = append(o.Flags, CompressOptions(h.t.Flags.HIP)...)
	return o
}

// checkCoverage checks that u has code for each architecture that t links. Prebuilt code must be
// for the exact target: clang 15's bundler accepts no code for gfx90a where gfx90a:xnack- is
// requested, though it would run there (gencode.Covers).
func checkCoverage(p *toolchain.Plan, t, u *toolchain.Target) {
	for _, m := range u.Library.Members {
		for _, want := range t.Codes.Other {
			if m.Relocatable && !slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return i.Name == want.Name && i.Feature == want.Feature }) {
				p.Bothf(t.Attr("gencode"), u.Pos, u.Label+" is this file", "Ask the vendor for that architecture, or drop it here.",
					"%s needs %s, but %s:%s has %s only", t.Label, want, u.File, m.Name, gencode.Spell(m.Images))
			}
		}
	}
	for _, want := range t.Codes.Other {
		if u.Kind != manifest.Prebuilt && !slices.Contains(u.Codes.Other, want) {
			toolchain.Lacks(p, t, u, want, u.Codes.Other)
		}
	}
}

// unit returns the unit for splitting the link. Its folder is the parent of all intermediates,
// because several links share some of them.
func (h *link) unit() toolchain.Unit {
	u := h.b.NewUnit(h.p, &graph.Action{Name: h.t.Name, Mode: h.mode, Archs: toolchain.CodeNames(h.t.Codes.Other), Argv: h.plain, Env: h.Environ(), Tools: []string{Tool},
		Work: graph.Work{Driver: &graph.Driver{DryRunKey: h.asked}}}, "")
	u.Dir = h.b.Out(graph.PartsDir)
	return u
}

// bitcode returns the inputs of the device links, by architecture.
func (h *link) bitcode() map[string]Bitcode {
	all := map[string]Bitcode{}
	for _, d := range h.Device {
		var code Bitcode
		for _, u := range h.inputs {
			if u.Kind == manifest.Prebuilt {
				archive := h.b.Out(graph.SlicesDir, toolchain.FileName(d.Arch), h.b.InTree(u.File))
				code.Unpack = append(code.Unpack, h.unpack(u.File, d.Arch, archive))
				code.Add(archive, true)
				continue
			}
			for _, o := range u.Objects {
				if file := o.Code[d.Arch]; file != "" {
					code.Add(file, false)
				}
			}
		}
		all[d.Arch] = code
	}
	return all
}

// unpack returns the action that extracts an architecture's code of a prebuilt file into an
// archive. Several links share it.
func (h *link) unpack(file, arch, archive string) *graph.Action {
	if h.packaged {
		return h.Unpackage(h.unit(), h.Programs["packager"], file, arch, archive)
	}
	return h.Unbundle(h.unit(), file, arch, archive)
}

// symbols returns the symbols by which the host code in the link refers to the linked device code.
func (h *link) symbols() []string {
	var names []string
	for _, u := range h.inputs {
		for _, m := range u.Library.Members {
			names = append(names, m.Fatbins...)
		}
		for _, o := range u.Objects {
			if s := o.Source; toolchain.IsRelocatable(s) {
				names = append(names, FatbinSymbol(h.Major, clang.ID(u.Label, s.Path, s.Partition)))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// whole makes the host link one command of hipcc, which links device and host code. It returns
// false if there is no such command.
func (h *link) whole(l *toolchain.Linked, why error) bool {
	if e := (toolchain.DriverError{}); errors.As(why, &e) {
		h.refused(h.p, h.t, e)
		return false
	}
	if errors.Is(why, ErrDriver) {
		made, links := "the old offload driver", "the new one"
		if h.isNew {
			made, links = "clang's new offload driver", "the old one"
		}
		h.p.Errorf(h.t.Pos, fmt.Sprintf(`Set mode = "whole", or choose one driver for compiles and links (%s).`, driverVariables(h.Env)),
			"%s: its objects are made by %s, and its link is by %s, which ignores their device code", h.t.Label, made, links)
		return false
	}
	for _, u := range h.inputs {
		if u.Kind == manifest.Prebuilt && !h.looksIntoArchives() && !errors.Is(why, toolchain.ErrNotQueried) {
			h.p.Errorf(u.Pos, "Link its objects instead.", "%s: clang links as one command (%v), and would not see the device code of %s", h.t.Label, why, u.File)
		}
		if u.Target != h.t {
			l.Inputs = append(l.Inputs, u.ObjectPaths()...)
		}
	}
	toolchain.Unsplit(l.Work.Driver, why)
	return true
}
