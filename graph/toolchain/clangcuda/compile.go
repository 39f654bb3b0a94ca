package clangcuda

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Toolchain is a clang that compiles CUDA with a toolkit.
type Toolchain struct {
	cuda.Host
	NVCC toolchain.Toolchain // links prebuilt code that nvcc compiled
}

func (k *Toolchain) driver() Driver {
	return Driver{Path: k.Clang.Driver.Path, CUDAPath: k.Clang.CUDAPath}
}

// major returns the major version of the compiler, or 0 if it is not a number.
func (k *Toolchain) major() int {
	first, _, _ := strings.Cut(k.Clang.Driver.Version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// Info implements toolchain.Toolchain.
func (k *Toolchain) Info() toolchain.Info {
	i := k.Host.Info()
	of := "CUDA " + k.Version + ", clang " + k.Clang.Driver.Version
	i.Drivers = append([]toolchain.Driver{{Tool: k.Clang.Driver, Name: "clang", Program: "clang", Of: of}}, i.Drivers...)
	i.NoModules = true
	return i
}

// Reads implements toolchain.Toolchain.
func (k *Toolchain) Reads(m toolchain.Member) (lto, rdc bool) {
	if m.WrapperReads() && k.major() >= FirstMajor {
		return m.Holds(gencode.Bitcode), true
	}
	return k.NVCC.Reads(m)
}

const useNVCC = `remove compiler = "clang..." from toolchain "cuda" to compile with nvcc`

// Module implements toolchain.Toolchain: clang makes none.
func (k *Toolchain) Module(r toolchain.ModuleRequest) (m toolchain.Module) {
	if k.Ready(r.Build, &m.Plan, r.Target.Pos) {
		m.Errorf(r.Target.Pos, "Build modules with nvcc: "+useNVCC+".", "%s: kbuild makes no modules with clang %s", r.Target.Label, k.Clang.Driver.Version)
	}
	return m
}

// Check implements toolchain.Toolchain.
func (k *Toolchain) Check(r toolchain.CheckRequest) toolchain.Checked { return k.NVCC.Check(r) }

// Compile implements toolchain.Toolchain.
func (k *Toolchain) Compile(r toolchain.CompileRequest) (c toolchain.Compiled) {
	t, s, b := r.Target, r.Source, r.Build
	if s.Language != "cuda" {
		return k.NVCC.Compile(r)
	}
	if !k.check(&c.Plan, t, s) {
		return c
	}
	// For relocatable code clang generates neither PTX nor LTO-IR.
	codes := t.CodesOf(s).Compiled(s.Mode)
	if toolchain.IsRelocatable(s) {
		codes = t.CodesOf(s).SASS
	}
	o := options(t, s, r.Searched(s))
	whole := r.Command(codes, k.driver().Compile(r.Compile(codes), clang.ID(t.Label, s.Path, s.Partition), o), []string{toolchain.Anywhere}, "clang")
	c.OK = true
	u := b.NewUnit(&c.Plan, whole, r.Output)

	passes, err := (*Passes)(nil), clang.TimeTraces(whole)
	if err == nil {
		err = b.OptedOut(t)
	}
	if err == nil {
		q := toolchain.Question{Tool: "clang", By: "clang -###", Args: clang.Query(whole.Argv, "", s.Path, r.Output)}
		whole.Work.Driver.DryRunKey = q.Key()
		passes, err = toolchain.Learn(&b.Answers, q, func(text string) (*Passes, error) {
			return LearnCompile(text, append(whole.Argv[:1:1], q.Args...), codes)
		})
	}
	if err == nil {
		err = host.Joinable(slices.Concat(s.Flags.Clang, s.Flags.Host))
	}
	if err == nil {
		c.Code = passes.Split(clang.Unit(u, t, s, s.Flags.Clang, s.Flags.PTXAS), codes)
		return c
	}
	if e := (toolchain.DriverError{}); errors.As(err, &e) {
		c.Errorf(t.Pos, "It was asked how it compiles the CUDA sources of "+t.Label+".", "%v", e)
		return c
	}
	clang.InOnePiece(clang.Unit(u, t, s, s.Flags.Clang), clang.Whole{Target: t, Language: "cuda", By: "clang", Why: err, Flags: s.Flags.Clang,
		Choose: []string{"builtin-bitcode", "libdevice"}, Fix: "Remove it.", Libs: k.Clang.Libs, Ships: codes, Codes: t.CodesOf(s).SASS})
	return c
}

// levels defaults to -O2 for host and device code, where clang's own is -O0 and nvcc's device code
// has more.
var levels = toolchain.Levels{Default: "2", Debug: "2", DeviceDebug: "0"}

// options returns the attributes of t and its source s as options for clang. Fast math flushes
// denormals, as in nvcc.
func options(t *toolchain.Target, s manifest.Source, inc []string) toolchain.Options {
	o := toolchain.CommonOptions(t, s, inc)
	o.PrecDiv = nil // see check
	o.Opt = levels.Of(t, s)
	if t.FastMath && t.FTZ == nil {
		o.FTZ = &t.FastMath
	}
	o.Flags = append(slices.Clone(s.Flags.Clang), PTXASFlags(s.Flags.PTXAS)...)
	if t.MaxRegisters > 0 {
		o.Flags = append(o.Flags, MaxRegisters(t.MaxRegisters)...)
	}
	return o
}

// check reports whether clang can compile a source of t with the manifest's settings.
func (k *Toolchain) check(p *toolchain.Plan, t *toolchain.Target, s manifest.Source) bool {
	codes := t.CodesOf(s)
	if toolchain.IsRelocatable(s) && k.major() < FirstMajor {
		p.Errorf(t.SourceAttr(s, "mode"), fmt.Sprintf(`Set mode = "whole", or use clang %d or newer, or `, FirstMajor)+useNVCC+".",
			"%s: clang %s compiles CUDA in mode whole, not in mode %s", t.Label, k.Clang.Driver.Version, s.Mode)
	}
	if len(codes.LTO) > 0 {
		p.Errorf(t.Attr("gencode"), "Drop it, or "+useNVCC+".", "%s ships %s: clang makes no LTO-IR", t.Label, toolchain.Spell(codes.LTO))
	}
	for _, c := range codes.PTX {
		if sass := c.As(gencode.SASS); !slices.Contains(codes.SASS, sass) {
			p.Errorf(t.Attr("gencode"), "Add "+sass.String()+".",
				"%s ships %s without %s: clang puts PTX into an object only beside machine code", t.Label, c, sass)
		}
	}
	if len(codes.SASS)+len(codes.PTX)+len(codes.LTO) == 0 {
		p.Errorf(t.Attr("gencode"), `Set code = ["sm_80"], say.`, "%s has CUDA sources and does not say for which GPUs", t.Label)
	}
	for i, on := range []*bool{t.PrecDiv, t.PrecSqrt} {
		if name := []string{"prec_div", "prec_sqrt"}[i]; on != nil {
			p.Errorf(t.Attr(name), "Remove it: fast_math chooses both for clang. Or "+useNVCC+".", "%s: clang has no option for %s", t.Label, name)
		}
	}
	checkFlags(p, t, s)
	p.CheckDepends(t, s.Flags.Clang, s.Flags.Host)
	p.NotBeside(t, s, slices.Concat(s.Flags.Clang, s.Flags.Host))
	known := func(c gencode.Code) bool { return slices.Contains(k.Archs, c) }
	if slices.ContainsFunc(codes.SASS, func(c gencode.Code) bool { return !known(c) }) {
		return false // the planner reported it
	}
	return len(p.List) == 0
}

// checkFlags rejects flags that would be dropped silently: those of nvcc, unless the manifest has
// flags for both compilers.
func checkFlags(p *toolchain.Plan, t *toolchain.Target, s manifest.Source) {
	for _, f := range []struct {
		tool  string
		flags []string
	}{{"nvcc", s.Flags.NVCC}, {"cicc", s.Flags.CICC}} {
		if len(f.flags) > 0 && len(s.Flags.Clang) == 0 {
			p.Errorf(t.Attr("flags"), "Say in flags.clang what clang gets. With flags for both, each compiler gets its own.",
				"%s is compiled by clang, which does not get flags.%s (%s)", t.Label, f.tool, strings.Join(f.flags, " "))
		}
	}
	for _, f := range s.Flags.Clang {
		if f == "--no-offload-new-driver" && toolchain.IsRelocatable(s) {
			p.Errorf(t.FlagPos(s.Flags, f), `Remove it, or set mode = "whole".`, "%s: clang's link ignores relocatable code of the old offload driver (%s)", t.Label, f)
		}
		if strings.HasPrefix(f, "--cuda-path") || strings.HasPrefix(f, "--ptxas-path") {
			p.Errorf(t.Attr("flags"), "Remove it and set CUDA_HOME.",
				"%s: %s would compile with another toolkit than the one that was found", t.Label, f)
		}
	}
}
