package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Device code is shipped in archives and objects, and without host code around it: LTO-IR in a bare fatbin, as MathDx does, or bare.
// nvlink 11.8 takes a bare fatbin and not bare LTO-IR, with status 0; nvcc -dlink takes a fatbin and then compiles a list of modules
// with one called (null) in it; a fatbin in an archive is passed over. So each is put into an object, as nvcc would have made it of
// a source without host code, and that is linked by all that link it:
//
//	x.ltoir -> fatbinary -> x.fatbin -> host-part -> x.fatbin.o

// prebuilt plans what makes a file linkable; an archive has no actions. What it holds was read while collecting facts.
func (b *builder) prebuilt(t *target) {
	t.include = t.Includes
	t.file = t.Archive
	if t.file == "" {
		t.file = t.SharedFile
	}
	t.node.Outputs = []string{t.file}
	for _, d := range t.deps {
		t.headers = append(t.headers, d.headers...)
	}
	lib := b.facts.Prebuilt[t.file]
	attr := t.attr(map[bool]string{true: "archive", false: "shared"}[t.Archive != ""])
	isBare := lib.Form == "LTO-IR"
	switch {
	case lib.Error != "":
		b.errorf(attr, "Build or install it first; the path is relative to the manifest.", "%s: %s", t.file, lib.Error)
	case lib.Form == "fatbin" && !slices.ContainsFunc(lib.Members, Member.NVLinkReads):
		b.errorf(attr, "Compile it with -dc, or as LTO-IR, to link it; or load it when the program runs.",
			"%s holds final code (%s), which no link takes", t.file, gencode.Spell(images(lib)))
	case lib.Form == "fatbin" || isBare:
		b.linkable(t, isBare)
	case slices.Contains([]string{"cubin", "offload bundle", "code object", "bitcode"}, lib.Form):
		b.errorf(attr, "Give an archive, an object, a fatbin or LTO-IR; load this one when the program runs.", "%s is a %s, which kbuild does not link", t.file, lib.Form)
	}
	if !isBare {
		b.checkUnspoken(t)
	}
}

// checkUnspoken refuses options for code that nvcc has packed: it says by itself how it was compiled.
func (b *problems) checkUnspoken(t *target) {
	if pos := floatPos(t); pos != t.Pos {
		b.errorf(pos, "Remove it: kbuild reads it in the file.", "%s: how code was compiled is told of bare LTO-IR (.ltoir) only, and %s is none", t.label, t.file)
	}
}

func images(lib Library) (all []gencode.Image) {
	for _, m := range lib.Members {
		all = append(all, m.Images...)
	}
	return all
}

// linkable plans the object around bare device code.
func (b *builder) linkable(t *target, ltoir bool) {
	if b.facts.CUDA == nil && b.facts.HIP != nil {
		return // see lacking: who would link it is not built here
	}
	if _, ok := b.nvcc(t.Pos); !ok {
		return
	}
	k, fatbin := b.facts.CUDA, t.file
	if ltoir {
		fatbin = b.out("obj", fileName(t), path.Base(t.file)+".fatbin")
		f, code := floats(t), gencode.Code(b.facts.Prebuilt[t.file].Members[0].Images[0])
		b.emit(t, &graph.Action{Kind: graph.Fatbinary, Name: path.Base(t.file), Archs: []string{code.String()}, Mode: "lto",
			Argv:   nvcc.WrapLTOIR(k.Programs["fatbinary"], code, f.ftz, f.precDiv, f.precSqrt, f.fmad, t.file, fatbin),
			Inputs: []string{t.file}, Outputs: []string{fatbin}, Tools: []string{"nvcc"}})
	}
	t.object = b.out("obj", fileName(t), path.Base(fatbin)+".o")
	staged := graph.StageDir + "/device.c"
	b.emit(t, &graph.Action{Kind: graph.HostPart, Name: path.Base(t.file), Intermediate: true,
		Argv:   []string{k.HostCXX.Path, "-x", "c", "-c", "-fPIC", "-o", t.object, staged},
		Inputs: []string{fatbin}, Outputs: []string{t.object}, Tools: []string{"nvcc"}, Env: []string{compiler.Anywhere},
		Work: graph.Work{Step: &graph.Step{Staged: []graph.StagedFile{
			{Name: path.Base(staged), Text: nvcc.WrapFatbin(fatbin, nvcc.ModuleID(t.label, t.file, ""))}}}}})
}

