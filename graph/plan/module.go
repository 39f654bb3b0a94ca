package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// module plans the artifacts of one module instance, its manifest and its embedding.
func (b *builder) module(t *target) {
	if !b.checkEmits(t) {
		return
	}
	b.checkMixed(t)
	var arts []artifact
	if t.isHIP() {
		arts = b.moduleHIP(t)
	} else {
		arts = b.moduleCUDA(t)
	}
	for _, a := range arts {
		t.node.Outputs = append(t.node.Outputs, a.path)
	}
	b.describe(t, arts)
	t.arts = arts
	if t.Embed != nil {
		b.embed(t)
	}
}

func (b *builder) moduleCUDA(t *target) []artifact {
	cc, ok := b.nvcc(t.Pos)
	if !ok {
		return nil
	}
	if k := b.clang(); k != nil {
		b.errorf(t.Pos, "Build modules with nvcc: "+useNVCC+".", "%s: kbuild makes no modules with clang %s", t.label, k.Driver.Version)
		return nil
	}
	var arts []artifact
	var list []format
	shared := nvcc.NewSharing(b.out(graph.PartsDir))
	for _, kind := range t.Emit {
		var made []artifact
		switch {
		case t.Mode == "whole" || kind == "ltoir" || len(t.codes.sass)+len(t.codes.ptx) == 0:
			var formats []format
			made, formats = b.emitSources(t, cc, kind)
			list = append(list, formats...)
		default:
			made = b.emitLinked(t, cc, kind, shared)
		}
		arts = append(arts, made...)
	}
	b.emitFormats(t, list)
	return arts
}

// checkMixed rejects a fatbin of LTO-IR and other code. LTO-IR is compiled relocatable, and one
// command compiles both alike. Compiled in mode whole, LTO-IR lacks the functions that other code
// would call (12.4).
func (ds *diagnostics) checkMixed(t *target) {
	other := append(append([]gencode.Code(nil), t.codes.sass...), t.codes.ptx...)
	if slices.Contains(t.Emit, "fatbin") && len(t.codes.lto) > 0 && len(other) > 0 {
		ds.errorf(t.attr("gencode"), "Emit the LTO-IR by a module of its own: what is loaded as it is, and what is linked first, are compiled differently.",
			"%s would hold %s and %s in one fatbin", t.label, spell(other), spell(t.codes.lto))
	}
}

// emitSources returns the artifacts of one kind, one for each source and code list, and the nvcc
// command for each.
func (ck *checks) emitSources(t *target, cc nvcc.Driver, kind string) (arts []artifact, list []format) {
	inc, headers := ck.includes(t)
	for i := range t.Sources {
		s := &t.Sources[i]
		if s.Language != "cuda" {
			ck.errorf(s.Pos, "Put host code into a library or an executable.", "%s of %s is no CUDA source", s.Path, t.label)
			continue
		}
		for _, set := range ck.emitCodes(t, kind) {
			arch := ""
			if kind != "fatbin" {
				arch = set[0].String()
			}
			a := artifact{path: ck.artifactPath(t, s, arch, kind), kind: kind, arch: arch, source: s.Path}
			if kind == "ltoir" {
				a.symbols = ck.out(graph.SymbolsDir, strings.TrimSuffix(ck.inTree(a.path), kind)+"ptx")
			}
			list = append(list, ck.emitArtifact(t, cc, s, a, set, inc, headers))
			arts = append(arts, a)
		}
	}
	return arts, list
}

// emitCodes returns the code lists of the artifacts of one kind: one list of all codes for a
// fatbin, one list for each code otherwise.
func (ds *diagnostics) emitCodes(t *target, kind string) [][]gencode.Code {
	var list []gencode.Code
	switch kind {
	case "fatbin":
		list = append(append(append(list, t.codes.sass...), t.codes.ptx...), t.codes.lto...)
		slices.SortFunc(list, gencode.Compare)
		return [][]gencode.Code{list}
	case "cubin":
		list = t.codes.sass
	case "ptx":
		for _, c := range append(append([]gencode.Code(nil), t.codes.sass...), t.codes.ptx...) {
			list = append(list, c.As(gencode.PTX))
		}
	case "ltoir":
		list = append(list, t.codes.lto...)
		if len(list) == 0 {
			for _, c := range t.codes.sass {
				list = append(list, c.As(gencode.LTO))
			}
		}
	}
	slices.SortFunc(list, gencode.Compare)
	list = slices.Compact(list)
	if len(list) == 0 {
		ds.errorf(t.attr("emit"), "Its gencode is "+spell(append(append(t.codes.sass, t.codes.ptx...), t.codes.lto...))+".", "%s has no architecture to emit %s for", t.label, kind)
	}
	return oneEach(list)
}

