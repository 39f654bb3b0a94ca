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
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// hip returns the HIP compiler. If there is none, it reports a problem at pos.
func (ck *checks) hip(pos manifest.Pos) (hip.Driver, bool) {
	k := ck.facts.HIP
	if k == nil {
		if !ck.hipPrinted {
			ck.errorf(pos, ck.facts.HIPError, "no HIP compiler was found")
			ck.hipPrinted = true
		}
		return hip.Driver{}, false
	}
	return hip.Driver{Path: k.Driver.Path}, true
}

// hipCompiler plans the compile of one HIP source.
type hipCompiler compile

func (c *hipCompiler) command(out string, inc []string) *graph.Action {
	b, t, s := c.b, c.t, c.s
	cc, ok := b.hip(s.Pos)
	if !ok {
		return nil
	}
	b.checkDepends(t, s.Flags.HIP, s.Flags.Host)
	b.notBeside(t, s, slices.Concat(s.Flags.HIP, s.Flags.Host))
	b.checkHIPLibs(t)
	argv := cc.Compile(toolchain.Compile{Source: s.Path, Output: out, Depfile: out + ".d", Mode: s.Mode, Codes: t.codesOf(s).gfx},
		clang.ID(t.label, s.Path, s.Partition), b.hipOptions(t, s, inc))
	a := &graph.Action{
		Kind: graph.Compile, Name: s.Path, Archs: names(t.codesOf(s).gfx), Mode: s.Mode, Argv: argv, Env: b.hipEnv(),
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: out + ".d", SearchDirs: inc, Tools: []string{"hip"}, Memory: s.Memory,
	}
	timeTraces(a)
	return a
}

// timeTraces adds the files of -ftime-trace to the outputs of a compile by clang: one of the host
// pass and one of each device pass. Such a compile stays unsplit, because clang names the files
// after the output of each pass.
func timeTraces(a *graph.Action) {
	if !slices.Contains(a.Argv, toolchain.TimeTrace) {
		return
	}
	stem := strings.TrimSuffix(a.Outputs[0], path.Ext(a.Outputs[0]))
	a.Outputs, a.InPlace = append(a.Outputs, stem+".json"), true
	for _, arch := range a.Archs {
		a.Outputs = append(a.Outputs, stem+"-"+toolchain.FileName(arch)+".json")
	}
}

func (c *hipCompiler) learn(whole *graph.Action) (splitter, error) {
	b, t, s := c.b, c.t, c.s
	if slices.Contains(whole.Argv, toolchain.TimeTrace) {
		return nil, optOut(toolchain.TimeTrace)
	}
	passes, err := b.learnHIP(t, whole, whole.Argv, whole.Outputs[0], t.codesOf(s).gfx)
	b.noteDriver(t, s, passes, err)
	if err == nil && s.Mode == "whole" {
		err = joinable(slices.Concat(s.Flags.HIP, s.Flags.Host))
	}
	return func(u toolchain.Unit) map[string]string {
		return passes.Split(clangUnit(t, s, u, s.Flags.HIP), t.codesOf(s).gfx)
	}, err
}

// clangUnit sets the source ID of a compile by clang, and whether its output records line numbers.
func clangUnit(t *target, s manifest.Source, u toolchain.Unit, flags ...[]string) toolchain.Unit {
	u.ID, u.Lines = clang.ID(t.label, s.Path, s.Partition), t.debugs() || host.RecordsLines(slices.Concat(append(flags, s.Flags.Host)...))
	return u
}

// learnHIP returns the passes of the compile argv from its dry run.
func (b *builder) learnHIP(t *target, whole *graph.Action, argv []string, output string, codes []gencode.Code) (*hip.Passes, error) {
	if why := b.optedOut(t); why != "" {
		return nil, optOut(why)
	}
	q := toolchain.Question{Tool: "hip", Args: clang.Query(argv, b.project.Root, whole.Inputs[0], output)}
	whole.Work.Driver.DryRunKey = q.Key()
	passes, err := learn(&b.answers, q, func(text string) (*hip.Passes, error) {
		p, err := hip.LearnCompile(text, append(argv[:1:1], q.Args...), codes)
		if err == nil {
			p.InRoot(b.project.Root)
		}
		return p, err
	})
	if err != nil {
		return nil, err
	}
	if q, ok := passes.AskWrapper(codes); ok {
		passes.Final, err = b.learnWrapper(q, codes)
	}
	return passes, err
}

func (c *hipCompiler) inOnePiece(whole *graph.Action, why error) {
	if r := (driverError{}); errors.As(why, &r) {
		c.b.hipRefused(c.t, r)
		return
	}
	whole.Work.Driver.Ships, whole.Work.Driver.Fallback = names(c.t.codesOf(c.s).gfx), !errors.As(why, new(optOut))
	c.b.clangInOnePiece(c.t, c.s, whole, wholeCommand{language: "hip", by: "hipcc", why: why, flags: c.s.Flags.HIP,
		choose: []string{"device-lib", "rocm-path", "builtin-bitcode"}, fix: "Remove it and set HIP_DEVICE_LIB_PATH or ROCM_PATH instead.",
		libs: c.b.facts.HIP.DeviceLibs, codes: c.t.codesOf(c.s).gfx})
}

// wholeCommand describes a compile by hipcc or clang that stays unsplit.
type wholeCommand struct {
	language, by string
	why          error
	flags        []string
	choose       []string // substrings of the options that select device libraries
	fix          string   // how to fix such a flag
	libs         []string // all device libraries that it finds by default
	codes        []gencode.Code
}

