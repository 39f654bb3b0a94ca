package plan

import (
	"errors"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/compiler/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Where the toolchain block names a clang, it compiles CUDA in place of nvcc, and is taken apart as hipcc is (hip.go):
//
//	a.cu -> preprocess [sm_80] -> device-code [sm_80] -> ptxas [sm_80] --\
//	a.cu -> preprocess [sm_90] -> device-code [sm_90] -> ptxas [sm_90] ---> fatbinary --\
//	a.cu -> preprocess [host] ---> host-part -------------------------------------------> join -> a.cu.o
//
// Only final device code is made this way (mode whole). clang's relocatable code is a fatbin for nvlink that ends in a link by
// nvcc, and its LTO is a link by clang-linker-wrapper; both are refused.

// clang is the compiler of CUDA in place of nvcc, nil if nvcc is it.
func (b *builder) clang() *ClangCUDA {
	if b.facts.CUDA == nil {
		return nil
	}
	return b.facts.CUDA.Clang
}

// compileClang plans the compile of one CUDA source by clang.
func (b *builder) compileClang(t *target, s manifest.Source, o *object, inc, headers []string) {
	if !b.checkClang(t, s) {
		return
	}
	k := b.clang()
	codes := t.codes.compileCodes(s.Mode)
	c := compiler.Compile{Source: s.Path, Output: o.path, Depfile: o.path + ".d", Mode: s.Mode, Codes: codes}
	argv := clangcuda.Driver{Path: k.Driver.Path, CUDAPath: k.CUDAPath}.Compile(c, b.clangOptions(t, s, inc))
	p := &clangSplit{b: b, t: t, source: s, lines: recordsClangLines(t, s.Flags.Clang, s.Flags.PTXAS, s.Flags.Host), dir: b.partsDir(o.path),
		whole: &graph.Action{Kind: graph.Compile, Name: s.Path, Archs: names(codes), Mode: s.Mode, Argv: argv, Env: []string{anywhere},
			Inputs: []string{s.Path}, Outputs: []string{o.path}, OrderOnly: headers, Depfile: c.Depfile, SearchDirs: inc,
			Tools: []string{"clang"}, Memory: s.Memory, Work: graph.Work{Driver: &graph.Driver{}}}}
	driver := clang.PassesOf(argvForPasses(argv))
	p.Unit = clang.Unit{Passes: driver, Language: "cuda", Source: s.Path, ID: hipID(t.label, s)}
	passes, err := b.learnClang(t, p.whole, codes)
	if err == nil {
		err = joinable(slices.Concat(s.Flags.Clang, s.Flags.Host))
	}
	if err != nil {
		p.wholeClang(err)
		return
	}
	p.Passes = passes.Passes
	p.splitCUDA(passes, codes)
}

// argvForPasses is a command without what it says of its own files.
func argvForPasses(argv []string) []string {
	question := clang.Ask(argv, "", argv[slices.Index(argv, "-x")+2], askedOutput(argv))
	return append(argv[:1:1], question...)
}

// learnClang asks for the steps of a compile.
func (b *builder) learnClang(t *target, whole *graph.Action, codes []gencode.Code) (*clangcuda.Passes, error) {
	if why := b.wished(t); why != "" {
		return nil, errors.New(why)
	}
	q := Question{"clang", clang.Ask(whole.Argv, "", whole.Inputs[0], whole.Outputs[0])}
	whole.Work.Driver.DryRunKey = q.Key()
	return learn(b, &b.clangs, q, func(text string) (*clangcuda.Passes, error) {
		return clangcuda.LearnCompile(text, append(whole.Argv[:1:1], q.Args...), codes)
	})
}

// splitCUDA plans the passes of a source.
func (p *clangSplit) splitCUDA(passes *clangcuda.Passes, codes []gencode.Code) {
	file := func(c gencode.Code) string {
		if c.Kind == gencode.SASS {
			return p.dir + "/" + c.String() + ".cubin"
		}
		return p.dir + "/" + c.String() + ".ptx"
	}
	for _, c := range codes {
		if c.Kind == gencode.SASS {
			ptx := file(c.As(gencode.PTX))
			p.device(c, ptx)
			a := p.action(graph.PTXAS, passes.Assemble(c, ptx, file(c)), file(c))
			a.Archs, a.Inputs = []string{c.String()}, []string{ptx}
			a.Work.Step.UnkeyedPaths, a.Work.Step.EmptyCwd = p.whole.Inputs[:1], true
			askFigures(a)
			p.b.emit(p.t, a)
		}
	}
	code := p.dir + "/code" + clang.CUDACode
	argv, inputs := passes.Pack(file, code)
	a := p.action(graph.Fatbinary, argv, code)
	a.Archs, a.Inputs, a.Transient = p.whole.Archs, inputs, true
	p.b.emit(p.t, a)
	p.join(code)
}

// wholeClang plans a compile as one command of clang. Its dependency file has the headers of the host's pass alone, so the texts of
// all architectures are in its key. Which device libraries it takes is not known then; all of the toolkit's are inputs.
func (p *clangSplit) wholeClang(why error) {
	b := p.b
	var r refused
	if errors.As(why, &r) {
		b.errorf(p.t.Pos, "It was asked how it compiles the CUDA sources of "+p.t.label+".", "%v", r)
		return
	}
	for _, f := range p.source.Flags.Clang {
		if strings.Contains(f, "builtin-bitcode") || strings.Contains(f, "libdevice") {
			b.errorf(p.t.attr("flags"), "Remove it.",
				"%s is compiled by clang as one command (%v), and kbuild cannot tell which device libraries %s means", p.source.Path, why, f)
		}
	}
	p.whole.Work.Driver.Ships = append(names(p.t.codes.sass), names(p.t.codes.ptx)...)
	p.emitWhole(why, b.clang().Libs, p.t.codes.sass)
}

// clangOptions are the attributes of t in clang's words. -O2 is for host and device code, as nvcc's default is for the first and
// more for the second; clang's own is -O0. Fast math flushes denormals, as nvcc's does.
func (b *builder) clangOptions(t *target, s manifest.Source, inc []string) clang.Options {
	o := clang.Options{
		Std: t.Std, Opt: t.Opt, Includes: inc, Defines: defines(s.Defines), FastMath: t.FastMath, FTZ: t.FTZ, FMAD: t.FMAD,
		Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, PIC: t.pic, Host: s.Flags.Host,
	}
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
