package nvcc

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

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

// MergeLTO lets c share the cicc passes of other. c writes a fatbin of LTO-IR, and other bare
// LTO-IR of the same source with PTX beside it. The LTO-IR has the same bytes (11.8, 12.4).
func (c *CompilePasses) MergeLTO(other *CompilePasses) {
	for i, pass := range c.CICC {
		for _, o := range other.CICC {
			if len(pass.Out) == 1 && len(o.Out) == 2 && SameLTOIR(pass, o) {
				c.CICC[i] = o
			}
		}
	}
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
	for _, list := range [][]string{{string(a.Kind)}, a.Argv, a.Step().DiagnosticArgv, a.Env, a.Inputs, a.Step().DiagnosticInputs, a.Outputs} {
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
