package plan

import (
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// linkInput is one target with device code for a link.
type linkInput struct {
	t   *target
	lto bool // has LTO-IR
	rdc bool // has machine code or PTX without LTO-IR
}

// linkInputs returns the targets with relocatable device code in the link of t, t first.
func (ck *checks) linkInputs(t *target, l linkage) []linkInput {
	closed := map[*target]bool{}
	for _, s := range l.statics {
		if s.DeviceLink && s != t {
			closed[s] = true
			for _, u := range ck.reached(s) {
				closed[u] = true
			}
		}
	}
	var out []linkInput
	for _, u := range ck.brought(t, l, closed) {
		if p, ok := ck.linkInputOf(t, u); ok {
			out = append(out, p)
		}
	}
	return out
}

// linkInputOf returns the device code that u contributes to a link of t. ok is false if it has
// none.
func (g *given) linkInputOf(t, u *target) (p linkInput, ok bool) {
	p.t = u
	for _, s := range u.Sources {
		p.lto = p.lto || relocatable(s) && s.Mode == "lto"
		p.rdc = p.rdc || relocatable(s) && s.Mode == "rdc"
	}
	for _, m := range g.facts.Prebuilt[u.file].Members {
		switch {
		case t.isHIP():
			p.rdc = p.rdc || m.Relocatable && !m.NVLinkReads()
		case m.wrapperReads() && g.clangLinks():
			p.lto = p.lto || holds(m, gencode.Bitcode)
			p.rdc = true
		case m.NVLinkReads():
			p.lto = p.lto || holds(m, gencode.LTO)
			p.rdc = p.rdc || !holds(m, gencode.LTO)
		}
	}
	return p, p.lto || p.rdc
}

// brought returns the targets in the link of t that are not closed, and the libraries that these
// name by -l, each once.
func (g *given) brought(t *target, l linkage, closed map[*target]bool) []*target {
	open := slices.DeleteFunc(append(append([]*target{t}, l.statics...), l.pre...), func(u *target) bool { return closed[u] })
	all := slices.Clone(open)
	for _, u := range open {
		if t.isHIP() {
			break // lld reads no NVIDIA archive
		}
		for _, lib := range g.deviceLibs(u, l.libDirs) {
			if !slices.ContainsFunc(all, func(have *target) bool { return have.file == lib.file }) {
				all = append(all, lib)
			}
		}
	}
	return all
}

// linkedMembers returns the members of a prebuilt file that a device link reads.
func (g *given) linkedMembers(t *target) []Member {
	return slices.DeleteFunc(slices.Clone(g.facts.Prebuilt[t.file].Members), func(m Member) bool { return !m.NVLinkReads() })
}

// memberNames formats members: lib/libx.a:a.o, or lib/libx.a:a.o (and 3 more).
func memberNames(t *target, members []Member) string {
	name := t.file
	if members[0].Name != "" {
		name += ":" + members[0].Name
	}
	if more := len(members) - 1; more > 0 {
		name += fmt.Sprintf(" (and %d more)", more)
	}
	return name
}

// deviceLibs returns the archives with relocatable device code that the -l of u find in a link that
// searches dirs first. They act as prebuilt libraries without a block. nvlink gets them as files:
// it prints nothing if it does not find a -l.
func (g *given) deviceLibs(u *target, dirs []string) (libs []*target) {
	for _, name := range u.Libs {
		file := g.facts.static(name, dirs)
		if file == "" || !slices.ContainsFunc(g.facts.Prebuilt[file].Members, Member.NVLinkReads) {
			continue
		}
		pos := u.attr("libs")
		libs = append(libs, &target{label: "-l" + name, file: file, undeclared: true,
			Target: &manifest.Target{Kind: manifest.Prebuilt, Name: name, Archive: file, Pos: pos}})
	}
	return libs
}

func hasLTO(linked []linkInput) bool {
	return slices.ContainsFunc(linked, func(p linkInput) bool { return p.lto })
}

func linkMode(lto bool) string {
	if lto {
		return "lto"
	}
	return "rdc"
}
