package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A module may emit several formats of one source. nvcc is one command for each of them and compiles each time; taken apart, most of
// the passes are the same commands (11.8, 12.4, 13.x), so that one of each is planned, and the formats are made of what it leaves:
//
//	a.cu -> preprocess [80] -> cicc [80] -> ptxas [80] -> copy -> a.sm_80.cubin
//	                                    \             \-> fatbinary -> a.fatbin
//	                                     \-> copy -> a.compute_80.ptx
//
// The passes are parts, though there be one format: another one that is added later finds them in the cache.
//
// nvcc spells the architectures of one command in __CUDA_ARCH_LIST__: 800 for this cubin, 800,900 if the fatbin holds sm_90 too. CUB
// puts the list into names, and then the code in both is not the same. So passes that differ in the list stay apart, and one waits for
// the other: if the text does not use the list, the record of the first settles the second, and nothing runs twice.

// format is one command of nvcc that makes one artifact of one source of a module.
type format struct {
	source manifest.Source
	whole  *graph.Action
	ask    []string // the argv that tells the passes
	passes *nvcc.CompilePasses
}

// sharing knows the passes that were planned for the formats of one source, or of one device link.
type sharing struct {
	same  map[string]*graph.Action // by command
	alike map[string]*graph.Action // by command without the list of architectures: the first
	made  map[string]string        // by output of a pass that was not planned: the equal output that there is
}

func newSharing() *sharing {
	return &sharing{map[string]*graph.Action{}, map[string]*graph.Action{}, map[string]string{}}
}

// emitFormats plans all artifacts of a module that are made of one source each.
func (b *builder) emitFormats(t *target, list []format) {
	for i := range list {
		f := &list[i]
		f.passes = b.learnCompile(t, f.source, f.whole, f.ask)
	}
	mergeLTO(list)
	shared := map[string]*sharing{} // by source and partition
	for _, f := range list {
		key := f.source.Path + "\x00" + f.source.Partition
		if shared[key] == nil {
			shared[key] = newSharing()
		}
		if f.passes == nil {
			b.emit(t, f.whole)
			continue
		}
		b.splitFormat(t, f, shared[key])
		b.nvccWarns(t, f.passes.Said)
	}
}

// mergeLTO has a fatbin of LTO-IR compiled as the bare LTO-IR of the same source is, if both are emitted: with PTX beside it. The
// LTO-IR is the same bytes (11.8, 12.4).
func mergeLTO(list []format) {
	for _, f := range list {
		for _, g := range list {
			if f.passes == nil || g.passes == nil || f.source.Path != g.source.Path || f.source.Partition != g.source.Partition {
				continue
			}
			for i, pass := range f.passes.CICC {
				for _, other := range g.passes.CICC {
					if len(pass.Out) == 1 && len(other.Out) == 2 && nvcc.SameLTOIR(pass, other) {
						f.passes.CICC[i] = other
					}
				}
			}
		}
	}
}

// splitFormat plans the passes of one format, but those that another has planned.
func (b *builder) splitFormat(t *target, f format, shared *sharing) {
	whole := *f.whole
	whole.Name = strings.TrimPrefix(strings.TrimSuffix(b.artifactPath(t, &f.source, "", ""), "."), b.out("modules")+"/")
	p := b.newSplit(t, &whole, f.passes.Env)
	p.shared, p.id, p.lines = shared, moduleID(t.label, f.source), b.keepsLines(&whole, f.passes)
	ltoir := path.Ext(p.out) == ".ltoir"
	if !ltoir && f.passes.Fatbinary == nil { // what is copied is a part
		p.out = p.dir + "/" + partOf(f.passes)
	}
	p.device(f.passes, ltoir)
	switch {
	case ltoir: // fatbinary would only wrap it
		pass := f.passes.CICC[0]
		ptx := nvcc.RolePTX.Of(pass.Arch)
		if unchecked := nvcc.RoleUnchecked.Of(pass.Arch); slices.Contains(pass.Out, unchecked) {
			ptx = unchecked // nvcc checks none for LTO-IR alone
		}
		p.copy(p.file(nvcc.RoleLTOIR.Of(pass.Arch)), whole.Outputs[0])
		p.copy(p.file(ptx), whole.Outputs[1])
	case f.passes.Fatbinary == nil:
		p.copy(p.file(nvcc.RoleOutput), whole.Outputs[0])
	}
}

// partOf names the output of nvcc -cubin or -ptx as a part that every format calls the same.
func partOf(c *nvcc.CompilePasses) string {
	for _, pass := range c.PTXAS {
		return pass.Arch + ".cubin"
	}
	return c.CICC[0].Arch + ".ptx"
}

// copy plans the artifact that a part is.
func (p *split) copy(part, out string) {
	p.emit(&graph.Action{Kind: graph.Copy, Name: path.Base(out), Archs: p.whole.Archs, Mode: p.whole.Mode,
		Inputs: []string{part}, Outputs: []string{out}, Work: graph.Work{Driver: passOf(p.whole)}})
}

// once plans a pass, if no other format has the same.
func (p *split) once(a *graph.Action) {
	if p.shared == nil {
		p.emit(a)
		return
	}
	same, alike := p.commandOf(a)
	if first := p.shared.same[same]; first != nil {
		for i, o := range a.Outputs {
			p.shared.made[o] = first.Outputs[i]
		}
		return
	}
	p.shared.same[same] = a
	if first := p.shared.alike[alike]; first != nil {
		a.OrderOnly = append(slices.Clone(a.OrderOnly), first.Outputs[0])
	} else {
		p.shared.alike[alike] = a
	}
	p.emit(a)
}

// commandOf spells a pass without the folder of its outputs. alike is the same without the list of architectures, and whichever passes
// its inputs are from. PTX that is to be checked is what it is elsewhere: nvcc 13 checks it for PTX that is shipped, and not for a cubin.
func (p *split) commandOf(a *graph.Action) (same, alike string) {
	var own [][2]string
	for _, o := range append(slices.Clone(a.Outputs), a.Depfile) {
		own = append(own, [2]string{o, path.Base(o)})
	}
	own = slices.DeleteFunc(own, func(o [2]string) bool { return o[0] == "" })
	slices.SortStableFunc(own, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // x.ii.d before x.ii
	var words, masked []string
	for _, list := range [][]string{{string(a.Kind)}, a.Argv, a.Step().DiagnosticArgv, a.Env, a.Inputs, a.Step().DiagnosticInputs, a.Outputs} {
		for _, word := range append(slices.Clone(list), "") {
			for _, o := range own {
				word = strings.ReplaceAll(word, o[0], o[1])
			}
			word = strings.ReplaceAll(word, ".unchecked.ptx", ".ptx")
			words, masked = append(words, word), append(masked, p.mask(word))
		}
	}
	return strings.Join(words, "\x00"), strings.Join(masked, "\x00")
}

// mask leaves out of an argument the list of architectures and the folder of a part.
func (p *split) mask(word string) string {
	if strings.HasPrefix(word, "-D"+nvcc.ListMacro+"=") {
		return "-D" + nvcc.ListMacro
	}
	if before, part, ok := strings.Cut(word, p.b.out(graph.PartsDir)+"/"); ok {
		return before + path.Base(part)
	}
	return word
}
