package plan

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A module of AMD code can emit three kinds. hsaco is a code object for each architecture, for
// hipModuleLoad. fatbin is a bundle of them, as `hipcc --genco` writes. bitcode is LLVM bitcode for
// each architecture, for hiprtcLink.

// emitsFor returns the kinds of files that modules of a vendor can emit.
func emitsFor(hip bool) []string {
	if hip {
		return []string{"hsaco", "fatbin", "bitcode"}
	}
	return []string{"ptx", "cubin", "fatbin", "ltoir"}
}

// checkEmits rejects kinds of the other vendor.
func (ds *diagnostics) checkEmits(t *target) bool {
	ok := true
	for _, kind := range t.Emit {
		if !slices.Contains(emitsFor(t.isHIP()), kind) {
			ds.errorf(t.attr("emit"), "It can emit "+strings.Join(emitsFor(t.isHIP()), ", ")+".", "%s ships %s, of which there is no %s", t.label, t.vendor(), kind)
			ok = false
		}
	}
	return ok
}

// moduleHIP plans the artifacts of a module of AMD code.
func (b *builder) moduleHIP(t *target) []artifact {
	if _, ok := b.hip(t.Pos); !ok {
		return nil
	}
	var arts []artifact
	code := map[string][]artifact{} // code objects by source, "" for linked ones
	linked := t.Mode != "whole" && slices.ContainsFunc(t.Emit, func(kind string) bool { return kind != "bitcode" })
	if linked {
		b.compileAll(t)
	}
	for _, kind := range t.Emit {
		switch {
		case kind == "bitcode":
			for i := range t.Sources {
				made := b.compiledBitcode(t, &t.Sources[i])
				if made == nil {
					made = b.emitHIP(t, &t.Sources[i], kind)
				}
				arts = append(arts, made...)
			}
		case t.Mode == "whole":
			for i := range t.Sources {
				s := &t.Sources[i]
				if code[s.Path] == nil {
					code[s.Path] = b.emitHIP(t, s, "hsaco")
				}
				arts = append(arts, b.hipArtifacts(t, s, kind, code[s.Path])...)
			}
		default:
			if code[""] == nil {
				code[""] = b.linkHIPModule(t)
			}
			arts = append(arts, b.hipArtifacts(t, nil, kind, code[""])...)
		}
	}
	return arts
}

// compiledBitcode plans the bitcode of one source as copies of what the device link of t reads. It
// returns nil if no compile for a device link writes bitcode.
func (b *builder) compiledBitcode(t *target, s *manifest.Source) (arts []artifact) {
	i := slices.IndexFunc(t.objects, func(o object) bool { return o.source.Path == s.Path && o.source.Partition == s.Partition })
	if i < 0 || t.objects[i].bitcode == nil {
		return nil
	}
	for _, code := range t.codes.gfx {
		out := b.artifactPath(t, s, toolchain.FileName(code.String()), "bc")
		b.emit(t, &graph.Action{Kind: graph.Copy, Name: path.Base(out), Archs: []string{code.String()}, Mode: s.Mode,
			Inputs: []string{t.objects[i].bitcode[code.String()]}, Outputs: []string{out}})
		arts = append(arts, artifact{path: out, kind: "bitcode", arch: code.String(), source: s.Path})
	}
	return arts
}

// hipArtifacts returns the code objects themselves, or plans a bundle of them.
func (b *builder) hipArtifacts(t *target, s *manifest.Source, kind string, code []artifact) []artifact {
	if kind == "hsaco" || len(code) == 0 {
		return code
	}
	files := map[string]string{}
	for _, a := range code {
		files[a.arch] = a.path
	}
	how := b.hipBundle(t)
	if how == nil {
		return nil
	}
	out := b.artifactPath(t, s, "", "fatbin")
	argv, inputs := how.Pack(files, out)
	b.emit(t, &graph.Action{Kind: graph.Bundle, Name: path.Base(out), Archs: names(t.codes.gfx), Mode: t.Mode,
		Argv: argv, Env: b.hipEnv(), Inputs: inputs, Outputs: []string{out}, Tools: []string{"hip"}})
	whole := artifact{path: out, kind: "fatbin"}
	if s != nil {
		whole.source = s.Path
	}
	return []artifact{whole}
}

// hipBundle returns how clang bundles the code objects of t's architectures, from a dry run.
func (b *builder) hipBundle(t *target) *hip.Bundle {
	c := toolchain.Compile{Source: clang.QuerySource, Output: toolchain.AskOutput, Mode: "whole", Codes: t.codes.gfx}
	argv := hip.Driver{Path: b.facts.HIP.Driver.Path}.Compile(c, "", toolchain.Options{Flags: hip.CompressOptions(t.Flags.HIP)})
	passes, err := b.learnModule(t, &graph.Action{Inputs: []string{c.Source}, Work: graph.Work{Driver: &graph.Driver{}}}, argv, c)
	if err != nil {
		b.hipModuleFault(t, err)
		return nil
	}
	return &passes.Bundle
}

