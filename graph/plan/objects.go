package plan

import (
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// compileAll plans one compile for each source of t.
func (b *builder) compileAll(t *target) {
	inc, headers := b.includes(t)
	for _, s := range t.Sources {
		o := object{path: b.objectPath(t, s), source: s, device: isDevice(s)}
		if s.Language == "hip" && !t.isHIP() {
			b.errorf(s.Pos, `Give it AMD code, such as code = ["gfx90a"]; or set language = "cuda".`, "%s is HIP, and %s ships none", s.Path, t.label)
			continue
		}
		if s.Language == "hip" {
			b.compileHIP(t, s, &o, inc, headers)
			t.objects = append(t.objects, o)
			continue
		}
		if o.device && b.clang() != nil {
			b.compileClang(t, s, &o, inc, headers)
			t.objects = append(t.objects, o)
			continue
		}
		var a *graph.Action
		switch {
		case o.device:
			a = b.deviceCompile(t, s, o.path, inc)
		case t.isHIP():
			a = b.hipHostCompile(t, s, o.path, inc)
		default:
			a = b.hostCompile(t, s, o.path, inc)
		}
		if a == nil {
			continue
		}
		a.OrderOnly = headers
		if o.device {
			b.emitCompile(t, s, a)
		} else {
			b.emit(t, a)
		}
		t.objects = append(t.objects, o)
	}
}

// includes are the folders t's sources search, own first, then those its dependencies export; and
// the generated files that must exist before anything of t compiles.
func (b *builder) includes(t *target) (dirs, headers []string) {
	seen := map[string]bool{}
	add := func(list []string) {
		for _, d := range list {
			if !seen[d] {
				seen[d] = true
				dirs = append(dirs, d)
			}
		}
	}
	add(t.Includes)
	for _, d := range b.exporters(t) {
		add(d.include)
		headers = append(headers, d.headers...)
	}
	sort.Strings(headers)
	return dirs, compact(headers)
}

// objectPath keeps the folder and the ending of the source, so that x.cu, x.cpp and sub/x.cu of one
// target stay apart: obj/library.solver/src/x.cu.o.
func (b *builder) objectPath(t *target, s manifest.Source) string {
	return b.out("obj", fileName(t), b.inTree(s.Path)+".o")
}

// inTree turns a source path into one that stays inside a folder of the build tree.
func (b *builder) inTree(p string) string {
	if rest, ok := strings.CutPrefix(p, b.project.BuildDir+"/"); ok {
		return rest
	}
	if path.IsAbs(p) {
		return "_abs" + p
	}
	return strings.ReplaceAll(p, "../", "_up/")
}

// fileName is the folder of a target's objects: library.solver, module.gemm.f16.64.
func fileName(t *target) string { return string(t.Kind) + "." + instanceName(t) }

// instanceName is the file name stem of a target: gemm.f16.64 for gemm:dtype=f16,tile=64.
func instanceName(t *target) string {
	name := t.Base
	if name == "" {
		name = t.Name
	}
	for _, v := range t.Matrix {
		name += "." + strings.Map(fileRune, v.Value)
	}
	return name
}

func fileRune(r rune) rune {
	if strings.ContainsRune(`/\: ="'*?<>|`, r) {
		return '_'
	}
	return r
}

func (b *builder) deviceCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	cc, ok := b.nvcc(s.Pos)
	if !ok {
		return nil
	}
	codes := t.codes.compileCodes(s.Mode)
	if len(codes) == 0 {
		b.errorf(t.attr("gencode"), "Add the architectures to link for, for example sm_80.",
			"%s is compiled for a device link and ships no machine code (%s)", s.Path, spell(append(t.codes.ptx, t.codes.lto...)))
		return nil
	}
	c := compiler.Compile{Source: s.Path, Output: out, Depfile: out + ".d", Mode: s.Mode, Codes: codes, Language: languageFlag(s)}
	argv := cc.Compile(c, b.deviceOptions(t, s, inc))
	b.checkShell(s.Pos, s.Path, argv)
	b.checkDepends(t, s.Flags.NVCC, b.facts.NVCCFlags, b.hostOptions(s.Flags))
	return &graph.Action{
		Kind: graph.Compile, Name: s.Path, Archs: names(codes), Mode: s.Mode,
		Argv:   argv,
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: out + ".d",
		SearchDirs: inc, Tools: []string{"nvcc"}, Memory: s.Memory,
		CwdInKey: t.Debug || t.DeviceDebug || t.LineInfo || asksForDebug(s.Flags.NVCC) || asksForDebug(b.facts.NVCCFlags) || asksForDebug(b.hostOptions(s.Flags)),
	}
}