// linked is the file that links of t's code read.
func (t *target) linked() string { return cmp.Or(t.object, t.file) }

// deviceLibs are the archives behind the -l of u, in a link that searches dirs first, that hold device code which is still to be linked, as prebuilt libraries that nobody
// has declared. nvlink is given the files: it says nothing when it does not find a -l.
func (b *given) deviceLibs(u *target, dirs []string) (libs []*target) {
	for _, name := range u.Libs {
		file := b.facts.static(name, dirs)
		if file == "" || !slices.ContainsFunc(b.facts.Prebuilt[file].Members, Member.NVLinkReads) {
			continue
		}
		pos := u.attr("libs")
		libs = append(libs, &target{label: "-l" + name, file: file, undeclared: true,
			Target: &manifest.Target{Kind: manifest.Prebuilt, Name: name, Archive: file, Pos: pos}})
	}
	return libs
}

// linkedMembers are the members of a prebuilt file that a device link reads.
func (b *given) linkedMembers(t *target) []Member {
	return slices.DeleteFunc(slices.Clone(b.facts.Prebuilt[t.file].Members), func(m Member) bool { return !m.NVLinkReads() })
}

// checkPrebuilt holds a prebuilt against what t links for, and its file against the manifest's word on it. A library of a hundred
// members that lack an architecture is told of once.
func (b *checks) checkPrebuilt(t *target, p part, lto bool) {
	for _, want := range t.codes.sass {
		b.checkCovered(t, p, b.linkedMembers(p.t), want)
	}
	b.checkMembers(t, p, lto)
}

// checkMembers holds the file of a prebuilt against the manifest's word on its LTO-IR.
func (b *checks) checkMembers(t *target, p part, lto bool) {
	members := b.linkedMembers(p.t)
	none := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return holds(m, gencode.LTO) })
	switch {
	case len(none) > 0 && p.t.LTO == "required":
		b.errorf(p.t.attr("lto"), `Declare lto = "none" to accept partial LTO, or ask the vendor for lto_* code.`,
			"%s has no LTO-IR, and lto is \"required\"", memberNames(p.t, none))
	case len(none) > 0 && p.t.LTO == "" && lto:
		detail := `Declare lto = "none" on ` + p.t.label + " to accept it, or ask the vendor for lto_* code."
		if p.t.undeclared {
			detail = fmt.Sprintf(`To accept it, declare prebuilt %q { archive = %q, lto = "none" } and name that in deps instead of in libs.`, p.t.Name, p.t.file)
		}
		b.add(Problem{Pos: p.t.Pos, Summary: fmt.Sprintf("%s is linked with partial LTO: %s has %s only", t.label, memberNames(p.t, none), gencode.Spell(none[0].Images)),
			Detail: detail, Also: t.attr("mode"), AlsoSay: t.label + " is linked with LTO"})
	case len(none) < len(members) && p.t.LTO == "none":
		i := slices.IndexFunc(members, func(m Member) bool { return holds(m, gencode.LTO) })
		b.errorf(p.t.attr("lto"), `Remove lto = "none": it can take part in LTO.`, "%s does hold LTO-IR", memberNames(p.t, members[i:i+1]))
	}
}

// checkCovered wants code of every member that links for an architecture.
func (b *problems) checkCovered(t *target, p part, members []Member, want gencode.Code) bool {
	lacking := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return anyLinks(m.Images, want, true) })
	if len(lacking) == 0 {
		return true
	}
	b.add(Problem{Pos: t.attr("gencode"), Summary: fmt.Sprintf("%s needs %s, but %s has %s only", t.label, want, memberNames(p.t, lacking), gencode.Spell(lacking[0].Images)),
		Detail: "Ask the vendor for that architecture, or drop it here.", Also: p.t.Pos, AlsoSay: p.t.label + " is this file"})
	return false
}

