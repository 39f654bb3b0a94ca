package nvcc

import (
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// WrapLTOIR gives the argv that puts bare LTO-IR into a fatbin, as nvcc does for an object. The options are those that cicc compiled it
// with: nvlink compares them between files, and 11.8 crashes on a fatbin that does not tell (tried with 11.8 and 12.4).
func WrapLTOIR(fatbinary string, code gencode.Code, ftz, precDiv, precSqrt, fmad bool, ltoir, output string) []string {
	bit := map[bool]int{true: 1}
	options := fmt.Sprintf("-ftz=%d -prec_div=%d -prec_sqrt=%d -fmad=%d ", bit[ftz], bit[precDiv], bit[precSqrt], bit[fmad])
	return []string{fatbinary, "-64", "--cicc-cmdline=" + options, "--device-c",
		fmt.Sprintf("--image3=kind=nvvm,sm=%d%s,file=%s", code.Num, code.Suffix, ltoir), "--create", output}
}

// WrapPTX gives the argv that puts relocatable PTX into a fatbin.
func WrapPTX(fatbinary string, code gencode.Code, ptx, output string) []string {
	return []string{fatbinary, "-64", "--device-c", fmt.Sprintf("--image3=kind=ptx,sm=%d%s,file=%s", code.Num, code.Suffix, ptx), "--create", output}
}

// SameLTOIR reports whether two runs of cicc make the same LTO-IR: a writes it alone, b with PTX beside it.
func SameLTOIR(a, b *Pass) bool {
	return a.Tool == "cicc" && a.Arch == b.Arch && slices.Equal(a.withoutOutputs(), b.withoutOutputs())
}

// withoutOutputs is the command of cicc without what it writes and how.
func (p *Pass) withoutOutputs() []word {
	var out []word
	for i := 0; i < len(p.argv); i++ {
		switch w := p.argv[i]; {
		case w.prefix == "-lto" && w.role == "":
		case (w.prefix == "-o" || w.prefix == "-olto") && w.role == "":
			i++ // the file
		default:
			out = append(out, w)
		}
	}
	return out
}
