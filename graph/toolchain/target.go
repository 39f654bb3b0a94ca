package toolchain

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Target is a target of the manifest, and what the planner derived that toolchains need.
type Target struct {
	*manifest.Target
	Label string

	Codes   Codes            // expanded gencode
	Parts   map[string]Codes // expanded gencode of partitions that set their own
	PIC     bool             // reachable from a shared library
	Objects []Object
	File    string // the archive, shared library, executable or prebuilt file; "" if it has none
	Wrapped string // of prebuilt bare device code: the object around it; else ""

	Library    Library // content of a prebuilt file
	Built      bool    // an action writes the prebuilt file
	Undeclared bool    // found by -l, without a prebuilt block
	Artifacts  []Artifact

	// The floating-point options that its compiler reports for LTO-IR; nil if unknown.
	Floats *Floats
}

// Object is a compiled source.
type Object struct {
	Path   string
	Source manifest.Source
	Made   // of device code
}

// Artifact is one file that a module emits.
type Artifact struct {
	Path    string
	Kind    string // "ptx", "cubin", "fatbin", "ltoir", "hsaco", "bitcode"
	Arch    string // "sm_80"; "" for a fatbin, which holds several
	Source  string // "src/gemm.cu"; "" if it is linked from all sources of the module
	Symbols string // of LTO-IR: the PTX that lists the symbols it defines
}

// LinkInput is one target with device code for a link.
type LinkInput struct {
	*Target
	LTO bool // has LTO-IR
	RDC bool // has machine code or PTX without LTO-IR
}

// HasLTO reports whether one of the inputs has LTO-IR.
func HasLTO(inputs []LinkInput) bool {
	return slices.ContainsFunc(inputs, func(p LinkInput) bool { return p.LTO })
}

// LinkMode returns the mode of a device link.
func LinkMode(lto bool) string {
	if lto {
		return "lto"
	}
	return "rdc"
}

// Attr returns the position of an attribute of t, or of t itself. A gencode may also be written as
// code.
func (t *Target) Attr(name string) manifest.Pos {
	keys := []string{name, "defaults." + name}
	if name == "gencode" {
		keys = []string{name, "code", "defaults.gencode", "defaults.code"}
	}
	for _, key := range keys {
		if p, ok := t.AttrPos[key]; ok {
			return p
		}
	}
	return t.Pos
}

// AnyAttr returns the position of the first attribute of names that is set, or of t itself.
func (t *Target) AnyAttr(names ...string) manifest.Pos {
	for _, name := range names {
		if p := t.Attr(name); p != t.Pos {
			return p
		}
	}
	return t.Pos
}

// SourceAttr returns the position of an attribute in the partition of a source, or in its target.
func (t *Target) SourceAttr(s manifest.Source, name string) manifest.Pos {
	if p, ok := s.AttrPos[name]; ok {
		return p
	}
	return t.Attr(name)
}

// StdPos returns the position at which the standard of a CUDA source is set.
func (t *Target) StdPos(s manifest.Source) manifest.Pos {
	if s.AttrPos["cuda_std"] != (manifest.Pos{}) || s.AttrPos["std"] != (manifest.Pos{}) {
		return cmp.Or(s.AttrPos["cuda_std"], s.AttrPos["std"])
	}
	return t.AnyAttr("cuda_std", "std")
}

// FlagPos returns the position of the flag that is or contains option, or that of the flags
// attribute.
func (t *Target) FlagPos(flags *manifest.Flags, option string) manifest.Pos {
	if pos, ok := flags.At[option]; ok {
		return pos
	}
	for _, f := range slices.Sorted(maps.Keys(flags.At)) {
		if strings.Contains(f, option) {
			return flags.At[f]
		}
	}
	return t.Attr("flags")
}

// Debugs reports whether t has debug information, which records the folder of the build.
func (t *Target) Debugs() bool { return t.Debug || t.DeviceDebug || t.LineInfo }

// AnySource returns a source with the settings of the sources of t that are in no partition.
func (t *Target) AnySource() manifest.Source {
	return manifest.Source{Language: "cuda", Std: t.DeviceStd, Opt: t.Opt, Mode: t.Mode, Flags: &t.Flags}
}

// CodesOf returns the codes that a source of t is compiled for.
func (t *Target) CodesOf(s manifest.Source) Codes {
	if s.Code != nil {
		return t.Parts[s.Partition]
	}
	return t.Codes
}

// Linked returns the file that a link with t's code reads.
func (t *Target) Linked() string { return cmp.Or(t.Wrapped, t.File) }

// MemberNames formats members of t's file: lib/libx.a:a.o, or lib/libx.a:a.o (and 3 more).
func (t *Target) MemberNames(members []Member) string {
	name := t.File
	if members[0].Name != "" {
		name += ":" + members[0].Name
	}
	if more := len(members) - 1; more > 0 {
		name += fmt.Sprintf(" (and %d more)", more)
	}
	return name
}

// ObjectPaths returns the objects of t.
func (t *Target) ObjectPaths() []string {
	var out []string
	for _, o := range t.Objects {
		out = append(out, o.Path)
	}
	return out
}

