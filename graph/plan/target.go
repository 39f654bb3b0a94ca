package plan

import (
	"cmp"
	"github.com/kbuild-dev/kbuild/graph"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// target is a manifest target with what the planner learned about it.
type target struct {
	*manifest.Target
	label string
	deps  []*target // in order of declaration
	node  *graph.Target

	codes   codes            // expanded gencode
	parts   map[string]codes // the same of partitions that have code of their own
	unbuilt string           // why it cannot be built, "" if it can
	lacks   *target          // whose fault that is; nil if its own
	pic     bool             // reachable from a shared library
	objects []object
	file    string   // the archive, shared library, executable or prebuilt file; "" if there is none
	object  string   // of bare device code that is prebuilt: the object around it; else ""
	dlink   string   // object of an own device link (shared library, executable, closed static library)
	headers []string // order-only: files that its consumers may include
	include []string // folders that its consumers search
	embeds  []string // objects of embedded modules

	drivers map[bool]madeBy // of relocatable HIP code: by the new offload driver, by the old one

	toldCICC *floatOptions // how the LTO-IR of a source is compiled; nil if nvcc did not tell

	isHIPForNVIDIA bool // has HIP sources, which are compiled as CUDA

	undeclared bool // a library behind -l, for which nobody wrote a prebuilt block

	arts []artifact

	round  int   // of the last walk that came by
	behind int   // of the last walk that left out what is behind it
	last   *bool // see isLast; nil as long as nobody asked
}

// object is a compiled source.
type object struct {
	path   string
	source manifest.Source
	device bool // holds device code

	bitcode map[string]string // of a source that clang compiled in the modes rdc and lto: what a device link reads, by architecture; nil if the driver was one command
}

// artifact is one file a module emits.
type artifact struct {
	path    string
	kind    string // "ptx", "cubin", "fatbin", "ltoir", "hsaco", "bitcode"
	arch    string // "sm_80"; "" for a fatbin, which holds several
	source  string // "src/gemm.cu"; "" if the sources of the module are linked into it
	symbols string // of LTO-IR: the PTX that tells what it defines
}

// attr is the position of an attribute of t, or of t itself. A gencode may be written as code.
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

// anyAttr is where the first of some attributes is set.
func (t *target) anyAttr(names ...string) manifest.Pos {
	for _, name := range names {
		if p := t.attr(name); p != t.Pos {
			return p
		}
	}
	return t.Pos
}

// modePos is where the mode of a source is set.
func (t *target) modePos(s manifest.Source) manifest.Pos {
	return t.partitionAttr(s, "mode")
}

// stdPos is where the standard of a CUDA source is set.
func (t *target) stdPos(s manifest.Source) manifest.Pos {
	if s.AttrPos["cuda_std"] != (manifest.Pos{}) || s.AttrPos["std"] != (manifest.Pos{}) {
		return cmp.Or(s.AttrPos["cuda_std"], s.AttrPos["std"])
	}
	return t.anyAttr("cuda_std", "std")
}

// partitionAttr is the position of an attribute in the partition of a source, or in its target.
func (t *target) partitionAttr(s manifest.Source, name string) manifest.Pos {
	if p, ok := s.AttrPos[name]; ok {
		return p
	}
	return t.attr(name)
}

// flag is where an option is written, alone or within a flag; else the place of all flags.
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

// isHIP reports a target that ships AMD code.
func (t *target) isHIP() bool { return len(t.codes.gfx) > 0 }

func (t *target) vendor() string {
	if t.isHIP() {
		return "AMD code"
	}
	return "CUDA code"
}

// isHost reports a source that the host compiler compiles and can optimise: assembler is not.
func isHost(s manifest.Source) bool { return s.Language == "c" || s.Language == "c++" }

// isDevice reports a source with device code.
func isDevice(s manifest.Source) bool { return s.Language == "cuda" || s.Language == "hip" }

// relocatable reports whether a source's object takes part in a device link.
func relocatable(s manifest.Source) bool {
	return isDevice(s) && (s.Mode == "rdc" || s.Mode == "lto")
}

// hostLTO is how the host sources of t are optimised across files; "" if they are not, or if there
// are none.
func hostLTO(t *target) string {
	if slices.ContainsFunc(t.Sources, isHost) {
		return t.HostLTO
	}
	return ""
}

// debugs reports debug information, which names the folder of the build.
func (t *target) debugs() bool { return t.Debug || t.DeviceDebug || t.LineInfo }

// optLevel is -O2 where nothing is said and nothing is debugged: unlike make, kbuild has no user to
// pass CFLAGS, and a host compiler's default of -O0 is never what a GPU program ships.
func optLevel(t *target, s manifest.Source) string {
	if s.Opt == "" && !t.Debug && !t.DeviceDebug {
		return "2"
	}
	return s.Opt
}

// anySource stands for the sources of t that are in no partition.
func (t *target) anySource() manifest.Source {
	return manifest.Source{Language: "cuda", Std: t.DeviceStd, Opt: t.Opt, Mode: t.Mode, Flags: &t.Flags}
}

// codesOf is what a source of t is compiled for.
func (t *target) codesOf(s manifest.Source) codes {
	if s.Code != nil {
		return t.parts[s.Partition]
	}
	return t.codes
}

// searched are the folders that a source searches, of those that the sources of its target search.
func searched(s manifest.Source, inc []string) []string {
	if len(s.Includes) == 0 {
		return inc
	}
	return appendNew(slices.Clone(s.Includes), inc...)
}

// linked is the file that links of t's code read.
func (t *target) linked() string { return cmp.Or(t.object, t.file) }

// shipsCUDA reports code of NVIDIA's in t's own gencode, or a CUDA source.
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
