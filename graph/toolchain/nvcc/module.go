package nvcc

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Module implements toolchain.Toolchain.
func (k *Toolchain) Module(r toolchain.ModuleRequest) (m toolchain.Module) {
	t := r.Target
	if !k.ready(r.Build, &m.Plan, t.Pos) {
		return m
	}
	final := slices.Concat(t.Codes.SASS, t.Codes.PTX)
	var formats []format
	shared := NewSharing(r.Out(graph.PartsDir))
	for _, kind := range t.Emit {
		if t.Mode == "whole" || kind == "ltoir" || len(final) == 0 {
			formats = append(formats, k.formats(r, &m, kind)...)
		} else {
			k.linkModule(r, &m, kind, shared)
		}
	}
	k.emitFormats(r.Build, &m.Plan, t, formats)
	return m
}

// format is one nvcc command that emits one artifact of one source of a module.
type format struct {
	source manifest.Source
	whole  *graph.Action
	ask    []string // the argv whose dry run shows the passes
	passes *CompilePasses
}

// formats adds the artifacts of one kind, one for each source and code list, and returns the nvcc
// command for each.
func (k *Toolchain) formats(r toolchain.ModuleRequest, m *toolchain.Module, kind string) (list []format) {
	t := r.Target
	for i := range t.Sources {
		s := &t.Sources[i]
		if s.Language != "cuda" {
			m.Errorf(s.Pos, "Put host code into a library or an executable.", "%s of %s is no CUDA source", s.Path, t.Label)
			continue
		}
		for _, set := range codeSets(&m.Plan, t, kind) {
			a := toolchain.Artifact{Kind: kind, Source: s.Path}
			if kind != "fatbin" {
				a.Arch = set[0].String()
			}
			if a.Path = r.ArtifactPath(t, s, a.Arch, kind); kind == "ltoir" {
				a.Symbols = r.Out(graph.SymbolsDir, strings.TrimSuffix(r.InTree(a.Path), kind)+"ptx")
			}
			list = append(list, k.format(r, m, *s, a, set))
			m.Artifacts = append(m.Artifacts, a)
		}
	}
	return list
}

// codeSets returns the code lists of the artifacts of one kind: one list of all codes for a fatbin,
// one list for each code otherwise.
func codeSets(p *toolchain.Plan, t *toolchain.Target, kind string) [][]gencode.Code {
	as := func(kind gencode.Kind, codes ...gencode.Code) (list []gencode.Code) {
		for _, c := range codes {
			list = append(list, c.As(kind))
		}
		return list
	}
	all := slices.Concat(t.Codes.SASS, t.Codes.PTX, t.Codes.LTO)
	var list []gencode.Code
	switch {
	case kind == "fatbin":
		return [][]gencode.Code{toolchain.Sorted(all)}
	case kind == "cubin":
		list = slices.Clone(t.Codes.SASS)
	case kind == "ptx":
		list = as(gencode.PTX, slices.Concat(t.Codes.SASS, t.Codes.PTX)...)
	case len(t.Codes.LTO) > 0:
		list = slices.Clone(t.Codes.LTO)
	default:
		list = as(gencode.LTO, t.Codes.SASS...)
	}
	if len(list) == 0 {
		p.Errorf(t.Attr("emit"), "Its gencode is "+toolchain.Spell(all)+".", "%s has no architecture to emit %s for", t.Label, kind)
	}
	return slices.Collect(slices.Chunk(toolchain.Sorted(list), 1))
}