// InstanceName returns the file name stem of a target: gemm.f16.64 for gemm:dtype=f16,tile=64,
// bench.copy for bench:copy.
func (t *Target) InstanceName() string {
	name := fileset.Flat(cmp.Or(t.Base, t.Name))
	if t.Each != "" {
		name += "." + FileName(t.Each)
	}
	for _, v := range t.Matrix {
		name += "." + FileName(v.Value)
	}
	return name
}

// Folder returns the folder of a target's objects: library.solver, module.gemm.f16.64.
func (t *Target) Folder() string { return string(t.Kind) + "." + t.InstanceName() }

// IsRelocatable reports whether the object of s takes part in a device link.
func IsRelocatable(s manifest.Source) bool {
	return s.IsDevice() && (s.Mode == "rdc" || s.Mode == "lto")
}

// Codes is a gencode with its sets expanded, by kind; Other has those that are not for CUDA. Each
// list is in ascending order without repeats.
type Codes struct{ SASS, PTX, LTO, Other []gencode.Code }

// Shipped returns the codes that a GPU can run: machine code and PTX, or AMD code.
func (c Codes) Shipped() []gencode.Code { return slices.Concat(c.SASS, c.PTX, c.Other) }

// Language returns the language whose toolchain makes c: that of CUDA unless c has other code.
func (c Codes) Language() string {
	for _, other := range c.Other {
		return other.Language()
	}
	return "cuda"
}

// Add adds codes, and sorts the lists.
func (c *Codes) Add(codes ...gencode.Code) {
	for _, e := range codes {
		switch e.Kind {
		case gencode.SASS:
			c.SASS = append(c.SASS, e)
		case gencode.PTX:
			c.PTX = append(c.PTX, e)
		case gencode.LTO:
			c.LTO = append(c.LTO, e)
		default: // not a set that nothing resolved
			if e.Language() != "cuda" {
				c.Other = append(c.Other, e)
			}
		}
	}
	for _, list := range []*[]gencode.Code{&c.SASS, &c.PTX, &c.LTO, &c.Other} {
		*list = Sorted(*list)
	}
}

// Sorted sorts codes in place, without repeats.
func Sorted(list []gencode.Code) []gencode.Code {
	slices.SortFunc(list, gencode.Compare)
	return slices.Compact(list)
}

// Compiled returns the codes that a compile in the given mode generates for a target that ships c.
func (c Codes) Compiled(mode string) []gencode.Code {
	var out []gencode.Code
	if mode == "lto" {
		for _, s := range c.SASS {
			out = append(out, s.As(gencode.LTO))
		}
	} else {
		out = slices.Concat(c.SASS, c.PTX)
	}
	return Sorted(append(out, c.LTO...))
}

// Spell lists codes in a message.
func Spell(list []gencode.Code) string { return strings.Join(CodeNames(list), ", ") }

// Range formats a sorted list of codes; a long one by its first and last element.
func Range(list []gencode.Code) string {
	if len(list) > 3 {
		return fmt.Sprintf("%s to %s", list[0], list[len(list)-1])
	}
	return strings.Trim(fmt.Sprint(list), "[]")
}

// CodeNames returns the names of codes.
func CodeNames(list []gencode.Code) []string {
	var s []string
	for _, c := range list {
		s = append(s, c.String())
	}
	return s
}

// LanguageFlag returns the language to pass to the compiler, "" if the source's extension implies
// it. Assembler is always named: the scanner for included files recognises it in the command.
func LanguageFlag(s manifest.Source) string {
	switch {
	case s.Language == "asm" && path.Ext(s.Path) == ".s":
		return host.Assembler
	case s.Language == "asm":
		return host.AssemblerWithCPP
	case manifest.LanguageOf(s.Path) == s.Language:
		return ""
	}
	return s.Language
}

// Defines returns macros as NAME or NAME=VALUE.
func Defines(list []manifest.Define) []string {
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

// CommonOptions returns the attributes of t and its source s that all device compilers accept.
func CommonOptions(t *Target, s manifest.Source, inc []string) Options {
	return Options{
		Std: s.Std, Opt: s.Opt, Includes: inc, Defines: Defines(s.Defines), FastMath: t.FastMath,
		FTZ: t.FTZ, PrecDiv: t.PrecDiv, FMAD: t.FMAD, Debug: t.Debug, DeviceDebug: t.DeviceDebug,
		LineInfo: t.LineInfo, PIC: t.PIC, Host: s.Flags.Host,
	}
}

// Levels holds the optimisation levels of a compiler for sources without one: by default, and for
// debugging host code or device code. "" leaves it to the compiler.
type Levels struct{ Default, Debug, DeviceDebug string }

// HostLevels holds those of host compilers and nvcc. Unlike make, kbuild has no user to pass CFLAGS,
// and no GPU program ships with the -O0 of host compilers.
var HostLevels = Levels{Default: "2"}

// Of returns the level of a source of t.
func (l Levels) Of(t *Target, s manifest.Source) string {
	switch {
	case s.Opt != "":
		return s.Opt
	case t.DeviceDebug:
		return l.DeviceDebug
	case t.Debug:
		return l.Debug
	}
	return l.Default
}