// learnModule returns the passes that compile a source of a module. Final code of a module is what
// a compile of device code alone generates (hipcc --genco). With the new offload driver, an object
// does not hold that code.
func (b *builder) learnModule(t *target, whole *graph.Action, argv []string, c toolchain.Compile) (*hip.Passes, error) {
	passes, err := b.learnHIP(t, whole, argv, c.Output, c.Codes)
	if isNew := errors.Is(err, hip.ErrNewDriver) || err == nil && passes.New; isNew && c.Mode == "whole" {
		argv = append(argv[:len(argv):len(argv)], "--cuda-device-only")
		// With the new driver clang 22 bundles even the code of one architecture.
		if _, asked := hip.ChoosesDriver(argv); asked {
			argv = append(argv, hip.DriverOption(false))
		}
		return b.learnHIP(t, whole, argv, c.Output, c.Codes)
	}
	return passes, err
}

// hipModuleFault reports a module that cannot be planned: no single hipcc command writes its files.
func (ck *checks) hipModuleFault(t *target, err error) {
	if r, ok := err.(driverError); ok {
		ck.hipRefused(t, r)
	} else if err != errNotQueried {
		ck.errorf(t.Pos, "Its files are made pass by pass; there is no command of hipcc that makes them.", "%s: kbuild could not split hipcc into passes: %v", t.label, err)
	}
}

// emitHIP plans the code objects, or the bitcode, of one source.
func (b *builder) emitHIP(t *target, s *manifest.Source, kind string) []artifact {
	if s.Language != "hip" {
		b.errorf(s.Pos, "Put host code into a library or an executable.", "%s of %s is no HIP source", s.Path, t.label)
		return nil
	}
	mode := s.Mode
	if kind == "bitcode" && mode == "whole" {
		mode = "rdc" // bitcode is always relocatable
	}
	inc, headers := b.includes(t)
	inc = searched(*s, inc)
	b.checkDepends(t, s.Flags.HIP)
	b.checkHIPLibs(t)
	c := toolchain.Compile{Source: s.Path, Output: toolchain.AskOutput, Mode: mode, Codes: t.codes.gfx}
	whole := &graph.Action{Name: s.Path, Mode: mode, Env: b.hipEnv(), Inputs: []string{s.Path}, OrderOnly: headers, SearchDirs: inc,
		Tools: []string{"hip"}, Memory: s.Memory, Work: graph.Work{Driver: &graph.Driver{}}}
	argv := hip.Driver{Path: b.facts.HIP.Driver.Path}.Compile(c, "", b.hipOptions(t, *s, inc))
	passes, err := b.learnModule(t, whole, argv, c)
	if err != nil {
		b.hipModuleFault(t, err)
		return nil
	}
	p := clang.NewSplit(clangUnit(t, *s, b.unit(t, whole, b.artifactPath(t, s, "", kind)), s.Flags.HIP), "hip", passes.Passes)
	var arts []artifact
	for _, code := range t.codes.gfx {
		ending := map[string]string{"hsaco": "hsaco", "bitcode": "bc"}[kind]
		out := b.artifactPath(t, s, toolchain.FileName(code.String()), ending)
		p.Device(code, out)
		arts = append(arts, artifact{path: out, kind: kind, arch: code.String(), source: s.Path})
	}
	return arts
}

// linkHIPModule plans a device link for each architecture of a module in the modes rdc and lto.
func (b *builder) linkHIPModule(t *target) []artifact {
	l := b.linkage(t)
	b.checkHIPLinker(t)
	h := &hipLink{b: b, t: t, l: l, linked: b.linkInputs(t, l)}
	h.mode = linkMode(hasLTO(h.linked))
	if h.isNew = b.linkDriver(t, l); !b.checkDrivers(t, l) {
		return nil
	}
	h.packaged = h.isNew
	// Without host code both drivers' bitcode is linked alike.
	if b.facts.HIP.Major < hip.FirstApart {
		h.isNew = false
	}
	for _, p := range h.linked {
		b.checkHIPCoverage(t, p.t)
	}
	passes, err := h.learn(t.codes.gfx)
	if err != nil {
		b.hipModuleFault(t, err)
		return nil
	}
	h.Link = passes
	var arts []artifact
	for _, d := range h.Device {
		code, err := gencode.Parse(d.Arch)
		if err != nil {
			panic("BUG: a device link for " + d.Arch)
		}
		out := b.artifactPath(t, nil, toolchain.FileName(code.String()), "hsaco")
		a := d.Action(h.unit(), h.bitcode(d.Arch), t.Flags.LLD, out)
		a.Name = path.Base(out)
		b.emit(t, a)
		arts = append(arts, artifact{path: out, kind: "hsaco", arch: d.Arch})
	}
	return arts
}