// format returns the command that emits an artifact.
func (k *Toolchain) format(r toolchain.ModuleRequest, m *toolchain.Module, s manifest.Source, art toolchain.Artifact, codes []gencode.Code) format {
	t, cc := r.Target, k.driver()
	c := toolchain.Compile{Source: s.Path, Output: art.Path, Depfile: r.Out("obj", t.Folder(), path.Base(art.Path)+".d"),
		Mode: s.Mode, Codes: codes, Language: toolchain.LanguageFlag(s), Emit: art.Kind}
	if len(codes) > 0 && codes[0].Kind == gencode.LTO && c.Mode == "whole" {
		c.Mode = "lto" // LTO-IR is always relocatable
	}
	o := deviceOptions(t, s, r.Searched(s))
	argv := cc.Compile(c, o)
	ask, outputs := argv, []string{art.Path}
	var keep *graph.KeepFolder
	if art.Kind == "ltoir" { // one run of cicc writes LTO-IR and PTX
		keep = &graph.KeepFolder{Dir: c.Depfile + ".keep", Files: make([]string, 2)}
		c.Codes, outputs = []gencode.Code{codes[0], codes[0].As(gencode.PTX)}, append(outputs, art.Symbols)
		argv, keep.Files[0], keep.Files[1] = cc.LTOIR(c, keep.Dir, o)
		c.Emit = "fatbin" // split, cicc writes the outputs itself
		ask = cc.Compile(c, o)
	}
	if timed := timeOptions(s); timed != nil {
		m.Errorf(t.FlagPos(s.Flags, timed[0]), "Put it into flags.nvcc of a library or an executable that compiles the source.",
			"%s: kbuild does not keep the times of the commands of a module", t.Label)
	}
	checkStd(r.Build, &m.Plan, t, s)
	k.checkQuoting(&m.Plan, t, s, r.Sources)
	m.CheckDepends(t, s.Flags.NVCC, s.Flags.Host)
	return format{source: s, ask: ask, whole: &graph.Action{
		Kind: graph.ModuleEmit, Name: path.Base(art.Path), Archs: toolchain.CodeNames(codes), Mode: c.Mode,
		Argv: argv, Env: k.env(), Work: graph.Work{Keep: keep, Driver: &graph.Driver{}},
		Inputs: []string{s.Path}, OrderOnly: r.Headers, Outputs: outputs, Depfile: c.Depfile,
		SearchDirs: o.Includes, Tools: []string{"nvcc"}, Memory: s.Memory,
		CwdInKey: t.Debugs() || host.AsksForDebug(s.Flags.NVCC),
	}}
}

// emitFormats plans all artifacts of a module that are made of one source each. Passes that several
// artifacts have in common are planned once.
func (k *Toolchain) emitFormats(b *toolchain.Build, p *toolchain.Plan, t *toolchain.Target, list []format) {
	for i := range list {
		f := &list[i]
		var err error
		if f.passes, err = k.learnCompile(b, t, f.whole, f.ask); err != nil {
			f.passes = nil
			fallBack(b, p, f.source.Pos, f.whole, err)
		}
	}
	for _, f := range list {
		for _, g := range list {
			if f.passes != nil && g.passes != nil && f.source.Path == g.source.Path && f.source.Partition == g.source.Partition {
				f.passes.MergeLTO(g.passes)
			}
		}
	}
	shared := map[string]*Sharing{} // by source and partition
	for _, f := range list {
		key := f.source.Path + "\x00" + f.source.Partition
		if shared[key] == nil {
			shared[key] = NewSharing(b.Out(graph.PartsDir))
		}
		if f.passes == nil {
			p.Emit(f.whole)
			continue
		}
		whole := *f.whole
		whole.Name = strings.TrimPrefix(strings.TrimSuffix(b.ArtifactPath(t, &f.source, "", ""), "."), b.Out("modules")+"/")
		s := k.newSplit(t, f.source, b.NewUnit(p, &whole, whole.Outputs[0]), f.passes)
		s.Shared = shared[key]
		s.Format(f.passes)
		warn(p, t, f.passes.Said)
	}
}

// linkModule plans one device link for each artifact of a kind of an rdc or lto module.
func (k *Toolchain) linkModule(r toolchain.ModuleRequest, m *toolchain.Module, kind string, shared *Sharing) {
	t := r.Target
	if kind == "ptx" && !toolchain.HasLTO(r.Inputs) {
		m.Errorf(t.Attr("emit"), `Use mode = "lto" or "whole".`, "%s: a device link without LTO makes no PTX", t.Label)
		return
	}
	link, check, ok := k.deviceLink(r.Build, &m.Plan, t, r.Inputs)
	if !ok {
		return
	}
	link.KeepAll, link.Emit = !t.StripUnused, kind
	sets := [][]gencode.Code{t.Codes.SASS}
	if kind != "fatbin" {
		sets = slices.Collect(slices.Chunk(t.Codes.SASS, 1))
	}
	for _, link.Codes = range sets {
		a := toolchain.Artifact{Kind: kind}
		switch kind {
		case "fatbin":
		case "ptx":
			a.Arch = link.Codes[0].As(gencode.PTX).String()
		default:
			a.Arch = link.Codes[0].String()
		}
		a.Path = r.ArtifactPath(t, nil, a.Arch, kind)
		link.Output = a.Path
		k.emitLink(r.Build, &m.Plan, t, path.Base(a.Path), link, check, shared)
		m.Artifacts = append(m.Artifacts, a)
	}
}
