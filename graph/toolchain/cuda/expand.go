package cuda

import (
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Expand implements toolchain.Toolchain. It resolves native, all and all-major, and checks every
// code against the toolkit. These words must not reach nvcc: 11.8 drops LTO for them, or crashes.
func (h *Host) Expand(r toolchain.ExpandRequest) (x toolchain.Expanded) {
	code := r.Code
	switch {
	case code.Kind == gencode.Set && code.Name == "native":
		if x.Codes = r.Native; len(x.Codes) == 0 {
			x.Errorf(r.Pos, "Name the architectures, for example --arch sm_80,sm_90.", "%s wants native code, and this machine has no GPU", r.Target.Label)
		}
	case h.Toolkit == nil:
		h.Ready(r.Build, &x.Plan, r.Pos)
	case code.Kind == gencode.Set:
		x.Codes = expandAll(code.Name, h.Archs)
	default:
		x.Codes = []gencode.Code{code}
		if !slices.ContainsFunc(h.Archs, func(a gencode.Code) bool { return a.Num == code.Num && a.Suffix == code.Suffix }) {
			h.unknownCode(r.Build, &x.Plan, r.Pos, code)
		}
	}
	return x
}

// expandAll returns machine code for every architecture (all), or for the first of each generation
// and the oldest (all-major). It adds PTX of the first architecture of the newest generation.
// nvcc's -arch=all and -arch=all-major do the same: PTX of sm_120 even if there is sm_121.
func expandAll(name string, archs []gencode.Code) []gencode.Code {
	plain := slices.DeleteFunc(slices.Clone(archs), func(a gencode.Code) bool { return a.Suffix != "" })
	var out []gencode.Code
	for i, a := range plain {
		if name == "all" || i == 0 || a.Num%10 == 0 {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil
	}
	newest := out[len(out)-1]
	first := out[slices.IndexFunc(out, func(a gencode.Code) bool { return a.Num/10 == newest.Num/10 })]
	return append(out, first.As(gencode.PTX))
}

// unknownCode reports a code that the compiler does not support.
func (h *Host) unknownCode(b *toolchain.Build, p *toolchain.Plan, pos manifest.Pos, code gencode.Code) {
	who, help := "CUDA "+h.Version, "It knows "+toolchain.Spell(h.Archs)+"."
	if h.Clang != nil {
		who = fmt.Sprintf("clang %s with CUDA %s", h.Clang.Driver.Version, h.Version)
	} else if others := releases(code); others != "" {
		help += " " + others + " it."
	}
	if slices.Contains(b.Project.Archs, code) {
		p.Errorf(manifest.Pos{}, help, "--arch %s: %s does not know it", code, who)
		return
	}
	p.Errorf(pos, help, "%s does not know %s", who, code)
}

// lifetimes lists the architectures that some CUDA since 11 does not support. The release notes
// name the first release, the last one, or both.
var lifetimes = [...]struct {
	nums        []int
	first, last string
}{
	{[]int{35, 37}, "", "11.8"},
	{[]int{50, 52, 53, 60, 61, 62, 70, 72}, "", "12.9"},
	{[]int{89, 90}, "11.8", ""},
	{[]int{100, 120}, "12.8", ""},
	{[]int{101}, "12.8", "12.9"},
	{[]int{103, 121}, "12.9", ""},
	{[]int{88, 110}, "13.0", ""},
}

// releases returns which releases of CUDA support a code, "" if unknown.
func releases(code gencode.Code) string {
	if code.Num == 90 && code.Suffix == "a" {
		return "CUDA 12.0 and newer know"
	}
	if code.Suffix != "" && code.Num < 100 {
		return ""
	}
	for _, l := range lifetimes {
		switch {
		case !slices.Contains(l.nums, code.Num):
		case l.first == "":
			return "CUDA " + l.last + " is the last that knows"
		case l.last != "":
			return "CUDA " + l.first + " to " + l.last + " know"
		case code.Suffix == "f":
			return "CUDA " + max(l.first, "12.9") + " and newer know"
		default:
			return "CUDA " + l.first + " and newer know"
		}
	}
	return ""
}
