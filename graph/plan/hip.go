package plan

import (
	"errors"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/compiler/hip"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// One hipcc command is taken apart into the passes that it runs, each an action:
//
//	a.hip -> preprocess [gfx906] -> device-code [gfx906] --\
//	a.hip -> preprocess [gfx90a] -> device-code [gfx90a] ---> bundle --\
//	a.hip -> preprocess [host] ---> host-part ------------------------> join -> a.hip.o     (whole)
//
// In the modes rdc and lto the device code is LLVM bitcode, bundle puts it and the host's object into a.hip.o, and the program
// links it (hiplink.go).
//
// The preprocessed texts are there for keys alone: a compile reads the source and its headers itself, as hipcc's does, so that it
// makes the same and says the same. But its key has the canonical text in their place, and a comment compiles nothing. clang
// preprocesses once more than it would, which costs a tenth of a small compile.

// hip is the HIP compiler, or a problem at pos if there is none.
func (b *builder) hip(pos manifest.Pos) (hip.Driver, bool) {
	k := b.facts.HIP
	if k == nil {
		if !b.hipSaid {
			b.errorf(pos, b.facts.HIPError, "no HIP compiler was found")
			b.hipSaid = true
		}
		return hip.Driver{}, false
	}
	return hip.Driver{Path: k.Driver.Path}, true
}

// isHIP reports a target that ships AMD code.
func (t *target) isHIP() bool { return len(t.codes.gfx) > 0 }

// compileHIP plans the compile of one HIP source.
func (b *builder) compileHIP(t *target, s manifest.Source, o *object, inc, headers []string) {
	hip, ok := b.hip(s.Pos)
	if !ok {
		return
	}
	b.checkDepends(t, s.Flags.HIP, s.Flags.Host)
	b.notBeside(t, s, slices.Concat(s.Flags.HIP, s.Flags.Host))
	b.checkHIPLibs(t)
	c := compiler.Compile{Source: s.Path, Output: o.path, Depfile: o.path + ".d", Mode: s.Mode, Codes: t.codes.gfx}
	argv := hip.Compile(c, hipID(t.label, s), b.hipOptions(t, s, inc))
	p := &clangSplit{b: b, t: t, source: s, lines: recordsClangLines(t, s.Flags.HIP, s.Flags.Host), whole: &graph.Action{
		Kind: graph.Compile, Name: s.Path, Archs: names(t.codes.gfx), Mode: s.Mode, Argv: argv, Env: b.hipEnv(),
		Inputs: []string{s.Path}, Outputs: []string{o.path}, OrderOnly: headers, Depfile: c.Depfile, SearchDirs: inc,
		Tools: []string{"hip"}, Memory: s.Memory,
	}}
	p.dir = b.partsDir(o.path)
	passes, asked, err := b.learnHIP(t, argv, s.Path, o.path)
	p.whole.Work.Driver = &graph.Driver{DryRunKey: asked}
	b.checkDriver(t, s, err)
	if err == nil && s.Mode == "whole" {
		err = joinable(slices.Concat(s.Flags.HIP, s.Flags.Host))
	}
	if err != nil {
		p.whole.Work.Driver.Ships = names(t.codes.gfx)
		p.wholeHIP(err)
		return
	}
	p.bundles = passes.Bundle
	p.Unit = clang.Unit{Passes: passes.Passes, Language: "hip", Source: s.Path, ID: hipID(t.label, s)}
	if s.Mode == "whole" {
		p.splitWhole()
	} else {
		o.bitcode = p.splitRelocatable()
	}
}

// learnHIP asks for the steps of the compile argv, and gives the question's key.
func (b *builder) learnHIP(t *target, argv []string, source, output string) (passes *hip.Passes, asked string, err error) {
	if why := b.wished(t); why != "" {
		return nil, "", errors.New(why)
	}
	q := Question{"hip", clang.Ask(argv, b.project.Root, source, output)}
	passes, err = learn(b, &b.hips, q, func(text string) (*hip.Passes, error) {
		p, err := hip.LearnCompile(text, append(argv[:1:1], q.Args...), t.codes.gfx)
		if err == nil {
			p.InRoot(b.project.Root)
		}
		return p, err
	})
	return passes, q.Key(), err
}

// wholeHIP plans a compile as one command of hipcc. Its dependency file has the headers of the host's pass alone, so the texts of all
// architectures are in its key. What enters its output unasked is not known then, so all device libraries are inputs; where flags
// choose others, nobody knows which.
func (p *clangSplit) wholeHIP(why error) {
	b, t, s := p.b, p.t, p.source
	var r refused
	if errors.As(why, &r) {
		b.hipRefused(t, r)
		return
	}
	for _, f := range s.Flags.HIP {
		if strings.Contains(f, "device-lib") || strings.Contains(f, "rocm-path") || strings.Contains(f, "builtin-bitcode") {
			b.errorf(t.attr("flags"), "Remove it and set HIP_DEVICE_LIB_PATH or ROCM_PATH instead.",
				"%s is compiled by hipcc as one command (%v), and kbuild cannot tell which device libraries %s means", s.Path, why, f)
		}
	}
	p.Unit = clang.Unit{Passes: clang.PassesOf(argvForPasses(p.whole.Argv)), Language: "hip", Source: s.Path, ID: hipID(t.label, s)}
	p.emitWhole(why, b.facts.HIP.DeviceLibs, t.codes.gfx)
}

// emitWhole plans the command in one piece, with the texts for codes and all of libs in its key.
func (p *clangSplit) emitWhole(why error, libs []string, codes []gencode.Code) {
	a := p.whole
	a.Work.Driver.UnsplitReason, p.lines = why.Error(), true
	a.Work.Step = &graph.Step{}
	for _, c := range codes {
		a.Work.Step.KeyedByText = append(a.Work.Step.KeyedByText, p.preprocess(&c))
	}
	a.Inputs = slices.Concat(a.Inputs, libs, a.Work.Step.KeyedByText)
	p.b.emit(p.t, a)
}

// hipRefused reports what hipcc does not do, in the manifest's terms where they are known.
func (b *builder) hipRefused(t *target, r refused) {
	k := b.facts.HIP
	switch {
	case strings.Contains(r.said, "cannot find ROCm device library for"):
		b.errorf(t.attr("gencode"), "Drop the architecture, or use a ROCm whose device libraries know it.", "%s ships %s: %s", t.label, spell(t.codes.gfx), r.said)
	case strings.Contains(r.said, "cannot find ROCm device library"):
		b.errorf(t.attr("gencode"), "Looked in "+strings.Join(lookedForLibs(t, k), ", ")+". Install the device libraries (on Debian and Ubuntu: apt install "+k.DeviceLibsPackage()+"), or set HIP_DEVICE_LIB_PATH or ROCM_PATH.",
			"%s ships %s, and the ROCm device libraries were not found", t.label, spell(t.codes.gfx))
	case strings.Contains(r.said, "invalid target ID"), strings.Contains(r.said, "unsupported HIP gpu architecture"):
		b.errorf(t.attr("gencode"), "Drop it, or use a newer ROCm.", "clang %s does not know an architecture of %s: %s", k.Clang.Version, spell(t.codes.gfx), r.said)
	default:
		b.errorf(t.Pos, "It was asked how it compiles the HIP sources of "+t.label+".", "%v", r)
	}
}

// checkHIPLibs reports device libraries that clang cannot read, unless t's flags choose others.
func (b *builder) checkHIPLibs(t *target) {
	if k := b.facts.HIP; k.CompileFault != "" && !b.hipSaid && libsOfFlags(t) == nil {
		b.errorf(t.Pos, k.CompileFault, "%s cannot compile device code here", k.Driver.Path)
		b.hipSaid = true
	}
}

// lookedForLibs are the folders where clang looks for device libraries: those of t's flags, or else its own.
func lookedForLibs(t *target, k *HIP) []string {
	if dirs := libsOfFlags(t); dirs != nil {
		return dirs
	}
	return k.Looked
}

// libsOfFlags are the folders of device libraries that t's flags name.
func libsOfFlags(t *target) []string {
	var dirs []string
	for _, f := range t.Flags.HIP {
		if option, dir, ok := strings.Cut(f, "="); ok && (strings.HasSuffix(option, "device-lib-path") || strings.HasSuffix(option, "rocm-path")) {
			dirs = append(dirs, dir+" ("+option+" of flags.hip)")
		}
	}
	return dirs
}

// recordsClangLines reports options that put positions of the source into an output.
func recordsClangLines(t *target, flags ...[]string) bool {
	if t.Debug || t.DeviceDebug || t.LineInfo {
		return true
	}
	all := slices.Concat(flags...)
	for _, f := range all {
		for _, sign := range lineSigns {
			if strings.HasPrefix(f, sign) && !strings.HasPrefix(f, "-gencode") {
				return true
			}
		}
	}
	return asksForDebug(all)
}

// hipEnv is what commands of the HIP compiler run with.
func (b *builder) hipEnv() []string { return append([]string{anywhere}, b.facts.HIP.Env...) }

func (b *builder) hipOptions(t *target, s manifest.Source, inc []string) clang.Options {
	o := clang.Options{
		Std: t.Std, Opt: b.hipOpt(t), Includes: inc, Defines: defines(s.Defines), FastMath: t.FastMath, FTZ: t.FTZ, FMAD: t.FMAD,
		Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, PIC: t.pic, Flags: s.Flags.HIP, Host: s.Flags.Host,
	}
	switch {
	case t.PrecDiv == nil && t.PrecSqrt == nil:
	case t.PrecDiv != nil && t.PrecSqrt != nil && *t.PrecDiv == *t.PrecSqrt:
		o.Rounded = t.PrecDiv
	default:
		b.errorf(precPos(t), "Set both to the same, or neither.", "%s: for AMD code prec_div and prec_sqrt are one option", t.label)
	}
	if t.MaxRegisters > 0 {
		b.errorf(t.attr("max_registers"), "Use __launch_bounds__ in the source.", "%s: max_registers has no meaning for AMD code", t.label)
	}
	return o
}

// hipOpt is -O3 where nothing is said, for code objects more than for host code: hipcc takes it by itself, with options of its own.
func (b *builder) hipOpt(t *target) string {
	switch {
	case t.Opt != "":
		return t.Opt
	case t.DeviceDebug:
		return "0"
	case b.facts.HIP.isHipcc():
		return ""
	}
	return "3"
}

func precPos(t *target) manifest.Pos {
	if t.PrecDiv != nil {
		return t.attr("prec_div")
	}
	return t.attr("prec_sqrt")
}

// hipID names a source within any program, for -cuid: clang's own is made of the absolute path.
func hipID(label string, s manifest.Source) string {
	return sourceHash(label, s)[:16]
}

// clangSplit is one command of hipcc, or of clang for CUDA, being taken apart.
type clangSplit struct {
	clang.Unit
	b       *builder
	t       *target
	source  manifest.Source
	whole   *graph.Action // the command in one piece
	dir     string        // of the parts
	lines   bool          // outputs record line numbers
	bundles hip.Bundle    // of HIP
}

// action makes the action of a pass.
func (p *clangSplit) action(kind graph.Kind, argv []string, output string) *graph.Action {
	return &graph.Action{Kind: kind, Name: p.whole.Name, Mode: p.whole.Mode, Argv: argv, Env: p.whole.Env, Outputs: []string{output},
		Tools: p.whole.Tools, Intermediate: strings.HasPrefix(output, p.dir+"/"), Memory: p.whole.Memory,
		Work: graph.Work{Driver: passOf(p.whole), Step: &graph.Step{}}}
}

// preprocess plans the text of an architecture, or with code nil of the host, and gives its name.
func (p *clangSplit) preprocess(code *gencode.Code) string {
	text := p.dir + "/" + sideName(code) + ".ii"
	a := p.action(graph.Preprocess, p.Preprocess(code, text, text+".d"), text)
	a.Inputs, a.Depfile = []string{p.source.Path}, text+".d"
	a.SearchDirs, a.OrderOnly, a.Transient = p.whole.SearchDirs, p.whole.OrderOnly, true
	a.Archs = []string{"host"}
	if code != nil {
		a.Archs = []string{code.String()}
	}
	if !p.lines {
		canon := strings.TrimSuffix(text, ".ii") + ".canon.ii"
		a.Work.Step.CanonicalForms = []graph.CanonicalForm{{Raw: text, Canon: canon, Clang: true}}
		a.Outputs = append(a.Outputs, canon)
	}
	p.b.emit(p.t, a)
	return text
}

// sideName is a file name for an architecture: "gfx90a_xnack-"; "host" for none.
func sideName(code *gencode.Code) string {
	if code == nil {
		return "host"
	}
	return strings.Map(fileRune, code.String())
}

// follow makes a compile whose key has a text in place of the source and the headers.
func (p *clangSplit) follow(a *graph.Action, text string) {
	a.Work.Step.UnkeyedPaths, a.Work.Step.KeyedByText = []string{p.source.Path}, []string{text}
	if p.lines {
		a.Inputs = append(a.Inputs, text)
		return
	}
	a.Inputs = append(a.Inputs, strings.TrimSuffix(text, ".ii")+".canon.ii")
	a.Work.Step.DiagnosticInputs = []string{text}
}

// device plans the compile for one architecture.
func (p *clangSplit) device(code gencode.Code, output string) {
	text := p.preprocess(&code)
	a := p.action(graph.DeviceCode, p.Device(code, output), output)
	a.Archs = []string{code.String()}
	p.follow(a, text)
	a.Inputs = append(a.Inputs, p.Libs[code.String()]...)
	p.b.emit(p.t, a)
}

// host plans the compile of the host's code.
func (p *clangSplit) host(placeholder string) string {
	text := p.preprocess(nil)
	output := p.dir + "/host.o"
	staged := ""
	if placeholder != "" {
		staged = graph.StageDir + "/" + placeholderName
	}
	a := p.action(graph.HostPart, p.Host(staged, output), output)
	p.follow(a, text)
	if placeholder != "" {
		a.Work.Step.Staged = []graph.StagedFile{{Name: placeholderName, Text: placeholder}}
	}
	p.b.emit(p.t, a)
	return output
}

// placeholderName is the file that stands for device code while host code is compiled.
const placeholderName = "placeholder" + clang.HIPCode

// bundle plans a bundle of the files of all architectures and of the host.
func (p *clangSplit) bundle(file func(arch string) string, output string) *graph.Action {
	argv, inputs := p.bundles.Pack(file, output)
	a := p.action(graph.Bundle, argv, output)
	a.Inputs, a.Archs = inputs, p.whole.Archs
	p.b.emit(p.t, a)
	return a
}

// splitWhole plans the passes of a source whose device code is final.
func (p *clangSplit) splitWhole() {
	object := func(arch string) string {
		if arch == "" {
			return ""
		}
		return p.dir + "/" + strings.Map(fileRune, arch) + ".co"
	}
	for _, c := range p.t.codes.gfx {
		p.device(c, object(c.String()))
	}
	bundle := p.dir + "/code" + clang.HIPCode
	p.bundle(object, bundle).Transient = true
	p.join(bundle)
}

// join plans the object that the user knows: host code with the device code in the file code.
func (p *clangSplit) join(code string) {
	host := p.host(clang.Placeholder)
	p.b.emit(p.t, &graph.Action{Kind: graph.Join, Name: p.whole.Name, Archs: p.whole.Archs, Mode: p.whole.Mode,
		Inputs: []string{host, code}, Outputs: p.whole.Outputs, Work: graph.Work{Driver: passOf(p.whole)}})
}

// splitRelocatable plans the passes of a source whose device code is linked, and gives its bitcode by architecture.
func (p *clangSplit) splitRelocatable() map[string]string {
	bitcode := map[string]string{}
	for _, c := range p.t.codes.gfx {
		bitcode[c.String()] = p.dir + "/" + sideName(&c) + ".bc"
		p.device(c, bitcode[c.String()])
	}
	host := p.host("")
	p.bundle(func(arch string) string {
		if arch == "" {
			return host
		}
		return bitcode[arch]
	}, p.whole.Outputs[0])
	return bitcode
}

// hipHostCompile plans a plain source of a HIP target: the clang of the HIP compiler, with HIP's headers.
func (b *builder) hipHostCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	if _, ok := b.hip(s.Pos); !ok {
		return nil
	}
	std, language := t.Std, languageFlag(s)
	if s.Language == "c" {
		std, language = t.CStd, "c" // clang++ takes every source for C++
	}
	b.checkDepends(t, s.Flags.Host)
	if t.HostLTO != "" {
		b.errorf(t.attr("host_lto"), "Remove it, or put the host sources into a library of their own without AMD code.", "%s ships AMD code, whose link has no host_lto", t.label)
	}
	k := b.facts.HIP
	o := host.Options{Std: std, Opt: optLevel(t), Includes: inc, System: k.Includes, Debug: t.Debug, PIC: t.pic, Flags: s.Flags.Host,
		Defines: append([]string{"__HIP_PLATFORM_AMD__=1", "__HIP_PLATFORM_HCC__=1"}, defines(s.Defines)...)}
	a := &graph.Action{
		Kind: graph.HostCompile, Name: s.Path,
		Argv:   host.Compile(k.Clang.Path, s.Path, out, out+".d", language, o),
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: out + ".d",
		SearchDirs: inc, Tools: []string{"hip"}, Memory: s.Memory, Env: b.hipEnv(),
	}
	b.besideHost(t, a, "clang", s)
	return a
}
