package build

import (
	"bytes"
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// What a link looked for is asked of the linker while it links: with --verbose GNU ld tells of each file that it tried to open, for whatever
// reason: -l in a flag, a response file or a script, INPUT, GROUP and INCLUDE in scripts, members of thin archives, its own folders. Of other linkers only
// what is known of -L and -l is kept; where something else may name a file, such a link runs each time.
//
// The driver has a part in it: it finds the linker, the start files and the folders of libraries, by -B, COMPILER_PATH, LIBRARY_PATH and its
// installation. It hands folders to the linker only if they exist.

// traceFile is where a link writes what the linker says with --verbose.
func (s scratch) traceFile() string { return s.file("ld.trace") }

// isTraced reports a link by GNU ld that tells what it opens.
func isTraced(a *graph.Action) bool { return isLink(a) && slices.Contains(a.Argv, host.TraceLink) }

// traced is what the linker told in dir; empty if nothing.
func (r *Runner) traced(dir scratch) run.LinkTrace {
	text, _ := regular.Append(nil, dir.traceFile())
	return run.ParseLinkTrace(text, func(name string) bool { return r.isFile(name) })
}

// tells reports a link that was asked to say something on its standard output: a map, a trace. A map that goes to a file is none of it.
func tells(a *graph.Action) bool {
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

// lookedForLibs fills in what a link looked for. nvlink, too, looks for a shared library before a static one.
func (r *Runner) lookedForLibs(ctx context.Context, a *graph.Action, rec *cache.Record, dir scratch) {
	var missing []string
	if a.Kind == graph.NVLink {
		rec.Absent = compact(append(rec.Absent, r.absentLibs(a.Argv)...))
	}
	if !isLink(a) {
		return
	}
	switch trace := r.traced(dir); {
	case !isTraced(a):
		argv := r.linkerCommand(ctx, a)
		missing = append(r.absentLibs(argv), r.absentInScripts(argv, rec)...)
		if why := untraced(a); why != "" && r.known(a) {
			rec.Discovered = append(rec.Discovered, never(why))
		}
	case !trace.Complete:
		rec.Discovered = append(rec.Discovered, never("the linker does not tell which files it looked for"))
	default:
		missing = trace.Missing
		if trace.Needs {
			d, _ := r.loaderConf()
			rec.Discovered = append(rec.Discovered, cache.FileDigest{Path: loaderMark, Digest: d})
		}
	}
	if r.known(a) {
		missing = append(missing, r.lookedForFolders(ctx, a, rec)...)
	}
	for _, p := range missing {
		if dir.isTemporary(p) {
			continue
		}
		if p = r.name(p); r.Listing.Exists(p) { // a folder where a file is wanted
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

// lookedForFolders gives the paths that must stay absent for the driver to find what it found: folders that it would hand to the linker,
// start files, and with -B programs.
func (r *Runner) lookedForFolders(ctx context.Context, a *graph.Action, rec *cache.Record) (missing []string) {
	f, ok := r.folders(ctx, a, a.Argv)
	if !ok {
		rec.Discovered = append(rec.Discovered, never("the compiler does not say where it looks for libraries"))
		return nil
	}
	var starts []string
	for _, d := range rec.Discovered {
		if base := path.Base(d.Path); path.Ext(base) == ".o" && strings.Contains(base, "crt") && !slices.Contains(starts, base) {
			starts = append(starts, base)
		}
	}
	for _, dir := range f.Libraries {
		if !r.Listing.Exists(dir) {
			missing = append(missing, path.Clean(dir))
		}
	}
	missing = append(missing, r.firstAbsent(f.Libraries, starts)...)
	if host.Redirects(a.Argv) {
		missing = append(missing, r.lookedForPrograms(f, rec, "collect2", "collect-ld", "real-ld", "ld", f.Machine+"-ld", "lto-wrapper", "lto1", "liblto_plugin.so")...)
	}
	return missing
}

// compilePrograms notes the programs of a compile that was told where to look for them.
func (r *Runner) compilePrograms(ctx context.Context, a *graph.Action, rec *cache.Record) {
	argvs, err := [][]string{a.Argv}, error(nil)
	if isNVCC(a) {
		if !host.Redirects(slices.Concat(a.Argv, r.KeyEnv)) {
			return
		}
		argvs, err = nvcc.Preprocesses(r.answer(ctx, a, dryRun(a)))
	}
	for _, argv := range argvs {
		if !host.Redirects(argv) {
			continue
		}
		f, ok := r.folders(ctx, a, argv)
		if !ok {
			err = errors.New("no answer")
			break
		}
		rec.Absent = append(rec.Absent, r.lookedForPrograms(f, rec, "cc1plus", "cc1", "as", f.Machine+"-as")...)
		for _, d := range f.Programs { // those that are there are among the folders for headers
			for _, own := range []string{"include", "include-fixed"} {
				if p := path.Join(d, own); r.Listing.Exists(d) && !r.Listing.Exists(p) {
					rec.Absent = append(rec.Absent, p)
				}
			}
		}
	}
	if err != nil {
		rec.Discovered = append(rec.Discovered, never("the compiler does not say where it looks for programs"))
	}
}

// lookedForPrograms notes which of some programs a driver runs that was told by -B where to look, and gives where it looked before.
func (r *Runner) lookedForPrograms(f host.Folders, rec *cache.Record, programs ...string) []string {
	programs = append(programs, "specs")
	dirs := compact(append(slices.Clone(f.Programs), f.Libraries...))
	for _, p := range programs {
		for _, d := range dirs {
			file := path.Join(d, p)
			if !r.Listing.Exists(file) || !r.isFile(file) {
				continue
			}
			if digest, err := r.Files.Digest(file); err == nil && !discovers(rec, file) {
				rec.Discovered = append(rec.Discovered, cache.FileDigest{Path: file, Digest: digest})
			}
			break
		}
	}
	var missing []string
	for _, d := range f.Programs {
		if !r.Listing.Exists(d) {
			missing = append(missing, path.Clean(d))
		}
	}
	return append(missing, r.firstAbsent(dirs, programs)...)
}

// firstAbsent are the files that are missing in the folders before the first one that has them. A folder that is missing has none.
func (r *Runner) firstAbsent(dirs, files []string) (missing []string) {
	for _, f := range files {
		for _, d := range dirs {
			if !r.Listing.Exists(d) {
				continue
			}
			p := path.Join(d, f)
			if r.Listing.Exists(p) && r.isFile(p) {
				break
			}
			missing = append(missing, p)
		}
	}
	return missing
}

// linkerCommand is the command of the linker that a driver runs for a: it adds libraries, and folders to look for them. Of a driver that does
// not say it is the driver's own.
func (r *Runner) linkerCommand(ctx context.Context, a *graph.Action) []string {
	if !r.known(a) {
		return a.Argv
	}
	for line := range strings.Lines(r.answer(ctx, a, append(slices.Clone(a.Argv), "-###"))) {
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
func (r *Runner) absentInScripts(argv []string, rec *cache.Record) (missing []string) {
	dirs, _ := r.linked(argv)
	for _, f := range rec.Discovered {
		if base := path.Base(f.Path); !strings.Contains(base, ".so") && path.Ext(base) != ".a" {
			continue
		}
		text, _ := regular.Append(nil, r.abs(f.Path))
		if !bytes.Contains(text, []byte("GROUP")) && !bytes.Contains(text, []byte("INPUT")) || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for _, word := range strings.FieldsFunc(string(text), func(c rune) bool { return strings.ContainsRune(" \t\r\n(),", c) }) {
			switch {
			case strings.HasPrefix(word, "-l"):
				missing = append(missing, r.absentLibs(append(slices.Clone(argv), word))...)
			case strings.Contains(word, ".") && !path.IsAbs(word):
				missing = append(missing, r.firstAbsent(slices.Concat([]string{".", path.Dir(f.Path)}, dirs), []string{word})...)
			}
		}
	}
	return missing
}

// absentLibs are the libraries that do not exist and that a link would take for -lNAME if they did: in a folder of -L before the one
// that has it, or shared beside a static one.
func (r *Runner) absentLibs(argv []string) (missing []string) {
	dirs, libs := r.linked(argv)
	for _, l := range libs {
	search:
		for _, d := range dirs {
			for _, f := range l {
				p := path.Join(d, f)
				if r.Listing.Exists(p) {
					break search
				}
				missing = append(missing, p)
			}
		}
	}
	return missing
}

// linked are the folders of -L, those of LIBRARY_PATH after them, and the files that each -l may mean in a folder.
func (r *Runner) linked(argv []string) (dirs []string, libs [][]string) {
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
	for _, e := range r.KeyEnv {
		if list, ok := strings.CutPrefix(e, "LIBRARY_PATH="); ok {
			dirs = append(dirs, filepath.SplitList(list)...)
		}
	}
	return dirs, libs
}
