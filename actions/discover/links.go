package discover

import (
	"bytes"
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
)

// What a link looked for is asked of the linker while it links: with --verbose GNU ld tells of each file that it tried to open, for whatever
// reason: -l in a flag, a response file or a script, INPUT, GROUP and INCLUDE in scripts, members of thin archives, its own folders. Of other linkers only
// what is known of -L and -l is kept; where something else may name a file, such a link runs each time.
//
// The driver has a part in it: it finds the linker, the start files and the folders of libraries, by -B, COMPILER_PATH, LIBRARY_PATH and its
// installation. It hands folders to the linker only if they exist.

// isLink reports a link of host code.
func isLink(a *graph.Action) bool { return a.Kind.Info().Lane == graph.LaneLink }

// IsTraced reports a link by GNU ld that tells what it opens.
func IsTraced(a *graph.Action) bool { return isLink(a) && slices.Contains(a.Argv, host.TraceLink) }

// Trace is what the linker told in a file; empty if nothing.
func (d *Discovery) Trace(file string) LinkTrace {
	text, _ := regular.Read(file)
	return parseLinkTrace(text, d.isFile)
}

// TellsUser reports a link that was asked to say something on its standard output: a map, a trace. A map that goes to a file is none of it.
func TellsUser(a *graph.Action) bool {
	return slices.ContainsFunc(a.Argv, func(arg string) bool {
		for _, word := range strings.FieldsFunc(arg, func(c rune) bool { return c == ',' || c == '=' }) {
			if word == "-M" || word == "-t" || word == "-" || word[0] == '@' ||
				slices.ContainsFunc([]string{"print", "cref", "trace", "stats", "/dev/"}, func(s string) bool { return strings.Contains(word, s) }) {
				return true
			}
		}
		return false
	})
}

// libraries fills in what a link looked for. nvlink, too, looks for a shared library before a static one.
func (d *Discovery) libraries(ctx context.Context, ran Ran, rec *cache.Record) {
	a := ran.Action
	var missing []string
	if a.Kind == graph.NVLink {
		rec.Absent = compact(append(rec.Absent, d.absentLibs(a.Argv)...))
	}
	if !isLink(a) {
		return
	}
	switch trace := d.Trace(ran.Trace); {
	case !IsTraced(a):
		argv := d.linkerCommand(ctx, a)
		missing = append(d.absentLibs(argv), d.absentInScripts(argv, rec)...)
		if why := untraced(a); why != "" && d.known(a) {
			rec.Discovered = append(rec.Discovered, Never(why))
		}
	case !trace.Complete:
		rec.Discovered = append(rec.Discovered, Never("the linker does not tell which files it looked for"))
	default:
		missing = trace.Missing
		if trace.Needs {
			digest, _ := d.loaderConf()
			rec.Discovered = append(rec.Discovered, cache.FileDigest{Path: loaderMark, Digest: digest})
		}
	}
	if d.known(a) {
		missing = append(missing, d.driverFolders(ctx, a, rec)...)
	}
	for _, p := range missing {
		if ran.isTemporary(p) {
			continue
		}
		if p = d.Name(p); d.Listing.Exists(p) { // a folder where a file is wanted
			p += "/"
		}
		rec.Absent = append(rec.Absent, p)
	}
	rec.Absent = compact(rec.Absent)
}

// untraced says what a linker that does not tell what it opens may look for unseen.
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

// driverFolders gives the paths that must stay absent for the driver to find what it found: folders that it would hand to the linker,
// start files, and with -B programs.
func (d *Discovery) driverFolders(ctx context.Context, a *graph.Action, rec *cache.Record) (missing []string) {
	f, ok := d.drivers.folders(ctx, a, a.Argv)
	if !ok {
		rec.Discovered = append(rec.Discovered, Never("the compiler does not say where it looks for libraries"))
		return nil
	}
	var starts []string
	for _, found := range rec.Discovered {
		if base := path.Base(found.Path); path.Ext(base) == ".o" && strings.Contains(base, "crt") && !slices.Contains(starts, base) {
			starts = append(starts, base)
		}
	}
	missing = append(d.missing(f.Libraries), d.firstAbsent(f.Libraries, starts)...)
	if host.Redirects(a.Argv) {
		missing = append(missing, d.programs(f, rec, "collect2", "collect-ld", "real-ld", "ld", f.Machine+"-ld", "lto-wrapper", "lto1", "liblto_plugin.so")...)
	}
	return missing
}

// compilePrograms notes the programs of a compile that was told where to look for them.
func (d *Discovery) compilePrograms(ctx context.Context, a *graph.Action, rec *cache.Record) {
	argvs, err := [][]string{a.Argv}, error(nil)
	if isNVCC(a) {
		if !host.Redirects(slices.Concat(a.Argv, d.KeyEnv)) {
			return
		}
		argvs, err = d.drivers.hostCompilers(ctx, a)
	}
	for _, argv := range argvs {
		if !host.Redirects(argv) {
			continue
		}
		f, ok := d.drivers.folders(ctx, a, argv)
		if !ok {
			err = errors.New("no answer")
			break
		}
		rec.Absent = append(rec.Absent, d.programs(f, rec, "cc1plus", "cc1", "as", f.Machine+"-as")...)
		for _, dir := range f.Programs { // those that are there are among the folders for headers
			if d.Listing.Exists(dir) {
				rec.Absent = append(rec.Absent, d.missing([]string{path.Join(dir, "include"), path.Join(dir, "include-fixed")})...)
			}
		}
	}
	if err != nil {
		rec.Discovered = append(rec.Discovered, Never("the compiler does not say where it looks for programs"))
	}
}

