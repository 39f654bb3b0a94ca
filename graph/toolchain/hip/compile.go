package hip

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Toolchain is a HIP compiler for AMD's GPUs.
type Toolchain struct {
	*Compiler        // nil if none was found or none is needed
	Missing   string // why there is none

	// Folder with HIP's headers for NVIDIA's GPUs; "" if none was found or none is needed.
	NVIDIAHeaders string
}

// Info implements toolchain.Toolchain.
func (k *Toolchain) Info() (i toolchain.Info) {
	i.Language, i.Code, i.Tool, i.None = Tool, "AMD code", Tool, "no HIP compiler was found"
	i.Emits = []string{"hsaco", "fatbin", "bitcode"}
	i.CXX.Error, i.Defines = k.Missing, []string{"__HIP_PLATFORM_AMD__=1", "__HIP_PLATFORM_HCC__=1"}
	i.Runtime, i.Linker = "hip::amdhip64", "hipcc -fgpu-rdc --hip-link"
	if i.Drivers = []toolchain.Driver{{Name: Tool, Program: "hipcc"}}; k.Compiler == nil {
		i.Missing = i.None + ". " + k.Missing
		return i
	}
	i.Drivers[0].Tool, i.Drivers[0].Of = k.Driver, "HIP, clang "+k.Clang.Version
	i.Drivers[0].Env = slices.Concat(k.Compiler.Env, []string{queryEnv})
	tool := func(t toolchain.Tool) modinfo.Tool {
		return modinfo.Tool{Name: path.Base(t.Path), Version: t.Version, Digest: t.ID}
	}
	i.Version, i.Compiler, i.HostCompiler = k.Clang.Version, tool(k.Driver), tool(k.Clang)
	i.Opt, i.CXX, i.Env, i.Includes = k.levels(), k.Clang, k.Environ(), k.Includes
	i.CXX.Family = "clang"
	return i
}

// Ready reports whether there is a compiler. If there is none, it reports that at pos.
func (k *Toolchain) Ready(b *toolchain.Build, p *toolchain.Plan, pos manifest.Pos) bool {
	if k.Compiler == nil && b.Once(toolchain.NoCompiler) {
		p.Errorf(pos, k.Missing, "%s", k.Info().None)
	}
	return k.Compiler != nil
}

// Reads implements toolchain.Toolchain.
func (k *Toolchain) Reads(m toolchain.Member) (lto, rdc bool) {
	return false, m.Relocatable && !m.NVLinkReads()
}

// Expand implements toolchain.Toolchain.
func (k *Toolchain) Expand(r toolchain.ExpandRequest) (x toolchain.Expanded) {
	x.Codes = []gencode.Code{r.Code}
	// clang's dry run shows whether it can compile to SPIR-V, which is no processor.
	if k.Compiler != nil && r.Code.Name != gencode.SPIRVTarget && len(k.Archs) > 0 && !slices.Contains(k.Archs, r.Code.Name) {
		x.Unknown = fmt.Sprintf("clang %s does not know %s. It knows %s", k.Clang.Version, r.Code, strings.Join(k.Archs, ", "))
	}
	return x
}

// Check implements toolchain.Toolchain: AMD code has no LTO-IR.
func (k *Toolchain) Check(toolchain.CheckRequest) (c toolchain.Checked) { return c }

// Compile implements toolchain.Toolchain.
func (k *Toolchain) Compile(r toolchain.CompileRequest) (c toolchain.Compiled) {
	t, s, b := r.Target, r.Source, r.Build
	if t.Codes.Language() != Tool {
		c.Errorf(s.Pos, `Give it code, such as code = ["gfx90a"], or ["sm_80"] for NVIDIA's GPUs.`, "%s is HIP, and %s ships none", s.Path, t.Label)
		return c
	}
	if !k.Ready(b, &c.Plan, s.Pos) {
		return c
	}
	codes := t.CodesOf(s).Other
	c.CheckDepends(t, s.Flags.HIP, s.Flags.Host)
	c.NotBeside(t, s, slices.Concat(s.Flags.HIP, s.Flags.Host))
	k.checkLibs(b, &c.Plan, t)
	o := k.options(&c.Plan, t, s, r.Searched(s))
	whole := r.Command(codes, k.compileArgv(r.Compile(codes), clang.ID(t.Label, s.Path, s.Partition), o), k.Environ(), Tool)
	c.OK = true
	u := clang.Unit(b.NewUnit(&c.Plan, whole, r.Output), t, s, s.Flags.HIP)

	passes, err := (*Passes)(nil), clang.TimeTraces(whole)
	if err == nil {
		passes, err = k.learn(b, t, whole, whole.Argv, whole.Outputs[0], codes)
		if s.Mode != "whole" {
			c.Driver = k.madeBy(t, s, passes, err)
		} else if err == nil {
			err = host.Joinable(slices.Concat(s.Flags.HIP, s.Flags.Host))
		}
	}
	if err == nil {
		c.Code = passes.Split(u, codes)
		return c
	}
	if e := (toolchain.DriverError{}); errors.As(err, &e) {
		k.refused(&c.Plan, t, e)
		return c
	}
	clang.InOnePiece(u, clang.Whole{Target: t, Language: Tool, By: "hipcc", Why: err, Flags: s.Flags.HIP,
		Choose: []string{"device-lib", "rocm-path", "builtin-bitcode"}, Fix: "Remove it and set HIP_DEVICE_LIB_PATH or ROCM_PATH instead.",
		Libs: k.DeviceLibs, Ships: codes, Codes: codes})
	return c
}

