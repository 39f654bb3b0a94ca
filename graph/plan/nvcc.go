package plan

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// nvcc returns the CUDA compiler. If there is none, it reports a problem at pos.
func (ck *checks) nvcc(pos manifest.Pos) (nvcc.Driver, bool) {
	k := ck.facts.CUDA
	if k == nil {
		if !ck.nvccReported {
			ck.errorf(ck.missesAt(pos), ck.facts.CUDAError, "%s", ck.noCUDA())
			ck.nvccReported = true
		}
		return nvcc.Driver{}, false
	}
	if k.HostFault != "" && !ck.nvccReported && !ck.allowsUnsupported() {
		ck.errorf(ck.project.Toolchains["cuda"].At("host_compiler"), "Name an older one; or, on your own account, give nvcc the flag -allow-unsupported-compiler.", "%s", k.HostFault)
		ck.nvccReported = true
	}
	for _, f := range ck.facts.NVCCFlags {
		why, help := manifest.LostNVCC(f)
		if nvcc.IsTime(f) {
			why, help = "all sources would write one file", "Put it into flags.nvcc of a partition of one source."
		}
		if why != "" && !ck.nvccReported {
			ck.errorf(pos, help, "the environment has %s for nvcc, and %s", f, why)
		}
	}
	if k.Mixed != "" && !ck.nvccReported {
		ck.warnf(pos, k.Mixed, "the programs of this CUDA toolkit are of different versions")
		ck.nvccReported = true
	}
	return nvcc.Driver{Path: k.NVCC.Path, HostCXX: k.HostCXX.Path, LibDir: k.LibDir}, true
}

// checkStd rejects a standard that nvcc does not support.
func (b *builder) checkStd(t *target) {
	if b.facts.CUDA == nil || b.facts.CUDA.Clang != nil {
		return
	}
	i := slices.IndexFunc(t.Sources, func(s manifest.Source) bool { return s.Language == "cuda" && strings.HasPrefix(s.Std, "gnu") })
	if i >= 0 {
		s := t.Sources[i]
		b.errorf(t.stdPos(s), `Set cuda_std = "`+strings.Replace(s.Std, "gnu", "c", 1)+`" beside it, for the CUDA sources.`,
			"nvcc has no %s, and %s is CUDA", s.Std, s.Path)
	}
}

// nvccCompiler plans the compile of one CUDA source by nvcc.
type nvccCompiler compile

func (c *nvccCompiler) command(out string, inc []string) *graph.Action {
	b, t, s := c.b, c.t, c.s
	cc, ok := b.nvcc(s.Pos)
	if !ok {
		return nil
	}
	codes := t.codesOf(s).compileCodes(s.Mode)
	if len(codes) == 0 {
		if len(t.codes.ptx)+len(t.codes.lto) == 0 {
			return nil // reported elsewhere: t has no code at all
		}
		b.errorf(t.attr("gencode"), "Add the architectures to link for, for example sm_80.",
			"%s is compiled for a device link and ships no machine code (%s)", s.Path, spell(append(t.codes.ptx, t.codes.lto...)))
		return nil
	}
	o := deviceOptions(t, s, inc)
	several := slices.ContainsFunc(t.Sources, func(other manifest.Source) bool {
		return times(other) != nil && (other.Path != s.Path || other.Partition != s.Partition)
	})
	_, timed, files := nvcc.SplitTimes(s.Flags.NVCC, out, several)
	o.Flags = append(o.Flags, timed...)
	argv := cc.Compile(toolchain.Compile{Source: s.Path, Output: out, Depfile: out + ".d", Mode: s.Mode, Codes: codes, Language: languageFlag(s)}, o)
	b.checkQuoting(t, s, inc)
	b.checkDepends(t, s.Flags.NVCC, b.facts.NVCCFlags, b.hostOptions(s.Flags))
	a := &graph.Action{
		Kind: graph.Compile, Name: s.Path, Archs: names(codes), Mode: s.Mode, Argv: argv, Env: b.nvccEnv(), InPlace: len(files) > 0,
		Inputs: []string{s.Path}, Outputs: append([]string{out}, files...), Depfile: out + ".d", SearchDirs: inc, Tools: []string{"nvcc"}, Memory: s.Memory,
		CwdInKey: t.debugs() || host.AsksForDebug(slices.Concat(s.Flags.NVCC, b.facts.NVCCFlags, b.hostOptions(s.Flags))),
	}
	b.checkSources(t, a, files, s.Flags)
	return a
}

// times returns the options that make nvcc record how long the steps of a compile of s take.
func times(s manifest.Source) (options []string) {
	if s.Language == "cuda" {
		_, options, _ = nvcc.SplitTimes(s.Flags.NVCC, "", false)
	}
	return options
}

