package plan

import (
	"fmt"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// expand resolves native, all and all-major, and checks every code against the toolkit. These words
// must not reach nvcc: 11.8 drops LTO for them, or crashes.
func (ck *checks) expand(t *target) codes {
	var c codes
	for _, code := range t.Gencode.Code {
		for _, e := range ck.expandOne(t, code, t.attr("gencode")) {
			c.add(e)
		}
	}
	c.sort()
	ck.expandPartitions(t)
	ck.checkFamilies(t, c, t.attr("gencode"))
	ck.checkSpoken(t)
	t.unbuilt = ck.lacking(t, c)
	spirv := func(code gencode.Code) bool { return code.Name == gencode.SPIRVTarget }
	if t.Kind == manifest.Module && slices.ContainsFunc(c.gfx, spirv) {
		ck.errorf(t.attr("gencode"), "Name the processors, or generic ones such as gfx11-generic.", "%s ships %s, of which a module has no file", t.label, gencode.SPIRVTarget)
	}
	if len(c.shipped())+len(c.lto) == 0 && t.unbuilt == "" && t.Kind != manifest.Generate && t.Kind != manifest.Prebuilt {
		c = ck.inheritCodes(t)
	}
	return c
}

// expandPartitions does what expand does, for partitions with code of their own.
func (ck *checks) expandPartitions(t *target) {
	for _, s := range t.Sources {
		if _, known := t.parts[s.Partition]; s.Code == nil || known {
			continue
		}
		var c codes
		for _, code := range s.Code {
			for _, e := range ck.expandOne(t, code, s.AttrPos["code"]) {
				c.add(e)
			}
		}
		c.sort()
		if t.parts == nil {
			t.parts = map[string]codes{}
		}
		t.parts[s.Partition] = c
		ck.checkFamilies(t, c, s.AttrPos["code"])
	}
}

// lacking returns why this machine cannot build a target that another vendor's machine can, or "".
// One manifest describes the programs for both vendors; it is an error only to request an
// unbuildable target.
func (g *given) lacking(t *target, c codes) string {
	if len(c.gfx) == 0 {
		if g.facts.CUDA == nil && g.facts.HIP != nil && t.shipsCUDA() {
			return "no CUDA toolkit was found. " + g.facts.CUDAError
		}
		return ""
	}
	k := g.facts.HIP
	if k == nil {
		return "no HIP compiler was found. " + g.facts.HIPError
	}
	for _, code := range c.gfx {
		// Not a processor: clang's dry run shows whether it can compile for it.
		if code.Name == gencode.SPIRVTarget {
			continue
		}
		if len(k.Archs) > 0 && !slices.Contains(k.Archs, code.Name) {
			return fmt.Sprintf("clang %s does not know %s. It knows %s", k.Clang.Version, code, strings.Join(k.Archs, ", "))
		}
	}
	return ""
}

// anyDevice reports whether the project may have NVIDIA device code: a source with device code, or
// something prebuilt.
func (g *given) anyDevice() bool {
	return g.facts.AnyStatic() || slices.ContainsFunc(g.project.Targets, func(t *manifest.Target) bool {
		return t.Kind == manifest.Prebuilt || slices.ContainsFunc(t.Sources, isDevice)
	})
}

// checkSpoken rejects NVIDIA codes in a project that has no device code: the user probably expects
// a source to be CUDA.
func (ck *checks) checkSpoken(t *target) {
	code := slices.Clone(t.Gencode.Code)
	isGFX := func(c gencode.Code) bool { return c.Kind == gencode.GFX }
	if len(code) == 0 || slices.ContainsFunc(code, isGFX) || len(t.Sources) == 0 || ck.nvccReported || ck.anyDevice() {
		return
	}
	ck.nvccReported = true // report once: it concerns the whole project
	s := t.Sources[0]
	ck.bothf(t.attr("gencode"), s.Pos, fmt.Sprintf("%s is compiled as %s", s.Path, map[string]string{"c": "C", "c++": "C++", "asm": "assembler"}[s.Language]),
		fmt.Sprintf(`If %s holds CUDA code, set language = "cuda" or let its name end in .cu; if there is none, drop the code.`, s.Path),
		"%s ships %s, and none of its sources is CUDA", t.label, spell(code))
}

// checkFamilies rejects sm_100 beside sm_100f, as nvcc does in compiles and links. It allows sm_100
// beside sm_100a, and PTX of both.
func (ck *checks) checkFamilies(t *target, c codes, pos manifest.Pos) {
	for _, code := range c.sass {
		family := code
		family.Suffix = "f"
		if code.Suffix == "" && slices.Contains(c.sass, family) {
			ck.errorf(pos, fmt.Sprintf("Drop one of them: %s runs wherever %s does, and may use what the family has in common.", family, code),
				"%s ships both %s and %s, which nvcc does not make together", t.label, code, family)
		}
	}
}

func (ck *checks) expandOne(t *target, code gencode.Code, pos manifest.Pos) []gencode.Code {
	k := ck.facts.CUDA
	switch {
	case code.Kind == gencode.GFX:
		return []gencode.Code{code}
	case code.Kind == gencode.Set && code.Name == "native":
		if len(ck.facts.NativeGPU) == 0 {
			ck.errorf(pos, "Name the architectures, for example --arch sm_80,sm_90.", "%s wants native code, and this machine has no GPU", t.label)
		}
		return ck.facts.NativeGPU
	case k == nil && ck.facts.HIP != nil:
		return nil // see lacking
	case k == nil && !ck.anyDevice():
		return []gencode.Code{code} // see checkSpoken
	case k == nil:
		ck.nvcc(pos)
		return nil
	case code.Kind == gencode.Set:
		return expandAll(code.Name, k.Archs)
	}
	if !slices.ContainsFunc(k.Archs, func(a gencode.Code) bool { return a.Num == code.Num && a.Suffix == code.Suffix }) {
		ck.unknownCode(pos, code)
	}
	return []gencode.Code{code}
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

// inheritCodes returns the codes of the libraries that a target without a gencode uses. A target
// with device sources of its own must set its codes.
func (ck *checks) inheritCodes(t *target) codes {
	if slices.ContainsFunc(t.Sources, isDevice) {
		if len(t.Gencode.Code) == 0 { // otherwise the reason was reported
			ck.errorf(t.Pos, `Set code = ["sm_80"], say, here or in defaults; or pass --arch.`, "%s has CUDA sources and does not say for which GPUs", t.label)
		}
		return codes{}
	}
	var c codes
	for _, d := range t.deps {
		c.sass = append(c.sass, d.codes.sass...)
		c.ptx = append(c.ptx, d.codes.ptx...)
		c.gfx = append(c.gfx, d.codes.gfx...)
		if d.Kind == manifest.Prebuilt {
			c.gfx = append(c.gfx, ck.amdCode(d)...)
		}
	}
	c.sort()
	if len(c.gfx) > 0 && len(c.sass)+len(c.ptx) > 0 && t.Kind != manifest.Generate {
		ck.errorf(t.Pos, "Make two programs, one for each vendor.", "%s depends on libraries with CUDA code and on libraries with AMD code", t.label)
	}
	return c
}

// amdCode returns the AMD codes in a prebuilt library, so that a program of host sources links it
// as hipcc would.
func (g *given) amdCode(t *target) (list []gencode.Code) {
	for _, m := range g.facts.Prebuilt[t.Archive+t.SharedFile].Members {
		for _, i := range m.Images {
			if i.Name != "" {
				list = append(list, gencode.Code{Kind: gencode.GFX, Name: i.Name, Feature: i.Feature})
			}
		}
	}
	return list
}

// unknownCode reports a code that the compiler does not support.
func (ck *checks) unknownCode(pos manifest.Pos, code gencode.Code) {
	k := ck.facts.CUDA
	who, help := "CUDA "+k.Version, "It knows "+spell(k.Archs)+"."
	if k.Clang != nil {
		who = fmt.Sprintf("clang %s with CUDA %s", k.Clang.Driver.Version, k.Version)
	} else if others := releases(code); others != "" {
		help += " " + others + " it."
	}
	if slices.Contains(ck.project.Archs, code) {
		ck.errorf(manifest.Pos{}, help, "--arch %s: %s does not know it", code, who)
		return
	}
	ck.errorf(pos, help, "%s does not know %s", who, code)
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
