package plan

import (
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
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
		if o.device {
			if b.compileDevice(t, s, &o, inc, headers) {
				t.objects = append(t.objects, o)
			}
			continue
		}
		var a *graph.Action
		if t.isHIP() {
			a = b.hipHostCompile(t, s, o.path, inc)
		} else {
			a = b.hostCompile(t, s, o.path, inc)
		}
		if a == nil {
			continue
		}
		a.OrderOnly = headers
		b.emit(t, a)
		t.objects = append(t.objects, o)
	}
}

// includes are the folders t's sources search, own first, then those its dependencies export; and
// the generated files that must exist before anything of t compiles.
func (b *walker) includes(t *target) (dirs, headers []string) {
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
func (b *given) objectPath(t *target, s manifest.Source) string {
	return b.out("obj", fileName(t), b.inTree(s.Path)+".o")
}

// inTree turns a source path into one that stays inside a folder of the build tree.
func (b *given) inTree(p string) string {
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

// languageFlag is the language when the ending of the source does not say it.
func languageFlag(s manifest.Source) string {
	byEnding := map[string]string{".cu": "cuda", ".hip": "hip", ".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".C": "c++"}
	if byEnding[path.Ext(s.Path)] == s.Language {
		return ""
	}
	return s.Language
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

func (b *checks) hostCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	cc, std, tool := b.facts.CXX, t.Std, "cxx"
	if s.Language == "c" {
		cc, std, tool = b.facts.CC, t.CStd, "cc"
	}
	if cc.Path == "" {
		b.errorf(s.Pos, cc.Error, "no compiler for the %s sources of %s", s.Language, t.label)
		return nil
	}
	b.checkDepends(t, s.Flags.Host)
	o := host.Options{Std: std, Opt: optLevel(t), Includes: inc, Defines: defines(s.Defines),
		Debug: t.Debug, PIC: t.pic, LTO: b.ltoCompile(t, s, cc), Flags: s.Flags.Host}
	if b.facts.CUDA != nil {
		o.System = b.facts.CUDA.Includes
	}
	a := &graph.Action{
		Kind: graph.HostCompile, Name: s.Path,
		Argv:   host.Compile(cc.Path, s.Path, out, out+".d", languageFlag(s), o),
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: out + ".d",
		SearchDirs: inc, Tools: []string{tool}, Memory: s.Memory, Env: []string{compiler.Anywhere},
	}
	b.besideHost(t, a, cc.Family, s)
	return a
}

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
func (b *problems) checkDepends(t *target, flags ...[]string) {
	for _, f := range slices.Concat(flags...) {
		if strings.Contains(f, "-MMD") || strings.Contains(f, "-Wp,-M") || f == "-M" || f == "-MM" {
			b.errorf(t.attr("flags"), "Remove it: kbuild asks for all dependencies itself.",
				"%s has the flag %s, with which a compiler does not tell all that it reads", t.label, f)
		}
	}
}
