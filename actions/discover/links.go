package discover

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// The linker itself reports, while it links, which files it probed. With --verbose GNU ld prints
// each file that it tried to open, for whatever reason. The reason may be -l in a flag, a response
// file or a script; INPUT, GROUP and INCLUDE in scripts; members of thin archives; or its own
// folders. For other linkers only the candidates of -L and -l are recorded. If something else may
// name a file, such a link runs each time.

// isLink reports whether a is a link of host code.
func isLink(a *graph.Action) bool { return a.Kind.Info().LinksHost() }

// IsTraced reports whether a is a link by GNU ld that prints the files that it opens.
func IsTraced(a *graph.Action) bool { return isLink(a) && slices.Contains(a.Argv, host.TraceLink) }

// Trace returns the parsed linker output in a file; it is empty if the file is missing.
func (d *Discovery) Trace(file string) LinkTrace {
	text, _ := regular.Read(file)
	return parseLinkTrace(text, d.isFile)
}

// TellsUser reports whether the options of a link make it print to its standard output: a map, a
// trace. A map that is written to a file does not count.
func TellsUser(a *graph.Action) bool {
	return slices.ContainsFunc(a.Argv, func(arg string) bool {
		for _, word := range strings.FieldsFunc(arg, func(c rune) bool { return c == ',' || c == '=' }) {
			if word == "-M" || word == "-t" || word == "-" || word[0] == '@' || strings.HasPrefix(word, "/dev/") {
				return true
			}
			option := strings.TrimLeft(word, "-")
			says := func(s string) bool { return option != word && strings.HasPrefix(option, s) }
			if slices.ContainsFunc([]string{"print", "cref", "trace", "stats"}, says) {
				return true
			}
		}
		return false
	})
}

// deviceLibraries records the files that -l stands for in argv, a command of a device link. stable
// is false if one of them changed concurrently.
func (d *Discovery) deviceLibraries(ran Ran, argv []string, linker graph.Linker, rec *cache.Record) (stable bool) {
	stable = true
	for _, candidates := range toolchain.DeviceLibraries(argv, linker) {
		for _, file := range candidates {
			file = d.Name(file)
			if d.hasFile(file) {
				digest, err := d.Digest(file)
				Add(rec, cache.FileDigest{Path: file, Digest: digest})
				stable = stable && err == nil && (d.IsOutput(file) || !ran.changed(file, digest))
				break
			}
			if d.Listing.Exists(file) { // a folder where a file is expected
				file += "/"
			}
			rec.Absent = append(rec.Absent, file)
		}
	}
	rec.Absent = compact(rec.Absent)
	return stable
}

// libraries records what a link probed. stable is false if that changed concurrently.
func (d *Discovery) libraries(ctx context.Context, ran Ran, rec *cache.Record) (stable bool) {
	a := ran.Action
	var missing []string
	switch linker := a.Kind.Info().Linker; linker {
	case "", graph.LinkerDriver:
		return true
	case graph.LinkerNVLink, graph.LinkerLLD:
		return d.deviceLibraries(ran, a.Argv, linker, rec)
	}
	switch trace := d.Trace(ran.Trace); {
	case !IsTraced(a):
		argv := d.drivers.linkerCommand(ctx, a)
		missing = append(d.links.absentLibs(argv), d.links.absentInScripts(argv, rec)...)
		if why := untraced(a); why != "" && d.drivers.known(a) {
			rec.Discovered = append(rec.Discovered, Never(why))
		}
	case !trace.Complete:
		rec.Discovered = append(rec.Discovered, Never("the linker does not tell which files it looked for"))
	default:
		missing = trace.Missing
		if trace.Needs {
			digest, _ := d.loader.conf()
			rec.Discovered = append(rec.Discovered, cache.FileDigest{Path: loaderMark, Digest: digest})
		}
	}
	if d.drivers.known(a) {
		missing = append(missing, d.drivers.driverFolders(ctx, a, rec)...)
	}
	for _, p := range missing {
		if ran.isTemporary(p) {
			continue
		}
		if p = d.Name(p); d.Listing.Exists(p) { // a folder where a file is expected
			p += "/"
		}
		rec.Absent = append(rec.Absent, p)
	}
	rec.Absent = compact(rec.Absent)
	return true
}

// untraced returns why a link without a trace may probe files that its command does not name, or
// "".
func untraced(a *graph.Action) string {
	for _, arg := range a.Argv {
		switch {
		case strings.HasPrefix(arg, "@"), strings.HasPrefix(arg, "-Wl,@"):
			return "the linker does not tell which files it looked for, and " + arg + " may name some"
		case strings.HasPrefix(arg, "-T"), strings.HasPrefix(arg, "-Wl,-T"), strings.HasPrefix(arg, "-Wl,--script"):
			return "the linker does not tell which files it looked for, and the script " + arg + " may name some"
		}
	}
	return ""
}

// programs records which of some programs a driver runs whose search path -B changes. It returns
// the absent paths that the driver probed before.
func (t Tree) programs(f host.Folders, rec *cache.Record, names ...string) []string {
	names = append(names, "specs")
	dirs := compact(append(slices.Clone(f.Programs), f.Libraries...))
	for _, name := range names {
		if found, ok := t.first(dirs, name); ok {
			Add(rec, found)
		}
	}
	return slices.Concat(t.missing(f.Programs), t.firstAbsent(dirs, names))
}

// missing returns the folders that do not exist.
func (t Tree) missing(dirs []string) (missing []string) {
	for _, dir := range dirs {
		if !t.Listing.Exists(dir) {
			missing = append(missing, path.Clean(dir))
		}
	}
	return missing
}