// nvccEnv returns the additional environment of an unsplit nvcc command.
func (g *given) nvccEnv() []string {
	if dirs := g.facts.CUDA.LibPath; dirs != "" {
		return []string{"LD_LIBRARY_PATH=" + dirs}
	}
	return nil
}

// deviceOptions returns the attributes of t and its source s as options for nvcc, without those
// that make nvcc record times.
func deviceOptions(t *target, s manifest.Source, inc []string) toolchain.Options {
	o := commonOptions(t, s, inc)
	o.Opt, o.PrecSqrt, o.MaxRegisters, o.CICC, o.PTXAS = optLevel(t, s), t.PrecSqrt, t.MaxRegisters, s.Flags.CICC, s.Flags.PTXAS
	o.Flags, _, _ = nvcc.SplitTimes(s.Flags.NVCC, "", false)
	return o
}

// checkQuoting rejects names and flags that nvcc, or the shell that it passes its options to, would
// change. They are those of a compile of s with the include folders inc.
func (ck *checks) checkQuoting(t *target, s manifest.Source, inc []string) {
	refuse := func(pos manifest.Pos, chars, what string, values ...string) {
		for _, v := range values {
			if i := strings.IndexAny(v, chars); i >= 0 {
				ck.errorf(pos, "nvcc, or the shell that it passes its options to, would change it. Write it without that character.",
					"%s would be compiled with the %s %q, which holds %q", s.Path, what, v, v[i])
			}
		}
	}
	refuse(s.Pos, nvcc.ShellChars, "name", s.Path)
	for _, dir := range inc {
		if !strings.ContainsAny(dir, nvcc.UnquotedDirChars) {
			continue
		}
		pos := t.anyAttr("includes", "private_includes")
		for _, d := range ck.exporters(t) {
			if slices.Contains(d.include, dir) {
				pos = d.anyAttr("includes")
			}
		}
		refuse(pos, nvcc.UnquotedDirChars, "folder", dir)
	}
	for _, f := range s.Flags.NVCC {
		refuse(t.flag(s.Flags, f), nvcc.ShellChars, "flag", f)
	}
	for _, f := range slices.Concat(s.Flags.CICC, s.Flags.PTXAS) {
		refuse(t.flag(s.Flags, f), nvcc.UnforwardedChars, "flag", f)
	}
}

func (c *nvccCompiler) learn(whole *graph.Action) (splitter, error) {
	b := c.b
	passes, err := b.learnCompile(c.t, whole, whole.Argv)
	options := b.hostOptions(c.s.Flags)
	if err == nil && len(passes.TileIRAS) > 0 && b.facts.CUDA.Programs[nvcc.TileIRAS] == "" {
		err = errors.New("the toolkit's tileiras was not found")
	}
	if err == nil && passes.Host != nil {
		options = passes.Host.Unplaced()
		if err = joinable(options); passes.TileFatbin == nil && b.facts.CUDA.FatbinC[passes.Placeholder()] == "" {
			err = errors.New("fatbinary was not asked for the form of its output")
		}
	}
	if i := slices.IndexFunc(options, host.IsSpecs); i >= 0 {
		whole.CwdInKey, err = true, errors.New(options[i]+" may have the host compiler do anything")
	}
	if b.besideObject(c.t, whole, b.facts.CUDA.HostCXX.Family, options, c.s.Flags) {
		err = errors.New("its host compiler writes or reads files beside the object")
	}
	if timed := times(c.s); timed != nil {
		err = optOut(strings.Join(timed, " "))
	}
	if err == nil && c.s.Mode == "lto" {
		if f, ok := recordedFloats(strings.Join(passes.CICC[0].Unplaced(), " ")); ok {
			c.t.toldCICC = &f
		}
	}
	return func(u toolchain.Unit) map[string]string {
		b.nvccSplit(c.t, c.s, u, passes).Compile(passes)
		b.nvccWarns(c.t, passes.Said)
		return nil
	}, err
}

func (c *nvccCompiler) inOnePiece(whole *graph.Action, why error) {
	c.b.fallBack(c.s.Pos, whole, why)
	if c.s.Mode == "lto" && len(c.b.facts.NVCCFlags)+len(c.s.Flags.CICC) > 0 {
		c.t.toldCICC = c.b.tellsCICC(askSteps(whole, whole.Argv))
	}
	c.b.emit(c.t, whole)
}

