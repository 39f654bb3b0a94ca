package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// expand returns the codes of t, with words such as all and native resolved.
func (b *builder) expand(t *target) toolchain.Codes {
	var c toolchain.Codes
	for _, code := range t.Gencode.Code {
		c.Add(b.expandOne(t, code, t.Attr("gencode"))...)
	}
	for _, s := range t.Sources { // partitions with code of their own
		if _, known := t.Parts[s.Partition]; s.Code == nil || known {
			continue
		}
		var c toolchain.Codes
		for _, code := range s.Code {
			c.Add(b.expandOne(t, code, s.AttrPos["code"])...)
		}
		if t.Parts == nil {
			t.Parts = map[string]toolchain.Codes{}
		}
		t.Parts[s.Partition] = c
		checkFamilies(&b.problems, t, c, s.AttrPos["code"])
	}
	checkFamilies(&b.problems, t, c, t.Attr("gencode"))
	b.checkSpoken(t)
	// One manifest describes the programs for all vendors, and this machine may build only some of
	// them. It is an error only to request an unbuildable target.
	tc := b.toolchains[c.Language()]
	if c.Language() != "cuda" || b.lacksCUDA && t.shipsCUDA() {
		t.unbuilt = tc.Info().Missing
	}
	for _, code := range c.Other {
		r := toolchain.ExpandRequest{Build: b.build, Target: &t.Target, Code: code}
		t.unbuilt = cmp.Or(t.unbuilt, tc.Expand(r).Unknown)
	}
	spirv := func(code gencode.Code) bool { return code.Name == gencode.SPIRVTarget }
	if t.Kind == manifest.Module && slices.ContainsFunc(c.Other, spirv) {
		b.problems.Errorf(t.Attr("gencode"), "Name the processors, or generic ones such as gfx11-generic.", "%s ships %s, of which a module has no file", t.Label, gencode.SPIRVTarget)
	}
	if len(c.Shipped())+len(c.LTO) == 0 && t.unbuilt == "" && t.Kind != manifest.Generate && t.Kind != manifest.Prebuilt {
		c = b.inheritCodes(t)
	}
	return c
}

// checkSpoken rejects NVIDIA codes in a project that has no device code: the user probably expects
// a source to be CUDA.
func (b *builder) checkSpoken(t *target) {
	if t.Gencode.Language() != "cuda" || len(t.Sources) == 0 || b.build.Reported[toolchain.NoToolkit] || b.anyDevice {
		return
	}
	b.build.Once(toolchain.NoToolkit) // report once: it concerns the whole project
	s := t.Sources[0]
	b.problems.Bothf(t.Attr("gencode"), s.Pos, fmt.Sprintf("%s is compiled as %s", s.Path, map[string]string{"c": "C", "c++": "C++", "asm": "assembler"}[s.Language]),
		fmt.Sprintf(`If %s holds CUDA code, set language = "cuda" or let its name end in .cu; if there is none, drop the code.`, s.Path),
		"%s ships %s, and none of its sources is CUDA", t.Label, toolchain.Spell(t.Gencode.Code))
}

// checkFamilies rejects sm_100 beside sm_100f, as nvcc does in compiles and links. It allows sm_100
// beside sm_100a, and PTX of both.
func checkFamilies(d *toolchain.Diagnostics, t *target, c toolchain.Codes, pos manifest.Pos) {
	for _, code := range c.SASS {
		family := code
		family.Suffix = "f"
		if code.Suffix == "" && slices.Contains(c.SASS, family) {
			d.Errorf(pos, fmt.Sprintf("Drop one of them: %s runs wherever %s does, and may use what the family has in common.", family, code),
				"%s ships both %s and %s, which nvcc does not make together", t.Label, code, family)
		}
	}
}

// expandOne returns the codes that a word of the manifest stands for.
func (b *builder) expandOne(t *target, code gencode.Code, pos manifest.Pos) []gencode.Code {
	tc := b.toolchains[code.Language()]
	switch {
	case code.Language() != "cuda" || code.Name == "native" || tc.Info().Missing == "":
	case b.lacksCUDA:
		return nil // see expand
	case !b.anyDevice:
		return []gencode.Code{code} // see checkSpoken
	}
	made := tc.Expand(toolchain.ExpandRequest{Build: b.build, Target: &t.Target, Code: code, Pos: pos, Native: b.facts.NativeGPU})
	b.take(t, made.Plan)
	return made.Codes
}

// inheritCodes returns the codes of the libraries that a target without a gencode uses. A target
// with device sources of its own must set its codes.
func (b *builder) inheritCodes(t *target) toolchain.Codes {
	if slices.ContainsFunc(t.Sources, manifest.Source.IsDevice) {
		if len(t.Gencode.Code) == 0 { // otherwise the reason was reported
			b.problems.Errorf(t.Pos, `Set code = ["sm_80"], say, here or in defaults; or pass --arch.`, "%s has CUDA sources and does not say for which GPUs", t.Label)
		}
		return toolchain.Codes{}
	}
	var c toolchain.Codes
	for _, d := range t.deps {
		c.Add(d.Codes.Shipped()...)
		if d.Kind == manifest.Prebuilt {
			for _, m := range d.Library.Members { // AMD code: host sources link it as by hipcc
				for _, i := range m.Images {
					if i.Name != "" {
						c.Add(gencode.Code{Kind: gencode.GFX, Name: i.Name, Feature: i.Feature})
					}
				}
			}
		}
	}
	if len(c.Other) > 0 && len(c.SASS)+len(c.PTX) > 0 && t.Kind != manifest.Generate {
		b.problems.Errorf(t.Pos, "Make two programs, one for each vendor.", "%s depends on libraries with CUDA code and on libraries with AMD code", t.Label)
	}
	return c
}
