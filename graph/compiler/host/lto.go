package host

// LTO says how host code is optimised across files: gcc knows one way, clang "full" and "thin".
//
// A link is one process of one thread, as the scheduler takes it for: its memory and its place
// among others are those of a process. gcc would start several by way of make, lld as many threads
// as there are processors. What the link makes is the same with any number of them (gcc 12, lld
// 15), but not with another number of partitions; and gcc warns of several that one process
// compiles in turn. A later option of the user's wins: -flto=auto -flto-partition=balanced,
// -Wl,--thinlto-jobs=all.
type LTO struct {
	Family string // "gcc" or "clang"
	Kind   string // "full" or "thin"
	LD     string // of clang: the ld.lld to link with; "" for the one that it finds
}

// Compile gives the options of a compile. seed tells objects apart that are linked together: gcc
// names sections and symbols after it, and at random without one.
func (h LTO) Compile(seed string) []string {
	if h.Family == "gcc" {
		return []string{"-flto", "-frandom-seed=" + seed}
	}
	return []string{"-flto=" + h.Kind}
}

// Link gives the options of a link, with the optimisation level and debug information of the
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
	return append(argv, "-Wl,--thinlto-jobs=1") // one link takes objects of both kinds
}

// ArchiveWith is Archive by an ar that reads objects with a plugin. Arguments from index 5 on may
// go into a response file.
func ArchiveWith(plugin, ar, output string, members []string) []string {
	return append([]string{ar, "--plugin", plugin, "qcsD", output}, members...)
}
