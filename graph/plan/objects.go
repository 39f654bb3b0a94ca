package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// compileAll plans one compile for each source of t.
func (b *builder) compileAll(t *target) {
	common := b.sources(t)
	for _, s := range t.Sources {
		o := toolchain.Object{Path: b.build.ObjectPath(&t.Target, s), Source: s}
		switch {
		case s.IsDevice():
			c := b.toolchains[s.Language].Compile(toolchain.CompileRequest{Build: b.build, Sources: common, Target: &t.Target, Source: s, Output: o.Path})
			b.take(t, c.Plan)
			if !c.OK {
				continue
			}
			if o.Made = c.Made; c.Floats != nil {
				t.Floats = c.Floats
			}
		default:
			a := b.hostCompile(t, s, o.Path, common.Searched(s))
			if a == nil {
				continue
			}
			a.OrderOnly = common.Headers
			b.emit(t, a)
		}
		t.Objects = append(t.Objects, o)
	}
}

// sources returns the include folders of t's sources, its own first, then those that its
// dependencies export, and the generated files that must exist before t compiles.
func (b *builder) sources(t *target) toolchain.Sources {
	s := toolchain.Sources{IncludePos: map[string]manifest.Pos{}}
	dirs := slices.Concat(t.Includes, t.PrivateIncludes)
	for _, d := range b.walk.exporters(t) {
		dirs, s.Headers = append(dirs, d.include...), append(s.Headers, d.headers...)
		for _, dir := range d.include {
			s.IncludePos[dir] = d.AnyAttr("includes")
		}
	}
	slices.Sort(s.Headers)
	s.Includes, s.Headers = appendNew(nil, dirs...), slices.Compact(s.Headers)
	return s
}

// hostCompile returns the compile of a source without device code; nil if a problem was reported.
// Some toolchains compile the host sources of a target with their code, with their headers.
// The assembler alone writes no dependency file.
func (b *builder) hostCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	tc := b.toolchain(t).Info()
	cc, tool, env, language := tc.CXX, tc.Tool, tc.Env, toolchain.LanguageFlag(s)
	o := host.Options{Std: s.Std, Opt: toolchain.HostLevels.Of(&t.Target, s), Includes: inc, System: tc.Includes,
		Defines: append(slices.Clip(tc.Defines), toolchain.Defines(s.Defines)...), Debug: t.Debug, PIC: t.PIC, Flags: s.Flags.Host}
	switch {
	case tc.Tool == "" && s.Language == "c++":
		cc, tool, env = b.facts.CXX, "cxx", []string{toolchain.Anywhere}
	case tc.Tool == "":
		cc, tool, env = b.facts.CC, "cc", []string{toolchain.Anywhere}
	case s.Language == "c":
		language = "c" // clang++ compiles every source as C++ by default
	}
	if cc.Path == "" {
		if tc.Tool == "" {
			b.problems.Errorf(s.Pos, cc.Error, "no compiler for the %s sources of %s", s.Language, t.Label)
		} else if b.build.Once(toolchain.NoCompiler) {
			b.problems.Errorf(s.Pos, cc.Error, "%s", tc.None)
		}
		return nil
	}
	if b.problems.CheckDepends(&t.Target, s.Flags.Host); tc.Tool == "" {
		if hostLTO(t) != "" && isHost(s) {
			b.checkHostLTO(t, cc)
			o.LTO = b.facts.lto(t.HostLTO).Compile(t.Folder() + "/" + b.build.InTree(s.Path))
		}
	} else if t.HostLTO != "" {
		b.problems.Errorf(t.Attr("host_lto"), "Remove it, or put the host sources into a library of their own without "+tc.Code+".",
			"%s ships %s, whose link has no host_lto", t.Label, tc.Code)
	}
	depfile := out + ".d"
	if language == host.Assembler {
		depfile = ""
	}
	a := &graph.Action{
		Kind: graph.HostCompile, Name: s.Path, Argv: host.Compile(cc.Path, s.Path, out, depfile, language, o), Env: env,
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: depfile, SearchDirs: inc, Tools: []string{tool}, Memory: s.Memory,
	}
	if len(s.Flags.Host) > 0 {
		// The target's attributes may enable debug information. No compiler optimises or instruments
		// assembler, and clang splits its debug information as gcc does.
		family, options := cc.Family, a.Argv[1:]
		if s.Language == "asm" {
			family, options = "gcc", host.AssemblerOptions(options)
		}
		b.problems.BesideObject(&t.Target, a, family, options, s.Flags, b.build.Seed(&t.Target, s.Path))
	}
	return a
}