// fallBack marks the nvcc command of the block at pos as unsplit. It reports an error if the
// command must be split or if nvcc would misread its file names.
func (b *builder) fallBack(pos manifest.Pos, whole *graph.Action, why error) {
	d := whole.Work.Driver
	d.UnsplitReason, d.Fallback = why.Error(), !errors.As(why, new(optOut))
	names := whole.Outputs[0]
	if whole.Kind != graph.DeviceLink { // a device link does not split the names of its inputs
		names = strings.Join(whole.Inputs, " ") + " -o " + names
	}
	if strings.Contains(names, ",") {
		b.errorf(pos, "Rename it. Where kbuild splits the command, the name may stay.",
			"nvcc as one command (%v) would split names at commas: %s", why, names)
	}
	if d.Fallback && b.options.RequireSplit {
		b.errorf(pos, "Build without --require-split to have it so: then each change of a source compiles it for all architectures.",
			"nvcc would run as one command for %s %s: %v", whole.Kind, whole.Name, why)
	}
}

// optOut is the setting by which the user disabled splitting.
type optOut string

func (o optOut) Error() string { return string(o) }

// learnCompile returns the passes of an nvcc command. ask is the argv whose dry run shows the
// passes; it is whole's own where nvcc writes the output by itself.
func (b *builder) learnCompile(t *target, whole *graph.Action, ask []string) (*nvcc.CompilePasses, error) {
	if err := b.unsplittable(t); err != nil {
		return nil, err
	}
	q := askSteps(whole, ask)
	whole.Work.Driver.DryRunKey = q.Key()
	return learn(&b.answers, q, nvcc.LearnCompile)
}

// askSteps returns the dry run query for an nvcc command.
func askSteps(whole *graph.Action, ask []string) toolchain.Question {
	return toolchain.Question{Tool: "nvcc", Args: nvcc.Query(ask, whole.Inputs[0], ask[slices.Index(ask, "-o")+1], whole.Depfile)}
}

// unsplittable returns why nvcc stays unsplit for t where that is known before a dry run.
func (g *given) unsplittable(t *target) error {
	if why := g.optedOut(t); why != "" {
		return optOut(why)
	}
	if missing := nvcc.Missing(g.facts.CUDA.Programs); missing != "" {
		return errors.New(missing)
	}
	return nil
}

// nvccSplit returns the Split for the nvcc compile u of s with the passes c.
func (g *given) nvccSplit(t *target, s manifest.Source, u toolchain.Unit, c *nvcc.CompilePasses) *nvcc.Split {
	u.ID = nvcc.ModuleID(t.label, s.Path, s.Partition)
	// clang spells positions into __PRETTY_FUNCTION__ of lambdas; gcc does not.
	u.Lines = u.Whole.CwdInKey || host.RecordsLines(c.Options()) || strings.Contains(path.Base(g.facts.CUDA.HostCXX.Path), "clang")
	return nvcc.NewSplit(u, g.kit(t), c.Env)
}

// kit returns the parts of the toolkit that the passes of t use.
func (g *given) kit(t *target) nvcc.Kit {
	k := g.facts.CUDA
	return nvcc.Kit{Programs: k.Programs, HostCXX: k.HostCXX.Path, FatbinC: k.FatbinC, Archs: k.Archs, ArchList: t.Gencode.ArchList, LibNVVM: k.LibNVVM}
}

// nvccWarns reports the driver's warnings about a target's architectures, which no pass prints.
func (ds *diagnostics) nvccWarns(t *target, printed string) {
	for line := range strings.Lines(printed) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "nvcc warning"), " : "))
		ds.warnf(t.attr("gencode"), "", "nvcc: %s", text)
	}
}

// emitLink plans a device link, split if possible. shared holds the passes of the other links of a
// module.
func (b *builder) emitLink(t *target, cc nvcc.Driver, name string, link nvcc.DeviceLink, check *graph.Link, shared *nvcc.Sharing) {
	o := deviceOptions(t, t.anySource(), nil)
	whole := &graph.Action{Kind: graph.DeviceLink, Name: name, Archs: names(link.Codes), Mode: linkMode(link.LTO), Argv: cc.DeviceLink(link, o), Env: b.nvccEnv(),
		Inputs: link.Inputs, Outputs: []string{link.Output}, Tools: []string{"nvcc"}, Work: graph.Work{Link: check, Response: nvcc.OptionsFile}}
	linked := whole.Inputs
	if refs := whole.Link().HostRefs; refs != "" {
		whole.Inputs = append(slices.Clip(linked), refs)
	}
	whole.Work.Driver = &graph.Driver{}
	err := b.unsplittable(t)
	if err == nil {
		link.Inputs = []string{toolchain.QueryInput}
		q := toolchain.Question{Tool: "nvcc", Args: nvcc.Query(cc.DeviceLink(link, o), "", link.Output, "")}
		whole.Work.Driver.DryRunKey = q.Key()
		var passes *nvcc.LinkPasses
		if passes, err = learn(&b.answers, q, nvcc.LearnLink); err == nil {
			s := nvcc.NewSplit(b.unit(t, whole, whole.Outputs[0]), b.kit(t), passes.Env)
			s.Shared = shared
			if err = s.Link(passes, linked, b.slicer(t, whole.Mode)); err == nil {
				b.nvccWarns(t, passes.Said)
				return
			}
		}
	}
	b.fallBack(t.Pos, whole, err)
	if link.LTO && b.facts.CUDA.LTOFault != "" {
		b.errorf(t.Pos, b.facts.CUDA.LTOFault, "nvcc as one command cannot link with LTO (%v)", err)
	}
	b.emit(t, whole)
}

