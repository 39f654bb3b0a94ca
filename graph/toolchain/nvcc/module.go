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
				// f writes a fatbin of LTO-IR, and g bare LTO-IR with PTX beside it: the LTO-IR has the
				// same bytes (11.8, 12.4).
				for i, pass := range f.passes.CICC {
					for _, o := range g.passes.CICC {
						if len(pass.Out) == 1 && len(o.Out) == 2 && pass.Arch == o.Arch && slices.Equal(pass.withoutOutputs(), o.withoutOutputs()) {
							f.passes.CICC[i] = o
						}
					}
				}
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

// A module may emit several formats of one source. nvcc needs one command for each and compiles
// each time. After splitting, most passes of these commands are equal (11.8, 12.4, 13.x). So each
// equal pass is planned once, and the formats are derived from its output:
//
//	a.cu -> preprocess [80] -> cicc [80] -> ptxas [80] -> copy -> a.sm_80.cubin
//	                                    \             \-> fatbinary -> a.fatbin
//	                                     \-> copy -> a.compute_80.ptx
//
// The passes are intermediates even if there is only one format. A format that is added later finds
// them in the cache.
//
// nvcc lists the architectures of one command in __CUDA_ARCH_LIST__: 800 for this cubin, 800,900 if
// the fatbin holds sm_90 too. CUB puts the list into names, so the code may differ between the two.
// Passes that differ in the list are therefore separate actions, and one waits for the other. If
// the text does not use the list, the record of the first satisfies the second, and nothing runs
// twice.

// Sharing holds the passes that were planned for the formats of one source, or of one device link.
type Sharing struct {
	dir  string                   // folder of all intermediates
	same map[string]*graph.Action // by command

	// By command without the list of architectures: the first such pass.
	alike map[string]*graph.Action

	// By output of a pass that was not planned: the output of the equal pass.
	made map[string]string
}

// NewSharing returns an empty Sharing. dir is the folder of all intermediates.
func NewSharing(dir string) *Sharing {
	return &Sharing{dir, map[string]*graph.Action{}, map[string]*graph.Action{}, map[string]string{}}
}

// Format plans the passes of one format, except those that another format has planned.
func (s *Split) Format(c *CompilePasses) {
	whole := s.Whole
	ltoir := path.Ext(s.Out) == ".ltoir"
	// The copied file is an intermediate with the same name for every format.
	if !ltoir && c.Fatbinary == nil {
		s.Out = s.Dir + "/" + c.CICC[0].Arch + ".ptx"
		if len(c.PTXAS) > 0 {
			s.Out = s.Dir + "/" + c.PTXAS[0].Arch + ".cubin"
		}
	}
	s.device(c, ltoir)
	switch {
	case ltoir: // fatbinary would only wrap it
		pass := c.CICC[0]
		ptx := RolePTX.Of(pass.Arch)
		if unchecked := RoleUnchecked.Of(pass.Arch); slices.Contains(pass.Out, unchecked) {
			ptx = unchecked // nvcc does not check it for LTO-IR alone
		}
		s.Copy(s.file(RoleLTOIR.Of(pass.Arch)), whole.Outputs[0])
		s.Copy(s.file(ptx), whole.Outputs[1])
	case c.Fatbinary == nil:
		s.Copy(s.file(RoleOutput), whole.Outputs[0])
	}
}

// once plans a pass unless an equal one is planned.
func (s *Split) once(a *graph.Action) {
	if s.Shared == nil {
		s.Emit(a)
		return
	}
	same, alike := s.Shared.commandOf(a)
	if first := s.Shared.same[same]; first != nil {
		for i, o := range a.Outputs {
			s.Shared.made[o] = first.Outputs[i]
		}
		return
	}
	s.Shared.same[same] = a
	if first := s.Shared.alike[alike]; first != nil {
		a.OrderOnly = append(slices.Clone(a.OrderOnly), first.Outputs[0])
	} else {
		s.Shared.alike[alike] = a
	}
	s.Emit(a)
}

// commandOf returns a key of a pass without the folder of its outputs. alike also omits the list of
// architectures and the passes that its inputs come from. Unchecked PTX has the key of PTX: nvcc 13
// checks PTX that ships, but not PTX for a cubin.
func (s *Sharing) commandOf(a *graph.Action) (same, alike string) {
	var own [][2]string
	for _, o := range append(slices.Clone(a.Outputs), a.Depfile) {
		own = append(own, [2]string{o, path.Base(o)})
	}
	own = slices.DeleteFunc(own, func(o [2]string) bool { return o[0] == "" })
	// Longer names first: x.ii.d before x.ii.
	slices.SortStableFunc(own, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	var words, masked []string
	for _, list := range [][]string{{string(a.Kind)}, a.Argv, a.Pass().DiagnosticArgv, a.Env, a.Inputs, a.Pass().DiagnosticInputs, a.Outputs} {
		for _, word := range append(slices.Clone(list), "") {
			for _, o := range own {
				word = strings.ReplaceAll(word, o[0], o[1])
			}
			word = strings.ReplaceAll(word, ".unchecked.ptx", ".ptx")
			words, masked = append(words, word), append(masked, s.mask(word))
		}
	}
	return strings.Join(words, "\x00"), strings.Join(masked, "\x00")
}

// mask removes the list of architectures and the folder of an intermediate from an argument.
func (s *Sharing) mask(word string) string {
	if strings.HasPrefix(word, "-D"+ListMacro+"=") {
		return "-D" + ListMacro
	}
	if before, part, ok := strings.Cut(word, s.dir+"/"); ok {
		return before + path.Base(part)
	}
	return word
}