func (ck *checks) emitArtifact(t *target, cc nvcc.Driver, s *manifest.Source, art artifact, codes []gencode.Code, inc, headers []string) format {
	c := toolchain.Compile{Source: s.Path, Output: art.path, Depfile: ck.out("obj", fileName(t), path.Base(art.path)+".d"),
		Mode: s.Mode, Codes: codes, Language: languageFlag(*s), Emit: art.kind}
	if len(codes) > 0 && codes[0].Kind == gencode.LTO && c.Mode == "whole" {
		c.Mode = "lto" // LTO-IR is always relocatable
	}
	o := deviceOptions(t, *s, searched(*s, inc))
	argv := cc.Compile(c, o)
	ask, outputs := argv, []string{art.path}
	var keep *graph.KeepFolder
	if art.kind == "ltoir" { // one run of cicc writes LTO-IR and PTX
		keep = &graph.KeepFolder{Dir: c.Depfile + ".keep", Files: make([]string, 2)}
		c.Codes, outputs = []gencode.Code{codes[0], codes[0].As(gencode.PTX)}, append(outputs, art.symbols)
		argv, keep.Files[0], keep.Files[1] = cc.LTOIR(c, keep.Dir, o)
		c.Emit = "fatbin" // split, cicc writes the outputs itself
		ask = cc.Compile(c, o)
	}
	if timed := times(*s); timed != nil {
		ck.errorf(t.flag(s.Flags, timed[0]), "Put it into flags.nvcc of a library or an executable that compiles the source.",
			"%s: kbuild does not keep the times of the commands of a module", t.label)
	}
	ck.checkQuoting(t, *s, o.Includes)
	ck.checkDepends(t, s.Flags.NVCC, s.Flags.Host)
	return format{source: *s, ask: ask, whole: &graph.Action{
		Kind: graph.ModuleEmit, Name: path.Base(art.path), Archs: names(codes), Mode: c.Mode,
		Argv: argv, Env: ck.nvccEnv(), Work: graph.Work{Keep: keep},
		Inputs: []string{s.Path}, OrderOnly: headers, Outputs: outputs, Depfile: c.Depfile,
		SearchDirs: o.Includes, Tools: []string{"nvcc"}, Memory: s.Memory,
		CwdInKey: t.debugs() || host.AsksForDebug(s.Flags.NVCC),
	}}
}

// emitLinked plans the compiles of an rdc or lto module and one device link for each artifact.
func (b *builder) emitLinked(t *target, cc nvcc.Driver, kind string, shared *nvcc.Sharing) []artifact {
	if t.objects == nil {
		b.compileAll(t)
	}
	l := b.linkage(t)
	linked := b.linkInputs(t, l)
	lto := hasLTO(linked)
	if kind == "ptx" && !lto {
		b.errorf(t.attr("emit"), `Use mode = "lto" or "whole".`, "%s: a device link without LTO makes no PTX", t.label)
		return nil
	}
	if !b.checkLink(t, linked, lto) {
		return nil
	}
	options := append(b.arithmetic(t, linked), t.Flags.NVLink...)
	check := &graph.Link{LTO: lto}
	var inputs []string
	for _, p := range linked {
		inputs = append(inputs, own(check, p, b.filesOf(t, p, check))...)
	}
	var arts []artifact
	sets := oneEach(t.codes.sass)
	if kind == "fatbin" {
		sets = [][]gencode.Code{t.codes.sass}
	}
	for _, set := range sets {
		arch := ""
		if kind != "fatbin" {
			arch = set[0].String()
			if kind == "ptx" {
				arch = set[0].As(gencode.PTX).String()
			}
		}
		out := b.artifactPath(t, nil, arch, kind)
		b.emitLink(t, cc, path.Base(out), nvcc.DeviceLink{Inputs: inputs, Output: out, Codes: set, LTO: lto, KeepAll: !t.StripUnused, Emit: kind,
			NVLink: options}, check, shared)
		arts = append(arts, artifact{path: out, kind: kind, arch: arch})
	}
	return arts
}

func oneEach(list []gencode.Code) [][]gencode.Code {
	return slices.Collect(slices.Chunk(list, 1))
}