// clangInOnePiece plans an unsplit compile. The device libraries that it reads are unknown, so all
// of them are inputs. Flags that select other libraries are rejected, because kbuild cannot resolve
// them.
func (b *builder) clangInOnePiece(t *target, s manifest.Source, whole *graph.Action, c wholeCommand) {
	for _, f := range c.flags {
		if slices.ContainsFunc(c.choose, func(sign string) bool { return strings.Contains(f, sign) }) {
			b.errorf(t.attr("flags"), c.fix, "%s is compiled by %s as one command (%v), and kbuild cannot tell which device libraries %s means", s.Path, c.by, c.why, f)
		}
	}
	clang.NewSplit(clangUnit(t, s, b.unit(t, whole, whole.Outputs[0])), c.language, clang.CommandOf(whole)).InOnePiece(c.libs, c.codes)
}

// hipRefused reports an error of hipcc's dry run, in terms of the manifest where the error is
// known.
func (ck *checks) hipRefused(t *target, r driverError) {
	k, looked := ck.facts.HIP, hip.LibFolders(t.Flags.HIP)
	if looked == nil {
		looked = k.Looked
	}
	old, isOld := hip.OldLibs(r.printed, k.Major)
	switch {
	case isOld:
		ck.errorf(t.attr("gencode"), old, "%s ships %s, and clang takes none of the device libraries that it finds", t.label, spell(t.codes.gfx))
	case strings.Contains(r.printed, "cannot find ROCm device library for"):
		ck.errorf(t.attr("gencode"), "Drop the architecture, or use a ROCm whose device libraries know it.", "%s ships %s: %s", t.label, spell(t.codes.gfx), r.printed)
	case strings.Contains(r.printed, "cannot find ROCm device library"):
		ck.errorf(t.attr("gencode"), "Looked in "+strings.Join(looked, ", ")+". Install the device libraries (on Debian and Ubuntu: apt install "+hip.LibsPackage(k.Major)+"), or set HIP_DEVICE_LIB_PATH or ROCM_PATH.",
			"%s ships %s, and the ROCm device libraries were not found", t.label, spell(t.codes.gfx))
	case strings.Contains(r.printed, "invalid target ID"), strings.Contains(r.printed, "unsupported HIP gpu architecture"):
		ck.errorf(t.attr("gencode"), "Drop it, or use a newer ROCm.", "clang %s does not know an architecture of %s: %s", k.Clang.Version, spell(t.codes.gfx), r.printed)
	default:
		ck.errorf(t.Pos, "It was asked how it compiles the HIP sources of "+t.label+".", "%v", r)
	}
}

// checkHIPLibs reports device libraries that clang cannot read, unless t's flags select others.
func (ck *checks) checkHIPLibs(t *target) {
	if k := ck.facts.HIP; k.CompileFault != "" && !ck.hipPrinted && hip.LibFolders(t.Flags.HIP) == nil {
		ck.errorf(t.Pos, k.CompileFault, "%s cannot compile device code here", k.Driver.Path)
		ck.hipPrinted = true
	}
}

// hipEnv returns the environment of the HIP compiler's commands.
func (g *given) hipEnv() []string { return append([]string{toolchain.Anywhere}, g.facts.HIP.Env...) }

func (ck *checks) hipOptions(t *target, s manifest.Source, inc []string) toolchain.Options {
	o := commonOptions(t, s, inc)
	o.Opt, o.Flags = ck.hipOpt(t, s), s.Flags.HIP
	if same := t.PrecDiv != nil && t.PrecSqrt != nil && *t.PrecDiv == *t.PrecSqrt; !same && (t.PrecDiv != nil || t.PrecSqrt != nil) {
		ck.errorf(t.attr(map[bool]string{true: "prec_div", false: "prec_sqrt"}[t.PrecDiv != nil]), "Set both to the same, or neither.", "%s: for AMD code prec_div and prec_sqrt are one option", t.label)
	}
	if t.MaxRegisters > 0 {
		ck.errorf(t.attr("max_registers"), "Use __launch_bounds__ in the source.", "%s: max_registers has no meaning for AMD code", t.label)
	}
	return o
}

// hipOpt returns the optimisation level, "3" by default because code objects matter more than host
// code. hipcc defaults to -O3 itself, with options of its own.
func (g *given) hipOpt(t *target, s manifest.Source) string {
	switch {
	case s.Opt != "":
		return s.Opt
	case t.DeviceDebug:
		return "0"
	case g.facts.HIP.isHipcc():
		return ""
	}
	return "3"
}

// hipHostCompile returns the compile of a host source of a HIP target by the HIP compiler's clang,
// with HIP's headers.
func (ck *checks) hipHostCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	if _, ok := ck.hip(s.Pos); !ok {
		return nil
	}
	language := languageFlag(s)
	if s.Language == "c" {
		language = "c" // clang++ compiles every source as C++ by default
	}
	ck.checkDepends(t, s.Flags.Host)
	if t.HostLTO != "" {
		ck.errorf(t.attr("host_lto"), "Remove it, or put the host sources into a library of their own without AMD code.", "%s ships AMD code, whose link has no host_lto", t.label)
	}
	k := ck.facts.HIP
	o := host.Options{Std: s.Std, Opt: optLevel(t, s), Includes: inc, System: k.Includes, Debug: t.Debug, PIC: t.pic, Flags: s.Flags.Host,
		Defines: append([]string{"__HIP_PLATFORM_AMD__=1", "__HIP_PLATFORM_HCC__=1"}, defines(s.Defines)...)}
	a := hostAction(s, k.Clang.Path, "hip", out, language, o)
	a.Env = ck.hipEnv()
	ck.besideHost(t, a, "clang", s)
	return a
}