// asksForDebug reports a flag whose debug information would name the folder of the build.
func asksForDebug(flags []string) bool {
	for _, f := range flags {
		if f == "-G" || strings.HasPrefix(f, "-g") && !strings.HasPrefix(f, "-gencode") ||
			strings.Contains(f, "lineinfo") || strings.Contains(f, "line-info") || strings.Contains(f, "debug") {
			return true
		}
	}
	return false
}

// languageFlag is the language when the ending of the source does not say it.
func languageFlag(s manifest.Source) string {
	byEnding := map[string]string{".cu": "cuda", ".hip": "hip", ".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".C": "c++"}
	if byEnding[path.Ext(s.Path)] == s.Language {
		return ""
	}
	return s.Language
}

func (b *builder) deviceOptions(t *target, s manifest.Source, inc []string) nvcc.Options {
	return nvcc.Options{
		Std: t.Std, Opt: optLevel(t), Includes: inc, Defines: defines(s.Defines),
		FastMath: t.FastMath, FTZ: t.FTZ, PrecDiv: t.PrecDiv, PrecSqrt: t.PrecSqrt, FMAD: t.FMAD,
		MaxRegisters: t.MaxRegisters, Debug: t.Debug, DeviceDebug: t.DeviceDebug, LineInfo: t.LineInfo, PIC: t.pic,
		NVCC: s.Flags.NVCC, CICC: s.Flags.CICC, PTXAS: s.Flags.PTXAS, Host: s.Flags.Host,
	}
}

// optLevel is -O2 where nothing is said and nothing is debugged: unlike make, kbuild has no user to
// pass CFLAGS, and a host compiler's default of -O0 is never what a GPU program ships.
func optLevel(t *target) string {
	if t.Opt == "" && !t.Debug && !t.DeviceDebug {
		return "2"
	}
	return t.Opt
}

func defines(list []manifest.Define) []string {
	var out []string
	for _, d := range list {
		if d.Value == nil {
			out = append(out, d.Name)
		} else {
			out = append(out, d.Name+"="+*d.Value)
		}
	}
	return out
}

func (b *builder) hostCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	compiler, std, tool := b.facts.CXX, t.Std, "cxx"
	if s.Language == "c" {
		compiler, std, tool = b.facts.CC, t.CStd, "cc"
	}
	if compiler.Path == "" {
		b.errorf(s.Pos, compiler.Error, "no compiler for the %s sources of %s", s.Language, t.label)
		return nil
	}
	b.checkDepends(t, s.Flags.Host)
	o := host.Options{Std: std, Opt: optLevel(t), Includes: inc, Defines: defines(s.Defines),
		Debug: t.Debug, PIC: t.pic, LTO: b.ltoCompile(t, s, compiler), Flags: s.Flags.Host}
	if b.facts.CUDA != nil {
		o.System = b.facts.CUDA.Includes
	}
	a := &graph.Action{
		Kind: graph.HostCompile, Name: s.Path,
		Argv:   host.Compile(compiler.Path, s.Path, out, out+".d", languageFlag(s), o),
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: out + ".d",
		SearchDirs: inc, Tools: []string{tool}, Memory: s.Memory, Env: []string{anywhere},
	}
	b.besideHost(t, a, compiler.Family, s)
	return a
}

// anywhere makes compilers record /proc/self/cwd for the folder that they run in: outputs with debug information
// are the same in every checkout, and a debugger that is started in the project's root finds the sources.
const anywhere = "PWD=/proc/self/cwd"

func compact(sorted []string) []string {
	var out []string
	for i, s := range sorted {
		if i == 0 || s != sorted[i-1] {
			out = append(out, s)
		}
	}
	return out
}

// checkDepends refuses what makes a compiler leave headers out of its dependency file: of -MD and -MMD gcc takes -MMD, wherever they
// stand, and is silent about all headers of the system and of -isystem.
func (b *builder) checkDepends(t *target, flags ...[]string) {
	for _, f := range slices.Concat(flags...) {
		if strings.Contains(f, "-MMD") || strings.Contains(f, "-Wp,-M") || f == "-M" || f == "-MM" {
			b.errorf(t.attr("flags"), "Remove it: kbuild asks for all dependencies itself.",
				"%s has the flag %s, with which a compiler does not tell all that it reads", t.label, f)
		}
	}
}

// checkShell refuses what nvcc would hand to a shell inside double quotes: a '$' is expanded there, and
// what stands in backquotes is run. No quoting gets through (tried with 11.8).
func (b *builder) checkShell(pos manifest.Pos, source string, argv []string) {
	for _, arg := range argv {
		if strings.ContainsAny(arg, "$`") {
			b.errorf(pos, "nvcc passes its options to a shell, which would expand it. Put the value into a header instead, or rename the file.",
				"%s would be compiled with %q, which holds '$' or a backquote", source, arg)
		}
	}
}