// learn returns the passes of the compile argv from its dry run.
func (k *Toolchain) learn(b *toolchain.Build, t *toolchain.Target, whole *graph.Action, argv []string, output string, codes []gencode.Code) (*Passes, error) {
	if err := b.OptedOut(t); err != nil {
		return nil, err
	}
	q := toolchain.Question{Tool: Tool, By: "hipcc -###", Args: clang.Query(argv, b.Project.Root, whole.Inputs[0], output)}
	whole.Work.Driver.DryRunKey = q.Key()
	passes, err := toolchain.Learn(&b.Answers, q, func(text string) (*Passes, error) {
		p, err := LearnCompile(text, append(argv[:1:1], q.Args...), codes)
		if err == nil {
			// The query has absolute paths; in the project they are relative to its root.
			for i, f := range p.Flags {
				p.Flags[i] = strings.ReplaceAll(f, b.Project.Root+"/", "")
			}
			for _, libs := range p.Libs {
				for i, l := range libs {
					libs[i] = strings.TrimPrefix(l, b.Project.Root+"/")
				}
			}
		}
		return p, err
	})
	if err != nil {
		return nil, err
	}
	if q, ok := passes.AskWrapper(codes); ok {
		passes.Final, err = learnWrapper(b, q, codes)
	}
	return passes, err
}

// learnWrapper returns the commands in a dry run of clang-linker-wrapper.
func learnWrapper(b *toolchain.Build, q toolchain.Question, codes []gencode.Code) (*Link, error) {
	return toolchain.Learn(&b.Answers, q, func(text string) (*Link, error) { return LearnWrapper(text, codes) })
}

// refused reports an error of hipcc's dry run, in terms of the manifest where the error is known.
func (k *Toolchain) refused(p *toolchain.Plan, t *toolchain.Target, e toolchain.DriverError) {
	looked := LibFolders(t.Flags.HIP)
	if looked == nil {
		looked = k.Looked
	}
	old, isOld := OldLibs(e.Printed, k.Major)
	codes := toolchain.Spell(t.Codes.Other)
	switch {
	case isOld:
		p.Errorf(t.Attr("gencode"), old, "%s ships %s, and clang takes none of the device libraries that it finds", t.Label, codes)
	case strings.Contains(e.Printed, "cannot find ROCm device library for"):
		p.Errorf(t.Attr("gencode"), "Drop the architecture, or use a ROCm whose device libraries know it.", "%s ships %s: %s", t.Label, codes, e.Printed)
	case strings.Contains(e.Printed, "cannot find ROCm device library"):
		p.Errorf(t.Attr("gencode"), "Looked in "+strings.Join(looked, ", ")+". Install the device libraries (on Debian and Ubuntu: apt install "+LibsPackage(k.Major)+"), or set HIP_DEVICE_LIB_PATH or ROCM_PATH.",
			"%s ships %s, and the ROCm device libraries were not found", t.Label, codes)
	case strings.Contains(e.Printed, "invalid target ID"), strings.Contains(e.Printed, "unsupported HIP gpu architecture"):
		p.Errorf(t.Attr("gencode"), "Drop it, or use a newer ROCm.", "clang %s does not know an architecture of %s: %s", k.Clang.Version, codes, e.Printed)
	default:
		p.Errorf(t.Pos, "It was asked how it compiles the HIP sources of "+t.Label+".", "%v", e)
	}
}

// checkLibs reports device libraries that clang cannot read, unless t's flags select others.
func (k *Toolchain) checkLibs(b *toolchain.Build, p *toolchain.Plan, t *toolchain.Target) {
	if k.CompileFault != "" && LibFolders(t.Flags.HIP) == nil && b.Once(toolchain.NoCompiler) {
		p.Errorf(t.Pos, k.CompileFault, "%s cannot compile device code here", k.Driver.Path)
	}
}