// programs notes which of some programs a driver runs that was told by -B where to look, and gives where it looked before.
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

// missing are those of some folders that do not exist.
func (t Tree) missing(dirs []string) (missing []string) {
	for _, dir := range dirs {
		if !t.Listing.Exists(dir) {
			missing = append(missing, path.Clean(dir))
		}
	}
	return missing
}

// linkerCommand is the command of the linker that a driver runs for a: it adds libraries, and folders to look for them. Of a driver that does
// not say it is the driver's own.
func (d *Discovery) linkerCommand(ctx context.Context, a *graph.Action) []string {
	if !d.known(a) {
		return a.Argv
	}
	said, _ := d.Ask(ctx, a, append(slices.Clone(a.Argv), "-###"), false)
	for line := range strings.Lines(said) {
		words, err := compiler.ShellWords(strings.TrimSpace(line), nil)
		if err == nil && len(words) > 1 && strings.Contains(words[0], "/") && slices.Contains(linkers, path.Base(words[0])) {
			return words
		}
	}
	return a.Argv
}

var linkers = []string{"collect2", "ld", "lld", "ld.lld", "ld.gold", "ld.bfd", "ld.mold", "mold"}

// absentInScripts are the files that do not exist and that a script of the linker among those that a record discovered would mean: libgcc_s.so
// of gcc is such a script, and names another library without a folder.
func (d *Discovery) absentInScripts(argv []string, rec *cache.Record) (missing []string) {
	dirs, _ := d.linked(argv)
	for _, f := range rec.Discovered {
		if base := path.Base(f.Path); !strings.Contains(base, ".so") && path.Ext(base) != ".a" {
			continue
		}
		text, _ := regular.Read(d.Abs(f.Path))
		if !bytes.Contains(text, []byte("GROUP")) && !bytes.Contains(text, []byte("INPUT")) || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for _, word := range strings.FieldsFunc(string(text), func(c rune) bool { return strings.ContainsRune(" \t\r\n(),", c) }) {
			switch {
			case strings.HasPrefix(word, "-l"):
				missing = append(missing, d.absentLibs(append(slices.Clone(argv), word))...)
			case strings.Contains(word, ".") && !path.IsAbs(word):
				missing = append(missing, d.firstAbsent(slices.Concat([]string{".", path.Dir(f.Path)}, dirs), []string{word})...)
			}
		}
	}
	return missing
}

// absentLibs are the libraries that do not exist and that a link would take for -lNAME if they did: in a folder of -L before the one
// that has it, or shared beside a static one.
func (d *Discovery) absentLibs(argv []string) (missing []string) {
	dirs, libs := d.linked(argv)
	for _, l := range libs {
	search:
		for _, dir := range dirs {
			for _, f := range l {
				p := path.Join(dir, f)
				if d.Listing.Exists(p) {
					break search
				}
				missing = append(missing, p)
			}
		}
	}
	return missing
}

// linked are the folders of -L, those of LIBRARY_PATH after them, and the files that each -l may mean in a folder.
func (d *Discovery) linked(argv []string) (dirs []string, libs [][]string) {
	var args []string
	for _, arg := range argv {
		if list, ok := strings.CutPrefix(arg, "-Wl,"); ok {
			args = append(args, strings.Split(list, ",")...)
		} else if arg != "-Xlinker" {
			args = append(args, arg)
		}
	}
	static := slices.Contains(args, "-static")
	for i, arg := range args {
		if (arg == "-L" || arg == "-l") && i+1 < len(args) {
			arg += args[i+1]
		}
		switch {
		case arg == "-Bstatic" || arg == "-dn" || arg == "-non_shared":
			static = true
		case arg == "-Bdynamic" || arg == "-dy" || arg == "-call_shared":
			static = false
		case strings.HasPrefix(arg, "-L"):
			dirs = append(dirs, arg[2:])
		case strings.HasPrefix(arg, "--library-path="):
			dirs = append(dirs, strings.TrimPrefix(arg, "--library-path="))
		case strings.HasPrefix(arg, "-l:"):
			libs = append(libs, []string{arg[3:]})
		case strings.HasPrefix(arg, "-l") && static:
			libs = append(libs, []string{"lib" + arg[2:] + ".a"})
		case strings.HasPrefix(arg, "-l"):
			libs = append(libs, []string{"lib" + arg[2:] + ".so", "lib" + arg[2:] + ".a"})
		}
	}
	for _, e := range d.KeyEnv {
		if list, ok := strings.CutPrefix(e, "LIBRARY_PATH="); ok {
			dirs = append(dirs, filepath.SplitList(list)...)
		}
	}
	return dirs, libs
}
