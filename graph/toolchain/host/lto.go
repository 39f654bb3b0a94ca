package host

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

// ArchiveWith is Archive with an ar that reads objects by a plugin. Arguments from index 5 on may
// go into a response file.
func ArchiveWith(plugin, ar, output string, members []string) []string {
	return append([]string{ar, "--plugin", plugin, "qcsD", output}, members...)
}
