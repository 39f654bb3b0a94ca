package host

import (
	"slices"
	"strings"
)

// Which options of a link may hide references of host code.

// exporting lists link options that make symbols of a program visible to lookups by name at run
// time.
var exporting = []string{"-rdynamic", "--export-dynamic", "-export-dynamic", "-E", "--dynamic-list", "--export-dynamic-symbol"}

// harmless lists link options that add no host code and name no symbol; harmlessStarts lists
// prefixes of others.
var harmless = []string{"-s", "-S", "-pthread", "-pie", "-no-pie", "-static-libgcc", "-static-libstdc++",
	"--as-needed", "--no-as-needed", "--gc-sections", "--no-gc-sections", "--no-undefined", "--enable-new-dtags", "--disable-new-dtags",
	"--start-group", "--end-group", "--whole-archive", "--no-whole-archive", "--push-state", "--pop-state", "-Bsymbolic"}

var harmlessStarts = []string{"-O", "-g", "-W", "-m", "-f", "-z", "-rpath", "--rpath", "--build-id", "--hash-style", "--strip", "--warn",
	"--no-warn", "--fatal-warnings", "--icf", "--threads", "--sort", "--exclude-libs", "-Map", "--print", "--dynamic-linker",
	"--compress-debug-sections", "--no-allow", "--allow"}

// operands lists options whose value is the next word.
var operands = []string{"-z", "-rpath", "--rpath", "-Map", "--dynamic-linker"}

// HidesReferences returns a link option by which host code that kbuild does not read may refer to
// symbols, with the reason; "" if there is none.
func HidesReferences(flags []string, stripUnused bool) string {
	skip := false
	for _, w := range LinkerWords(flags) {
		if skip {
			skip = false
			continue
		}
		name, _, _ := strings.Cut(w, "=")
		switch {
		case slices.Contains(exporting, name) && !stripUnused:
			return w + ", and others may look exported symbols up (strip_unused = true says that none does)"
		case slices.Contains(exporting, name):
		case name == "-static" || name == "-static-pie":
			return w + ", by which a -l may mean another file"
		case !isHarmless(w):
			return w + ", by which host code may refer to anything (a library belongs into libs)"
		}
		skip = slices.Contains(operands, w)
	}
	return ""
}

func isHarmless(option string) bool {
	return slices.Contains(harmless, option) || !strings.HasPrefix(option, "-flto") && !strings.HasPrefix(option, "-fplugin") &&
		slices.ContainsFunc(harmlessStarts, func(h string) bool { return strings.HasPrefix(option, h) })
}

// LTO selects how host code is optimised across files: gcc has one kind, clang "full" and "thin".
//
// A link must be one process with one thread, because the scheduler accounts for it as one. gcc
// would start several processes by make, and lld one thread for each processor. The output does not
// depend on their number (gcc 12, lld 15). It does depend on the number of partitions, and gcc
// warns if one process compiles several. A user's option comes later and wins: -flto=auto
// -flto-partition=balanced, -Wl,--thinlto-jobs=all.
type LTO struct {
	Family string // "gcc" or "clang"
	Kind   string // "full" or "thin"
	LD     string // of clang: the ld.lld to link with; "" for the one that clang finds
}

// Compile returns the options of a compile. seed identifies the object within a link: gcc derives
// names of sections and symbols from it, and random names without one.
func (h LTO) Compile(seed string) []string {
	if h.Family == "gcc" {
		return []string{"-flto", "-frandom-seed=" + seed}
	}
	return []string{"-flto=" + h.Kind}
}

// Link returns the options of a link, with the optimisation level and debug information of the
// compile.
func (h LTO) Link(opt string, debug bool) []string {
	var argv []string
	if opt != "" {
		argv = append(argv, "-O"+opt)
	}
	if debug {
		argv = append(argv, "-g")
	}
	if h.Family == "gcc" {
		return append(argv, "-flto=1", "-flto-partition=one")
	}
	argv = append(argv, "-flto="+h.Kind, "-fuse-ld=lld")
	if h.LD != "" {
		argv = append(argv, "--ld-path="+h.LD)
	}
	return append(argv, "-Wl,--thinlto-jobs=1") // one link accepts objects of both kinds
}
