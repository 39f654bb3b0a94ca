package hip

import (
	"errors"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A module of AMD code can emit three kinds. hsaco is a code object for each architecture, for
// hipModuleLoad. fatbin is a bundle of them, as `hipcc --genco` writes. bitcode is LLVM bitcode for
// each architecture, for hiprtcLink.

// module plans the artifacts of one module.
type module struct {
	*Toolchain
	toolchain.ModuleRequest
	toolchain.Module
	t *toolchain.Target
}

// Module implements toolchain.Toolchain.
func (k *Toolchain) Module(r toolchain.ModuleRequest) toolchain.Module {
	m := &module{Toolchain: k, ModuleRequest: r, t: r.Target}
	if !k.Ready(r.Build, &m.Plan, r.Target.Pos) {
		return m.Module
	}
	code := map[string][]toolchain.Artifact{} // code objects by source, "" for linked ones
	for _, kind := range m.t.Emit {
		for i := range m.t.Sources {
			s := &m.t.Sources[i]
			switch {
			case kind == "bitcode":
				made := m.compiledBitcode(s)
				if made == nil {
					made = m.emit(s, kind)
				}
				m.Artifacts = append(m.Artifacts, made...)
			case m.t.Mode == "whole":
				if code[s.Path] == nil {
					code[s.Path] = m.emit(s, "hsaco")
				}
				m.finish(s, kind, code[s.Path])
			case i == 0:
				if code[""] == nil {
					code[""] = m.link()
				}
				m.finish(nil, kind, code[""])
			}
		}
	}
	return m.Module
}

// compiledBitcode plans the bitcode of one source as copies of what the device link of the module
// reads. It returns nil if no compile for a device link writes bitcode.
func (m *module) compiledBitcode(s *manifest.Source) (arts []toolchain.Artifact) {
	i := slices.IndexFunc(m.t.Objects, func(o toolchain.Object) bool {
		return o.Source.Path == s.Path && o.Source.Partition == s.Partition
	})
	if i < 0 || m.t.Objects[i].Code == nil {
		return nil
	}
	for _, code := range m.t.Codes.Other {
		out := m.ArtifactPath(m.t, s, toolchain.FileName(code.String()), "bc")
		m.Emit(&graph.Action{Kind: graph.Copy, Name: path.Base(out), Archs: []string{code.String()}, Mode: s.Mode,
			Inputs: []string{m.t.Objects[i].Code[code.String()]}, Outputs: []string{out}})
		arts = append(arts, toolchain.Artifact{Path: out, Kind: "bitcode", Arch: code.String(), Source: s.Path})
	}
	return arts
}

// finish adds code objects to the artifacts, or a bundle of them, which it plans.
func (m *module) finish(s *manifest.Source, kind string, code []toolchain.Artifact) {
	if kind == "hsaco" || len(code) == 0 {
		m.Artifacts = append(m.Artifacts, code...)
		return
	}
	files := map[string]string{}
	for _, a := range code {
		files[a.Arch] = a.Path
	}
	c := toolchain.Compile{Source: clang.QuerySource, Output: toolchain.AskOutput, Mode: "whole", Codes: m.t.Codes.Other}
	how, err := m.learnModule(&graph.Action{Inputs: []string{c.Source}, Work: graph.Work{Driver: &graph.Driver{}}},
		m.compileArgv(c, "", toolchain.Options{Flags: CompressOptions(m.t.Flags.HIP)}), c)
	if err != nil {
		m.fault(err)
		return
	}
	whole := toolchain.Artifact{Path: m.ArtifactPath(m.t, s, "", "fatbin"), Kind: "fatbin"}
	argv, inputs := how.Bundle.Pack(files, whole.Path)
	m.Emit(&graph.Action{Kind: graph.Bundle, Name: path.Base(whole.Path), Archs: toolchain.CodeNames(m.t.Codes.Other), Mode: m.t.Mode,
		Argv: argv, Env: m.Environ(), Inputs: inputs, Outputs: []string{whole.Path}, Tools: []string{Tool}})
	if s != nil {
		whole.Source = s.Path
	}
	m.Artifacts = append(m.Artifacts, whole)
}

// learnModule returns the passes that compile a source of a module. Final code of a module is what
// a compile of device code alone generates (hipcc --genco). With the new offload driver, an object
// does not hold that code.
func (m *module) learnModule(whole *graph.Action, argv []string, c toolchain.Compile) (*Passes, error) {
	passes, err := m.learn(m.Build, m.t, whole, argv, c.Output, c.Codes)
	if isNew := errors.Is(err, ErrNewDriver) || err == nil && passes.New; isNew && c.Mode == "whole" {
		argv = append(argv[:len(argv):len(argv)], "--cuda-device-only")
		// With the new driver clang 22 bundles even the code of one architecture.
		if _, asked := ChoosesDriver(argv); asked {
			argv = append(argv, DriverOption(false))
		}
		return m.learn(m.Build, m.t, whole, argv, c.Output, c.Codes)
	}
	return passes, err
}

// fault reports a module that cannot be planned: no single hipcc command writes its files.
func (m *module) fault(err error) {
	if e, ok := err.(toolchain.DriverError); ok {
		m.refused(&m.Plan, m.t, e)
	} else if err != toolchain.ErrNotQueried {
		m.Errorf(m.t.Pos, "Its files are made pass by pass; there is no command of hipcc that makes them.", "%s: kbuild could not split hipcc into passes: %v", m.t.Label, err)
	}
}

// emit plans the code objects, or the bitcode, of one source.
func (m *module) emit(s *manifest.Source, kind string) (arts []toolchain.Artifact) {
	if s.Language != Tool {
		m.Errorf(s.Pos, "Put host code into a library or an executable.", "%s of %s is no HIP source", s.Path, m.t.Label)
		return nil
	}
	mode, ending := s.Mode, kind
	if kind == "bitcode" {
		if ending = "bc"; mode == "whole" {
			mode = "rdc" // bitcode is always relocatable
		}
	}
	inc := m.Searched(*s)
	m.CheckDepends(m.t, s.Flags.HIP)
	m.checkLibs(m.Build, &m.Plan, m.t)
	c := toolchain.Compile{Source: s.Path, Output: toolchain.AskOutput, Mode: mode, Codes: m.t.Codes.Other}
	whole := &graph.Action{Name: s.Path, Mode: mode, Env: m.Environ(), Inputs: []string{s.Path}, OrderOnly: m.Headers, SearchDirs: inc,
		Tools: []string{Tool}, Memory: s.Memory, Work: graph.Work{Driver: &graph.Driver{}}}
	passes, err := m.learnModule(whole, m.compileArgv(c, "", m.options(&m.Plan, m.t, *s, inc)), c)
	if err != nil {
		m.fault(err)
		return nil
	}
	u := m.NewUnit(&m.Plan, whole, m.ArtifactPath(m.t, s, "", kind))
	split := clang.NewSplit(clang.Unit(u, m.t, *s, s.Flags.HIP), Tool, passes.Passes)
	for _, code := range m.t.Codes.Other {
		out := m.ArtifactPath(m.t, s, toolchain.FileName(code.String()), ending)
		split.Device(code, out)
		arts = append(arts, toolchain.Artifact{Path: out, Kind: kind, Arch: code.String(), Source: s.Path})
	}
	return arts
}

// link plans a device link for each architecture of a module in the modes rdc and lto.
func (m *module) link() (arts []toolchain.Artifact) {
	h := &link{Toolchain: m.Toolchain, b: m.Build, p: &m.Plan, t: m.t, inputs: m.Inputs, codes: m.t.Codes.Other, mode: toolchain.LinkMode(toolchain.HasLTO(m.Inputs))}
	h.checkLinker()
	if h.isNew = m.linkDriver(h.inputs); !checkDrivers(h.p, m.t, h.inputs) {
		return nil
	}
	h.packaged = h.isNew
	// Without host code both drivers' bitcode is linked alike.
	if m.Major < FirstApart {
		h.isNew = false
	}
	for _, u := range h.inputs {
		checkCoverage(h.p, m.t, u.Target)
	}
	var err error
	if h.Link, err = h.learn(); err != nil {
		m.fault(err)
		return nil
	}
	bitcode := h.bitcode()
	for _, d := range h.Device {
		code, err := gencode.Parse(d.Arch)
		if err != nil {
			panic("BUG: a device link for " + d.Arch)
		}
		out := m.ArtifactPath(m.t, nil, toolchain.FileName(code.String()), "hsaco")
		d.Emit(h.unit(), path.Base(out), bitcode[d.Arch], m.t.Flags.LLD, out)
		arts = append(arts, toolchain.Artifact{Path: out, Kind: "hsaco", Arch: d.Arch})
	}
	return arts
}