// slicer returns a function that maps a link input to the file to link for one architecture. For a
// file that this build writes, that is the architecture's slice of it.
func (b *builder) slicer(t *target, mode string) func(in string, code gencode.Code) string {
	return func(in string, code gencode.Code) string {
		if _, ours := b.graph.Producer(in); !ours {
			return in
		}
		out := b.out(graph.SlicesDir, code.String(), b.inTree(in))
		if _, planned := b.graph.Producer(out); !planned {
			b.emit(t, &graph.Action{Kind: graph.Slice, Name: strings.TrimPrefix(in, b.project.BuildDir+"/"), Archs: []string{code.String()},
				Mode: mode, Inputs: []string{in}, Outputs: []string{out}, Intermediate: true, Transient: true})
		}
		return out
	}
}

// format is one nvcc command that emits one artifact of one source of a module.
type format struct {
	source manifest.Source
	whole  *graph.Action
	ask    []string // the argv whose dry run shows the passes
	passes *nvcc.CompilePasses
}

// emitFormats plans all artifacts of a module that are made of one source each. Passes that several
// artifacts have in common are planned once.
func (b *builder) emitFormats(t *target, list []format) {
	for i := range list {
		f := &list[i]
		var err error
		f.whole.Work.Driver = &graph.Driver{}
		if f.passes, err = b.learnCompile(t, f.whole, f.ask); err != nil {
			f.passes = nil
			b.fallBack(f.source.Pos, f.whole, err)
		}
	}
	for _, f := range list {
		for _, g := range list {
			if f.passes != nil && g.passes != nil && f.source.Path == g.source.Path && f.source.Partition == g.source.Partition {
				f.passes.MergeLTO(g.passes)
			}
		}
	}
	shared := map[string]*nvcc.Sharing{} // by source and partition
	for _, f := range list {
		key := f.source.Path + "\x00" + f.source.Partition
		if shared[key] == nil {
			shared[key] = nvcc.NewSharing(b.out(graph.PartsDir))
		}
		if f.passes == nil {
			b.emit(t, f.whole)
			continue
		}
		whole := *f.whole
		whole.Name = strings.TrimPrefix(strings.TrimSuffix(b.artifactPath(t, &f.source, "", ""), "."), b.out("modules")+"/")
		s := b.nvccSplit(t, f.source, b.unit(t, &whole, whole.Outputs[0]), f.passes)
		s.Shared = shared[key]
		s.Format(f.passes)
		b.nvccWarns(t, f.passes.Said)
	}
}

// allowsUnsupported reports whether the flags of some source, or the environment, let nvcc use any
// host compiler.
func (g *given) allowsUnsupported() bool {
	const flag = "-allow-unsupported-compiler"
	told := func(flags []string) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(f, flag) })
	}
	return told(g.facts.NVCCFlags) || slices.ContainsFunc(g.project.Targets, func(t *manifest.Target) bool {
		return told(t.Flags.NVCC) || slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return told(s.Flags.NVCC) })
	})
}

// missesAt returns the position of the toolchain attribute that no toolkit satisfies, or else pos.
func (g *given) missesAt(pos manifest.Pos) manifest.Pos {
	if tc, ok := g.project.Toolchains["cuda"]; ok && g.facts.CUDAMisses.Attribute != "" {
		return tc.At(g.facts.CUDAMisses.Attribute)
	}
	return pos
}

// noCUDA returns why no CUDA compiler is available.
func (g *given) noCUDA() string {
	if truth := g.facts.CUDAMisses.Truth; truth != "" {
		return truth
	}
	if c := g.project.Toolchains["cuda"].Compiler; strings.Contains(path.Base(c), "clang") {
		return c + " cannot compile CUDA here"
	}
	return "no CUDA toolkit was found"
}
