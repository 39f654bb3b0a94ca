package plan

import (
	"cmp"
	"github.com/kbuild-dev/kbuild/graph"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// target is a manifest target and what the planner derived for it.
type target struct {
	*manifest.Target
	label string
	deps  []*target // in order of declaration
	node  *graph.Target

	codes   codes            // expanded gencode
	parts   map[string]codes // expanded gencode of partitions that set their own
	unbuilt string           // why it cannot be built; "" if it can
	lacks   *target          // the dependency that cannot be built; nil if t itself is the cause
	pic     bool             // reachable from a shared library
	objects []object
	file    string // the archive, shared library, executable or prebuilt file; "" if it has none
	object  string // of prebuilt bare device code: the object around it; else ""

	// Object of its own device link (shared library, executable, closed static library).
	dlink   string
	headers []string // order-only: files that its consumers may include
	include []string // include folders of its consumers
	embeds  []string // objects of embedded modules

	// Sources of relocatable HIP code, by whether the new offload driver compiles them.
	drivers map[bool]madeBy

	// Floating-point options of cicc in a dry run of an LTO compile; nil if unknown.
	toldCICC *floatOptions

	isHIPForNVIDIA bool // has HIP sources that are compiled as CUDA

	undeclared bool // found by -l, without a prebuilt block

	arts []artifact

	round  int   // number of the last walk that visited it
	behind int   // number of the last walk that skipped its dependencies
	last   *bool // cached result of isLast; nil if not computed yet
}

// object is a compiled source.
type object struct {
	path   string
	source manifest.Source
	device bool // holds device code

	// Inputs of a device link by architecture, for a source that clang compiled in the modes rdc
	// and lto; nil if the compile stayed unsplit.
	bitcode map[string]string
}

// artifact is one file that a module emits.
type artifact struct {
	path    string
	kind    string // "ptx", "cubin", "fatbin", "ltoir", "hsaco", "bitcode"
	arch    string // "sm_80"; "" for a fatbin, which holds several
	source  string // "src/gemm.cu"; "" if it is linked from all sources of the module
	symbols string // of LTO-IR: the PTX that lists the symbols it defines
}

// attr returns the position of an attribute of t, or of t itself. A gencode may also be written as
// code.
func (t *target) attr(name string) manifest.Pos {
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

// anyAttr returns the position of the first attribute of names that is set, or of t itself.
func (t *target) anyAttr(names ...string) manifest.Pos {
	for _, name := range names {
		if p := t.attr(name); p != t.Pos {
			return p
		}
	}
	return t.Pos
}

// modePos returns the position at which the mode of a source is set.
func (t *target) modePos(s manifest.Source) manifest.Pos {
	return t.partitionAttr(s, "mode")
}

// stdPos returns the position at which the standard of a CUDA source is set.
func (t *target) stdPos(s manifest.Source) manifest.Pos {
	if s.AttrPos["cuda_std"] != (manifest.Pos{}) || s.AttrPos["std"] != (manifest.Pos{}) {
		return cmp.Or(s.AttrPos["cuda_std"], s.AttrPos["std"])
	}
	return t.anyAttr("cuda_std", "std")
}

// partitionAttr returns the position of an attribute in the partition of a source, or in its
// target.
func (t *target) partitionAttr(s manifest.Source, name string) manifest.Pos {
	if p, ok := s.AttrPos[name]; ok {
		return p
	}
	return t.attr(name)
}

// flag returns the position of the flag that is or contains option, or that of the flags attribute.
func (t *target) flag(flags *manifest.Flags, option string) manifest.Pos {
	if pos, ok := flags.At[option]; ok {
		return pos
	}
	for _, f := range slices.Sorted(maps.Keys(flags.At)) {
		if strings.Contains(f, option) {
			return flags.At[f]
		}
	}
	return t.attr("flags")
}

// isHIP reports whether t ships AMD code.
func (t *target) isHIP() bool { return len(t.codes.gfx) > 0 }

func (t *target) vendor() string {
	if t.isHIP() {
		return "AMD code"
	}
	return "CUDA code"
}

// isHost reports whether s is a source that the host compiler can optimise: assembler is not.
func isHost(s manifest.Source) bool { return s.Language == "c" || s.Language == "c++" }

// isDevice reports whether s is a source with device code.
func isDevice(s manifest.Source) bool { return s.Language == "cuda" || s.Language == "hip" }

// relocatable reports whether the object of s takes part in a device link.
func relocatable(s manifest.Source) bool {
	return isDevice(s) && (s.Mode == "rdc" || s.Mode == "lto")
}

// hostLTO returns how the host sources of t are optimised across files, "" if they are not. It
// returns "" if t has no host sources.
func hostLTO(t *target) string {
	if slices.ContainsFunc(t.Sources, isHost) {
		return t.HostLTO
	}
	return ""
}

// debugs reports whether t has debug information, which records the folder of the build.
func (t *target) debugs() bool { return t.Debug || t.DeviceDebug || t.LineInfo }

// optLevel returns the optimisation level, "2" by default unless t is compiled for debugging.
// Unlike make, kbuild has no user to pass CFLAGS, and no GPU program ships with the -O0 of host
// compilers.
func optLevel(t *target, s manifest.Source) string {
	if s.Opt == "" && !t.Debug && !t.DeviceDebug {
		return "2"
	}
	return s.Opt
}

// anySource returns a source with the settings of the sources of t that are in no partition.
func (t *target) anySource() manifest.Source {
	return manifest.Source{Language: "cuda", Std: t.DeviceStd, Opt: t.Opt, Mode: t.Mode, Flags: &t.Flags}
}

// codesOf returns the codes that a source of t is compiled for.
func (t *target) codesOf(s manifest.Source) codes {
	if s.Code != nil {
		return t.parts[s.Partition]
	}
	return t.codes
}

// searched returns the include folders of a source. inc are those of its target.
func searched(s manifest.Source, inc []string) []string {
	if len(s.Includes) == 0 {
		return inc
	}
	return appendNew(slices.Clone(s.Includes), inc...)
}

// linked returns the file that a link with t's code reads.
func (t *target) linked() string { return cmp.Or(t.object, t.file) }

// shipsCUDA reports whether t has a CUDA source.
func (t *target) shipsCUDA() bool {
	return slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return s.Language == "cuda" })
}

func paths(objects []object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.path)
	}
	return out
}
