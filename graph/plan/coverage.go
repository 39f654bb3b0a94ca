package plan

import (
	"fmt"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"slices"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Missing inputs of a device link, reported before anything is compiled.

// checkLink reports what would make the linked program wrong: a missing architecture, partial LTO
// that the manifest does not declare, options that differ.
func (ck *checks) checkLink(t *target, linked []linkInput, lto bool) bool {
	before := len(ck.list)
	if len(t.codes.sass) == 0 {
		ck.errorf(t.attr("gencode"), "Add the architectures to link for, for example sm_80.", "%s links device code and ships no machine code", t.label)
		return false
	}
	if len(t.codes.ptx) > 0 && slices.ContainsFunc(linked, func(p linkInput) bool { return p.t.Kind != manifest.Prebuilt }) {
		ck.warnf(t.attr("gencode"), "A device link makes machine code only. Set mode = \"whole\" to ship PTX, or drop "+spell(t.codes.ptx)+".",
			"%s does not ship %s: its device code is linked", t.label, spell(t.codes.ptx))
	}
	for _, p := range linked {
		if p.t.Kind == manifest.Prebuilt {
			ck.checkPrebuilt(t, p, lto)
		} else {
			ck.checkCoverage(t, p, lto)
		}
	}
	if lto {
		ck.checkLTO(t, linked)
	}
	ck.checkLibraries(t, nil, t.Flags.NVLink, "cudadevrt")
	ck.checkClosed(t)
	return !ck.list[before:].HasErrors()
}

// checkCoverage checks that p has an image for each architecture that t links.
func (ds *diagnostics) checkCoverage(t *target, p linkInput, lto bool) {
	modes := map[string]bool{}
	for _, s := range p.t.Sources {
		if relocatable(s) {
			modes[s.Mode] = true
		}
	}
	for _, mode := range []string{"rdc", "lto"} {
		if !modes[mode] {
			continue
		}
		var images []gencode.Image
		for _, c := range p.t.codes.compileCodes(mode) {
			images = append(images, gencode.Image(c))
		}
		for _, want := range t.codes.sass {
			if !anyLinks(images, want, lto) {
				ds.bothf(t.attr("gencode"), p.t.attr("gencode"), p.t.label+" says what it has",
					"Without it the program would hold no code of it for that architecture. Add it to "+p.t.label+", or drop it here.",
					"%s needs %s, but %s has %s only", t.label, want, p.t.label, spell(p.t.codes.compileCodes(mode)))
			}
		}
	}
}

func anyLinks(images []gencode.Image, want gencode.Code, lto bool) bool {
	return slices.ContainsFunc(images, func(i gencode.Image) bool { return gencode.LinksInto(i, want, lto) })
}

// checkClosed rejects a library that is device-linked twice, inside two closed static libraries.
func (ck *checks) checkClosed(t *target) {
	inside := map[*target]*target{}
	for _, s := range ck.reached(t) {
		if s.Kind != manifest.Library || !s.DeviceLink || s.Shared {
			continue
		}
		for _, u := range ck.reached(s) {
			if len(ck.linkInputs(u, linkage{})) == 0 {
				continue
			}
			if other := inside[u]; other != nil && other != s {
				ck.bothf(s.attr("device_link"), other.attr("device_link"), other.label,
					"One program can register its kernels once only: drop device_link from one of them.",
					"%s is device-linked into both %s and %s", u.label, other.label, s.label)
			}
			inside[u] = s
		}
	}
}

// checkClosedBehind rejects a static library with a device link of its own that depends on another
// one. The link of t cannot use device code that is linked already.
func (ck *checks) checkClosedBehind(t *target) {
	for _, u := range ck.reached(t) {
		if u.DeviceLink && !u.Shared && slices.ContainsFunc(u.Sources, relocatable) {
			ck.bothf(t.attr("device_link"), u.attr("device_link"), u.label+" has it too",
				"Drop it from "+u.label+": the device link of "+t.label+" then has its code.",
				"%s depends on %s, and both have device_link: the device code of %s is linked already, and no other link can use it",
				t.label, u.label, u.label)
		}
	}
}

// checkPrebuilt checks a prebuilt against the codes that t links for, and its file against its
// block in the manifest. Members that lack an architecture are reported together.
func (ck *checks) checkPrebuilt(t *target, p linkInput, lto bool) {
	for _, want := range t.codes.sass {
		ck.checkCovered(t, p, ck.linkedMembers(p.t), want)
	}
	ck.checkMembers(t, p, lto)
}

// checkMembers checks the LTO-IR in the file of a prebuilt against its lto attribute.
func (ck *checks) checkMembers(t *target, p linkInput, lto bool) {
	members := ck.linkedMembers(p.t)
	ck.checkVersions(t, p, members, lto)
	none := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return holds(m, gencode.LTO) })
	switch {
	case len(none) > 0 && p.t.LTO == "required":
		ck.errorf(p.t.attr("lto"), `Declare lto = "none" to accept partial LTO, or ask the vendor for lto_* code.`,
			"%s has no LTO-IR, and lto is \"required\"", memberNames(p.t, none))
	case len(none) > 0 && p.t.LTO == "" && lto:
		detail := `Declare lto = "none" on ` + p.t.label + " to accept it, or ask the vendor for lto_* code."
		if p.t.undeclared {
			detail = fmt.Sprintf(`To accept it, declare prebuilt %q { archive = %q, lto = "none" } and name that in deps instead of in libs.`, p.t.Name, p.t.file)
		}
		ck.bothf(p.t.Pos, t.attr("mode"), t.label+" is linked with LTO", detail,
			"%s is linked with partial LTO: %s has %s only", t.label, memberNames(p.t, none), gencode.Spell(none[0].Images))
	case len(none) < len(members) && p.t.LTO == "none":
		i := slices.IndexFunc(members, func(m Member) bool { return holds(m, gencode.LTO) })
		ck.errorf(p.t.attr("lto"), `Remove lto = "none": it can take part in LTO.`, "%s does hold LTO-IR", memberNames(p.t, members[i:i+1]))
	}
}

// checkVersions rejects code that is newer than the toolkit's own: its linker cannot read it.
func (ck *checks) checkVersions(t *target, p linkInput, members []Member, lto bool) {
	for _, kind := range []gencode.Kind{gencode.SASS, gencode.PTX, gencode.LTO} {
		own, known := ck.facts.CUDA.Makes[kind]
		newer := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !m.Versions[kind].Newer(own) })
		if !known || len(newer) == 0 || kind == gencode.LTO && !lto {
			continue
		}
		ck.bothf(p.t.Pos, t.Pos, t.label+" links "+p.t.label, "Set CUDA_HOME to that CUDA or a newer one, or ask the vendor for code of an older one.",
			"%s was made by a newer CUDA than %s: its %s is of version %s, and nvlink reads up to %s",
			memberNames(p.t, newer), ck.facts.CUDA.Version, kind, newer[0].Versions[kind], own)
		return
	}
}

// checkCovered reports whether every member has code that links for an architecture.
func (ds *diagnostics) checkCovered(t *target, p linkInput, members []Member, want gencode.Code) bool {
	lacking := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return anyLinks(m.Images, want, true) })
	if len(lacking) == 0 {
		return true
	}
	ds.bothf(t.attr("gencode"), p.t.Pos, p.t.label+" is this file", "Ask the vendor for that architecture, or drop it here.",
		"%s needs %s, but %s has %s only", t.label, want, memberNames(p.t, lacking), gencode.Spell(lacking[0].Images))
	return false
}
