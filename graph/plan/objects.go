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
	inc, headers := b.includes(t)
	all := inc
	for _, s := range t.Sources {
		inc := searched(s, all)
		o := object{path: b.objectPath(t, s), source: s, device: isDevice(s)}
		if s.Language == "hip" && !t.isHIP() {
			b.errorf(s.Pos, `Give it code, such as code = ["gfx90a"], or ["sm_80"] for NVIDIA's GPUs.`, "%s is HIP, and %s ships none", s.Path, t.label)
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

// includes returns the include folders of t's sources: its own first, then those that its
// dependencies export. headers are the generated files that must exist before t compiles.
func (w *walker) includes(t *target) (dirs, headers []string) {
	dirs = slices.Concat(t.Includes, t.PrivateIncludes)
	for _, d := range w.exporters(t) {
		dirs, headers = append(dirs, d.include...), append(headers, d.headers...)
	}
	slices.Sort(headers)
	return appendNew(nil, dirs...), slices.Compact(headers)
}

func (ck *checks) hostCompile(t *target, s manifest.Source, out string, inc []string) *graph.Action {
	cc, tool := ck.facts.CXX, "cxx"
	if s.Language != "c++" {
		cc, tool = ck.facts.CC, "cc"
	}
	if cc.Path == "" {
		ck.errorf(s.Pos, cc.Error, "no compiler for the %s sources of %s", s.Language, t.label)
		return nil
	}
	ck.checkDepends(t, s.Flags.Host)
	o := host.Options{Std: s.Std, Opt: optLevel(t, s), Includes: inc, Defines: defines(s.Defines),
		Debug: t.Debug, PIC: t.pic, LTO: ck.ltoCompile(t, s, cc), Flags: s.Flags.Host}
	if ck.facts.CUDA != nil {
		o.System = ck.facts.CUDA.Includes
	}
	a := hostAction(s, cc.Path, tool, out, languageFlag(s), o)
	a.Env = []string{toolchain.Anywhere}
	ck.besideHost(t, a, cc.Family, s)
	return a
}

// hostAction returns the compile of a source without device code. The assembler alone writes no
// dependency file.
func hostAction(s manifest.Source, cc, tool, out, language string, o host.Options) *graph.Action {
	depfile := out + ".d"
	if language == host.Assembler {
		depfile = ""
	}
	return &graph.Action{
		Kind: graph.HostCompile, Name: s.Path,
		Argv:   host.Compile(cc, s.Path, out, depfile, language, o),
		Inputs: []string{s.Path}, Outputs: []string{out}, Depfile: depfile,
		SearchDirs: o.Includes, Tools: []string{tool}, Memory: s.Memory,
	}
}

// compilerOf returns the compiler of a source of t with device code.
func (b *builder) compilerOf(t *target, s manifest.Source) deviceCompiler {
	switch {
	case s.Language == "hip":
		return &hipCompiler{b, t, s}
	case b.clang() != nil:
		return &clangCompiler{b, t, s}
	}
	return &nvccCompiler{b, t, s}
}

// compileDevice plans the compile of one source with device code, split into passes if possible. ok
// is false if the compiler reported an error and has no command.
func (b *builder) compileDevice(t *target, s manifest.Source, o *object, inc, headers []string) (ok bool) {
	c := b.compilerOf(t, s)
	whole := c.command(o.path, inc)
	if whole == nil {
		return false
	}
	whole.OrderOnly, whole.Work.Driver = headers, &graph.Driver{}
	split, err := c.learn(whole)
	if err != nil {
		whole.Work.Driver.UnsplitReason = err.Error()
		c.inOnePiece(whole, err)
		return true
	}
	o.bitcode = split(b.unit(t, whole, o.path))
	return true
}
