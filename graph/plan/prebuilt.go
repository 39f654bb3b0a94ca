package plan

import (
	"cmp"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// Device code is shipped in archives and objects, but also without host code: as LTO-IR in a bare
// fatbin, as in MathDx, or bare. nvlink 11.8 accepts a bare fatbin but ignores bare LTO-IR, with
// status 0. nvcc -dlink accepts a fatbin, but then compiles a list of modules that contains one
// called (null). A fatbin in an archive is ignored. So kbuild wraps each in an object, as nvcc
// would write for a source without host code. All dependents link that object:
//
//	x.ltoir -> fatbinary -> x.fatbin -> host-part -> x.fatbin.o

// prebuilt plans the object around a prebuilt file of bare device code. An archive needs no
// actions. The facts hold the content of the file.
func (b *builder) prebuilt(t *target) {
	t.include = t.Includes
	t.file = cmp.Or(t.Archive, t.SharedFile)
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
	// Code that nvcc packed records its options.
	if pos := t.anyAttr("fast_math", "ftz", "prec_div", "prec_sqrt", "fmad"); pos != t.Pos && !isBare {
		b.errorf(pos, "Remove it: kbuild reads it in the file.", "%s: floating-point options are for bare LTO-IR (.ltoir) only, and %s is none", t.label, t.file)
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
		return // see lacking: its dependents are not built on this machine
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
		Inputs: []string{fatbin}, Outputs: []string{t.object}, Tools: []string{"nvcc"}, Env: []string{toolchain.Anywhere},
		Work: graph.Work{Step: &graph.Step{Staged: []graph.StagedFile{
			{Name: path.Base(staged), Text: nvcc.WrapFatbin(fatbin, nvcc.ModuleID(t.label, t.file, ""))}}}}})
}