// options returns the attributes of t and its source s as options for the compiler.
func (k *Toolchain) options(p *toolchain.Plan, t *toolchain.Target, s manifest.Source, inc []string) toolchain.Options {
	o := toolchain.CommonOptions(t, s, inc)
	o.Opt, o.Flags = k.levels().Of(t, s), s.Flags.HIP
	if same := t.PrecDiv != nil && t.PrecSqrt != nil && *t.PrecDiv == *t.PrecSqrt; !same && (t.PrecDiv != nil || t.PrecSqrt != nil) {
		set := map[bool]string{true: "prec_div", false: "prec_sqrt"}[t.PrecDiv != nil]
		p.Errorf(t.Attr(set), "Set both to the same, or neither.", "%s: for AMD code prec_div and prec_sqrt are one option", t.Label)
	}
	if t.MaxRegisters > 0 {
		p.Errorf(t.Attr("max_registers"), "Use __launch_bounds__ in the source.", "%s: max_registers has no meaning for AMD code", t.Label)
	}
	return o
}

// levels defaults to "3" because code objects matter more than host code. hipcc defaults to -O3
// itself, with options of its own.
func (k *Compiler) levels() toolchain.Levels {
	if k.isHipcc() {
		return toolchain.Levels{DeviceDebug: "0"}
	}
	return toolchain.Levels{Default: "3", Debug: "3", DeviceDebug: "0"}
}

// Environ returns the environment of the compiler's commands.
func (k *Compiler) Environ() []string { return append([]string{toolchain.Anywhere}, k.Env...) }

// Links of clang's new offload driver read only objects of the new driver, and links of the old
// driver only old objects (ErrNewDriver). A link silently ignores the device code of the other
// driver and writes a program without it. So kbuild links with the driver that compiled the
// objects, whatever the default is, and rejects a mix.

// madeBy is the driver that compiles a source with relocatable code, and the position of the
// setting that selects it.
type madeBy struct {
	isNew bool
	pos   manifest.Pos
}

// madeBy returns which driver compiles the relocatable code of a source. learned is the result of
// its dry run, which is more reliable than its options.
func (k *Toolchain) madeBy(t *toolchain.Target, s manifest.Source, passes *Passes, learned error) madeBy {
	option, isNew := ChoosesDriver(s.Flags.HIP)
	switch {
	case learned == nil:
		isNew = passes.New
	case errors.Is(learned, ErrNewDriver):
		isNew = true
	case option == "":
		isNew = k.CompilesNew
	}
	if option != "" {
		return madeBy{isNew, t.FlagPos(s.Flags, option)}
	}
	return madeBy{isNew, t.SourceAttr(s, "mode")}
}

// linkDriver reports whether the new driver links inputs: the one that compiled the relocatable
// code of a target, or else of the first prebuilt object.
func (k *Toolchain) linkDriver(inputs []toolchain.LinkInput) (isNew bool) {
	for _, u := range inputs {
		known := false
		for _, o := range u.Objects {
			if by, is := o.Driver.(madeBy); is {
				known, isNew = true, isNew || by.isNew
			}
		}
		if known {
			return isNew
		}
	}
	for _, u := range inputs {
		for _, m := range u.Library.Members {
			if m.Relocatable && m.Language() == Tool {
				return m.NewDriver
			}
		}
	}
	return k.LinksNew
}

// checkDrivers rejects a link of objects of both drivers.
func checkDrivers(p *toolchain.Plan, t *toolchain.Target, inputs []toolchain.LinkInput) bool {
	type source struct {
		path, label string
		pos         manifest.Pos
	}
	var older, newer *source
	for _, u := range inputs {
		for _, o := range u.Objects {
			switch by, is := o.Driver.(madeBy); {
			case is && by.isNew && newer == nil:
				newer = &source{o.Source.Path, u.Label, by.pos}
			case is && !by.isNew && older == nil:
				older = &source{o.Source.Path, u.Label, by.pos}
			}
		}
	}
	if older == nil || newer == nil {
		return true
	}
	p.Bothf(newer.pos, older.pos, older.path+" of "+older.label+" is compiled by the old one",
		"A link takes relocatable code of one driver and ignores that of the other. Choose one for all, or set mode = \"whole\" for one.",
		"%s links %s of %s, which clang's new offload driver compiles, with objects of the old one", t.Label, newer.path, newer.label)
	return false
}

// driverVariables names the environment variables that select a driver, or could.
func driverVariables(env []string) string {
	var names []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if option, _ := ChoosesDriver(strings.Fields(value)); option != "" {
			names = append(names, name+" has "+option)
		}
	}
	if names == nil {
		return "--offload-new-driver in both HIPCC_COMPILE_FLAGS_APPEND and HIPCC_LINK_FLAGS_APPEND, or --no-offload-new-driver"
	}
	return strings.Join(names, ", ")
}
