package nvcc

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// A module may emit several formats of one source. nvcc is one command for each of them and
// compiles each time; taken apart, most of the passes are the same commands (11.8, 12.4, 13.x), so
// that one of each is planned, and the formats are made of what it leaves:
//
//	a.cu -> preprocess [80] -> cicc [80] -> ptxas [80] -> copy -> a.sm_80.cubin
//	                                    \             \-> fatbinary -> a.fatbin
//	                                     \-> copy -> a.compute_80.ptx
//
// The passes are intermediates, though there be one format: another one that is added later finds
// them in the cache.
//
// nvcc spells the architectures of one command in __CUDA_ARCH_LIST__: 800 for this cubin, 800,900
// if the fatbin holds sm_90 too. CUB puts the list into names, and then the code in both is not the
// same. So passes that differ in the list stay apart, and one waits for the other: if the text does
// not use the list, the record of the first settles the second, and nothing runs twice.

// Sharing knows the passes that were planned for the formats of one source, or of one device link.
type Sharing struct {
	dir   string                   // of all intermediates
	same  map[string]*graph.Action // by command
	alike map[string]*graph.Action // by command without the list of architectures: the first
	made  map[string]string        // by output of a pass that was not planned: the equal output that there is
}

// NewSharing knows none. dir has the intermediates of all commands.
func NewSharing(dir string) *Sharing {
	return &Sharing{dir, map[string]*graph.Action{}, map[string]*graph.Action{}, map[string]string{}}
}

// MergeLTO has c, which makes a fatbin of LTO-IR, compile it as other does, which makes the bare
// LTO-IR of the same source with PTX beside it. The LTO-IR is the same bytes (11.8, 12.4).
func (c *CompilePasses) MergeLTO(other *CompilePasses) {
	for i, pass := range c.CICC {
		for _, o := range other.CICC {
			if len(pass.Out) == 1 && len(o.Out) == 2 && SameLTOIR(pass, o) {
				c.CICC[i] = o
			}
		}
	}
}

// Format plans the passes of one format, but those that another has planned.
func (s *Split) Format(c *CompilePasses) {
	whole := s.Whole
	ltoir := path.Ext(s.Out) == ".ltoir"
	if !ltoir && c.Fatbinary == nil { // what is copied is an intermediate, which every format calls the same
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
			ptx = unchecked // nvcc checks none for LTO-IR alone
		}
		s.Copy(s.file(RoleLTOIR.Of(pass.Arch)), whole.Outputs[0])
		s.Copy(s.file(ptx), whole.Outputs[1])
	case c.Fatbinary == nil:
		s.Copy(s.file(RoleOutput), whole.Outputs[0])
	}
}

// once plans a pass, if no other format has the same.
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

// commandOf spells a pass without the folder of its outputs. alike is the same without the list of
// architectures, and whichever passes its inputs are from. PTX that is to be checked is what it is
// elsewhere: nvcc 13 checks it for PTX that is shipped, and not for a cubin.
func (s *Sharing) commandOf(a *graph.Action) (same, alike string) {
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
			words, masked = append(words, word), append(masked, s.mask(word))
		}
	}
	return strings.Join(words, "\x00"), strings.Join(masked, "\x00")
}

// mask leaves out of an argument the list of architectures and the folder of an intermediate.
func (s *Sharing) mask(word string) string {
	if strings.HasPrefix(word, "-D"+ListMacro+"=") {
		return "-D" + ListMacro
	}
	if before, part, ok := strings.Cut(word, s.dir+"/"); ok {
		return before + path.Base(part)
	}
	return word
}
