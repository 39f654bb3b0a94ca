package plan

import (
	"cmp"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// prebuilt plans the object around a prebuilt file of bare device code. An archive needs no
// actions. The facts hold the content of the file.
func (b *builder) prebuilt(t *target) {
	t.include = t.Includes
	t.File = cmp.Or(t.Archive, t.SharedFile)
	t.node.Outputs = []string{t.File}
	for _, d := range t.deps {
		t.headers = append(t.headers, d.headers...)
	}
	_, t.Built = b.graph.Producer(t.File)
	lib := t.Library
	attr := t.Attr(map[bool]string{true: "archive", false: "shared"}[t.Archive != ""])
	isBare := lib.Form == "LTO-IR"
	switch {
	case lib.Error != "":
		b.problems.Errorf(attr, "Build or install it first; the path is relative to the manifest.", "%s: %s", t.File, lib.Error)
	case lib.Form == "fatbin" && !slices.ContainsFunc(lib.Members, toolchain.Member.NVLinkReads):
		b.problems.Errorf(attr, "Compile it with -dc, or as LTO-IR, to link it; or load it when the program runs.",
			"%s holds final code (%s), which no link takes", t.File, gencode.Spell(images(lib)))
	case lib.Form == "fatbin" || isBare:
		if b.lacksCUDA {
			break // see expand: its dependents are not built on this machine
		}
		name := path.Base(t.File)
		if isBare {
			name += ".fatbin"
		}
		object := b.build.Out("obj", t.Folder(), name+".o")
		cuda := b.toolchains["cuda"]
		c := cuda.Compile(toolchain.CompileRequest{Build: b.build, Target: &t.Target, Output: object, Source: manifest.Source{Path: t.File, Language: lib.Form, Pos: t.Pos}})
		if b.take(t, c.Plan); cuda.Info().Missing == "" {
			t.Wrapped = object
		}
	case slices.Contains([]string{"cubin", "offload bundle", "code object", "bitcode"}, lib.Form):
		b.problems.Errorf(attr, "Give an archive, an object, a fatbin or LTO-IR; load this one when the program runs.", "%s is a %s, which kbuild does not link", t.File, lib.Form)
	}
	// Code that nvcc packed records its options.
	if pos := t.AnyAttr("fast_math", "ftz", "prec_div", "prec_sqrt", "fmad"); pos != t.Pos && !isBare {
		b.problems.Errorf(pos, "Remove it: kbuild reads it in the file.", "%s: floating-point options are for bare LTO-IR (.ltoir) only, and %s is none", t.Label, t.File)
	}
}

func images(lib toolchain.Library) (all []gencode.Image) {
	for _, m := range lib.Members {
		all = append(all, m.Images...)
	}
	return all
}
