package plan

import (
	"errors"
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// clangCompiler plans the compile of one CUDA source by clang.
type clangCompiler compile

func (c *clangCompiler) command(out string, inc []string) *graph.Action {
	b, t, s, k := c.b, c.t, c.s, c.b.clang()
	if !b.checkClang(t, s) {
		return nil
	}
	codes := c.codes()
	argv := clangcuda.Driver{Path: k.Driver.Path, CUDAPath: k.CUDAPath}.Compile(
		toolchain.Compile{Source: s.Path, Output: out, Depfile: out + ".d", Mode: s.Mode, Codes: codes}, clang.ID(t.label, s.Path, s.Partition), clangOptions(t, s, inc))
	a := &graph.Action{Kind: graph.Compile, Name: s.Path, Archs: names(codes), Mode: s.Mode, Argv: argv, Env: []string{toolchain.Anywhere},
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: out + ".d", SearchDirs: inc, Tools: []string{"clang"}, Memory: s.Memory}
	timeTraces(a)
	return a
}

// codes returns the codes in the object. For relocatable code clang generates neither PTX nor
// LTO-IR.
func (c *clangCompiler) codes() []gencode.Code {
	if relocatable(c.s) {
		return c.t.codesOf(c.s).sass
	}
	return c.t.codesOf(c.s).compileCodes(c.s.Mode)
}

func (c *clangCompiler) learn(whole *graph.Action) (splitter, error) {
	b, t, s := c.b, c.t, c.s
	if slices.Contains(whole.Argv, toolchain.TimeTrace) {
		return nil, optOut(toolchain.TimeTrace)
	}
	if why := b.optedOut(t); why != "" {
		return nil, optOut(why)
	}
	codes := c.codes()
	q := toolchain.Question{Tool: "clang", Args: clang.Query(whole.Argv, "", whole.Inputs[0], whole.Outputs[0])}
	whole.Work.Driver.DryRunKey = q.Key()
	passes, err := learn(&b.answers, q, func(text string) (*clangcuda.Passes, error) {
		return clangcuda.LearnCompile(text, append(whole.Argv[:1:1], q.Args...), codes)
	})
	if err == nil {
		err = joinable(slices.Concat(s.Flags.Clang, s.Flags.Host))
	}
	return func(u toolchain.Unit) map[string]string {
		return passes.Split(clangUnit(t, s, u, s.Flags.Clang, s.Flags.PTXAS), codes)
	}, err
}

func (c *clangCompiler) inOnePiece(whole *graph.Action, why error) {
	b, t := c.b, c.t
	if r := (driverError{}); errors.As(why, &r) {
		b.errorf(t.Pos, "It was asked how it compiles the CUDA sources of "+t.label+".", "%v", r)
		return
	}
	codes := t.codesOf(c.s)
	whole.Work.Driver.Ships, whole.Work.Driver.Fallback = names(c.codes()), !errors.As(why, new(optOut))
	b.clangInOnePiece(t, c.s, whole, wholeCommand{language: "cuda", by: "clang", why: why, flags: c.s.Flags.Clang,
		choose: []string{"builtin-bitcode", "libdevice"}, fix: "Remove it.", libs: b.clang().Libs, codes: codes.sass})
}

// clangOptions returns the attributes of t and its source s as options for clang. The default is
// -O2 for host and device code, where clang's own is -O0 and nvcc's device code has more. Fast math
// flushes denormals, as in nvcc.
func clangOptions(t *target, s manifest.Source, inc []string) toolchain.Options {
	o := commonOptions(t, s, inc)
	o.PrecDiv = nil // see checkClangFloats
	switch {
	case o.Opt != "":
	case t.DeviceDebug:
		o.Opt = "0"
	default:
		o.Opt = "2"
	}
	if t.FastMath && t.FTZ == nil {
		o.FTZ = &t.FastMath
	}
	o.Flags = append(slices.Clone(s.Flags.Clang), clangcuda.PTXASFlags(s.Flags.PTXAS)...)
	if t.MaxRegisters > 0 {
		o.Flags = append(o.Flags, clangcuda.MaxRegisters(t.MaxRegisters)...)
	}
	return o
}