// memberNames is lib/libx.a:a.o, or lib/libx.a:a.o (and 3 more).
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

// checkLTO wants the options that nvlink compares to agree: it refuses a link of LTO-IR whose floating-point options differ, minutes
// into the build, and names no file. -G with -dlto is fatal.
func (b *checks) checkLTO(t *target, parts []part) {
	if b.facts.CUDA.LTOFault != "" && b.facts.CUDA.NVVMPath == "" {
		b.errorf(t.Pos, b.facts.CUDA.LTOFault, "this CUDA toolkit cannot link with LTO")
	}
	var all []compiled
	for _, p := range parts {
		if p.lto && p.t.Kind != manifest.Prebuilt && p.t.DeviceDebug {
			b.errorf(p.t.attr("device_debug"), `Use mode = "rdc" while debugging device code.`, "%s has device_debug and LTO: nvlink refuses -G with -dlto", p.t.label)
		}
		if p.lto {
			all = append(all, b.compiledWith(p.t)...)
		}
	}
	told := map[*target]bool{}
	for _, c := range all {
		if first := all[0]; c.floats != first.floats && c.t != first.t && !told[c.t] {
			told[c.t] = true
			b.add(Problem{Pos: floatPos(c.t), Summary: fmt.Sprintf("cannot link %s (%s) with %s (%s) under LTO", c.what, c.floats, first.what, first.floats),
				Detail: "Floating-point options must agree across one LTO link: " + howToAgree(c.t, first.t),
				Also:   floatPos(first.t), AlsoSay: first.what + " is compiled so"})
		}
	}
}

func howToAgree(a, c *target) string {
	if a.Kind == manifest.Prebuilt || c.Kind == manifest.Prebuilt {
		return "compile what is built here as what is prebuilt, or with mode = \"rdc\", or ask the vendor for another build."
	}
	return "set them in defaults, or build one of the two with mode = \"rdc\"."
}

// compiled is LTO-IR and the options that it was compiled with.
type compiled struct {
	t      *target
	what   string
	floats floatOptions
}

// compiledWith are the options of t's LTO-IR: as the manifest has them, or as cicc wrote them into the file. Code that does not tell
// is left to nvlink.
func (b *given) compiledWith(t *target) (list []compiled) {
	lib := b.facts.Prebuilt[t.file]
	if t.Kind != manifest.Prebuilt || lib.Form == "LTO-IR" {
		return []compiled{{t, t.label, floats(t)}}
	}
	for _, m := range lib.Members {
		for _, text := range m.Options {
			if f, ok := recordedFloats(text); ok && m.NVLinkReads() {
				list = append(list, compiled{t, memberNames(t, []Member{m}), f})
			}
		}
	}
	return list
}

// untold reports LTO-IR that does not say how it was compiled: nvlink refuses it, or not.
func (b *given) untold(t *target) bool {
	return slices.ContainsFunc(b.linkedMembers(t), func(m Member) bool {
		return slices.ContainsFunc(m.Options, func(text string) bool { _, ok := recordedFloats(text); return !ok })
	})
}

// recordedFloats reads what cicc was told: "-ftz=0 -prec_div=1 -prec_sqrt=1 -fmad=1". ok is false if one is missing.
func recordedFloats(text string) (f floatOptions, ok bool) {
	found := map[string]bool{}
	for _, arg := range strings.Fields(text) {
		name, value, _ := strings.Cut(arg, "=")
		on := value == "1"
		found[name] = on || value == "0"
		switch name {
		case "-ftz":
			f.ftz = on
		case "-prec_div":
			f.precDiv = on
		case "-prec_sqrt":
			f.precSqrt = on
		case "-fmad":
			f.fmad = on
		}
	}
	return f, found["-ftz"] && found["-prec_div"] && found["-prec_sqrt"] && found["-fmad"]
}
