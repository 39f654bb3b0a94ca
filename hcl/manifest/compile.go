package manifest

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The attributes that libraries, executables and modules share.

// newTarget reads the attributes of every kind of target.
func (r *reader) newTarget(kind Kind) *Target {
	r.reservedWords()
	return &Target{
		Kind: kind, Name: r.b.name, Base: r.b.name, Pos: position(r.b.rng),
		AttrPos: r.attrPos(), Deps: r.deps("deps"), Labels: r.labels(),
	}
}

// compile reads the attributes for compiling and linking sources.
func (r *reader) compile(t *Target) {
	t.Gencode = r.gencode()
	t.Mode = cmp.Or(r.enum("mode"), "whole")
	std := r.standards()
	t.Std, t.DeviceStd = std.of("c++"), std.of("cuda")
	t.Includes, t.PrivateIncludes = r.paths("includes"), r.paths("private_includes")
	t.Libs = r.noPrefix("libs", "-l")
	t.LibDirs = r.paths("lib_dirs")
	t.CudaRT = r.enum("cudart")
	t.Opt = r.enum("opt")
	t.Debug, t.DeviceDebug, t.LineInfo = r.isTrue("debug"), r.isTrue("device_debug"), r.isTrue("lineinfo")
	t.floats(r)
	t.MaxRegisters = r.integer("max_registers")
	t.Flags = *r.flags()
	t.Memory = r.size("memory")
	t.StripUnused, t.LTOFloats = r.isTrue("strip_unused"), r.boolean("lto_floats")
	t.Split = r.boolean("split")
	if r.b.schema.Attribute("host_lto") == nil {
		return
	}
	if t.HostLTO = r.enum("host_lto"); t.HostLTO == "none" {
		t.HostLTO = ""
	}
}

// cleanPath returns a path as a project spells it: slash-separated, relative to its root.
func cleanPath(s string) string { return path.Clean(filepath.ToSlash(s)) }

// paths reads a list of folders or files.
func (r *reader) paths(name string) []string {
	option := map[string]string{"includes": "-I", "private_includes": "-I", "lib_dirs": "-L"}[name]
	var out []string
	for _, p := range r.noPrefix(name, option) {
		out = append(out, inFolder(r.b.dir, cleanPath(p)))
	}
	return out
}

var standardRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:c|gnu)(\+\+)?[0-9][0-9a-z]$`) })

var standards = []string{
	"c++03", "c++11", "c++14", "c++17", "c++20", "c++23", "gnu++11", "gnu++14", "gnu++17", "gnu++20", "gnu++23",
	"c89", "c90", "c99", "c11", "c17", "c23", "gnu99", "gnu11", "gnu17", "gnu23",
}

// standardsOf are the language standards of a target or a partition; "" means not set.
type standardsOf struct{ c, cxx, device string }

// of returns the standard for sources of a language. Without cuda_std, CUDA and HIP use the
// standard for C++.
func (s standardsOf) of(language string) string {
	switch language {
	case "c":
		return s.c
	case "c++":
		return s.cxx
	case "asm":
		return ""
	}
	return cmp.Or(s.device, s.cxx)
}

// over merges the standards of a partition with those of its target. The C++ standard of a
// partition also overrides the target's CUDA standard.
func (s standardsOf) over(target standardsOf) standardsOf {
	return standardsOf{c: cmp.Or(s.c, target.c), cxx: cmp.Or(s.cxx, target.cxx), device: cmp.Or(s.device, s.cxx, target.device)}
}

// standards reads cuda_std and std. std is one standard, or a list of one for C++ and one for C.
func (r *reader) standards() standardsOf {
	var s standardsOf
	s.cxx, s.c = r.std("std")
	if device, c := r.std("cuda_std"); c != "" {
		r.l.errorAt(r.find("cuda_std").Expr.Range(), `Write for example "c++17".`, "cuda_std: %s is a standard of C, and CUDA is compiled as C++", c)
	} else {
		s.device = device
	}
	return s
}

// std reads an attribute that contains standards.
func (r *reader) std(name string) (cxx, c string) {
	f := r.field(name)
	if f == nil {
		return "", ""
	}
	var items []item
	if s, ok := asText(f.val); ok {
		items = []item{{s, f.rng}}
	} else if isList(f.val) {
		items = r.textItems(f)
	} else {
		r.wrong(f, `a standard such as "c++17"`)
	}
	for _, it := range items {
		m := standardRE().FindStringSubmatch(it.text)
		into := &c
		switch {
		case m == nil:
			r.l.errorAt(it.rng, `Write for example "c++17", "gnu++17", "c11", or a list of one of each.`, "%s: %q is no standard of C or C++%s", name, it.text, stdMeant(it.text))
			continue
		case m[1] != "":
			into = &cxx
		}
		if *into != "" {
			r.l.errorAt(it.rng, "", "%s names %s and %s for one language", name, *into, it.text)
		}
		*into = it.text
	}
	return cxx, c
}

func stdMeant(s string) string {
	if strings.Trim(s, "0123456789") == "" && slices.Contains(standards, "c++"+s) {
		return fmt.Sprintf("; did you mean %q?", "c++"+s)
	}
	return didYouMean(s, standards)
}

// floats reads the floating-point options, which nvlink requires to be equal in all LTO-IR of a
// link.
func (t *Target) floats(r *reader) {
	t.FastMath = r.isTrue("fast_math")
	t.FTZ, t.PrecDiv, t.PrecSqrt, t.FMAD = r.boolean("ftz"), r.boolean("prec_div"), r.boolean("prec_sqrt"), r.boolean("fmad")
}
