package discover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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

// IsTraced reports whether a is a link by GNU ld that prints the files that it opens.
func IsTraced(a *graph.Action) bool {
	return a.Kind.Info().LinksHost() && slices.Contains(a.Argv, host.TraceLink)
}

// Trace returns the parsed linker output in a file; it is empty if the file is missing.
func (d *Discovery) Trace(file string) linkTrace {
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
				addFile(rec, cache.FileDigest{Path: file, Digest: digest})
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

// libraries records what a link of host code probed.
func (d *Discovery) libraries(ctx context.Context, ran Ran, rec *cache.Record) {
	a := ran.Action
	var missing []string
	switch trace := d.Trace(ran.Trace); {
	case !IsTraced(a):
		argv := d.drivers.linkerCommand(ctx, a)
		missing = append(d.drivers.absentLibs(argv), d.drivers.absentInScripts(argv, rec)...)
		if why := untraced(a); why != "" && d.drivers.known(a) {
			rec.Discovered = append(rec.Discovered, never(why))
		}
	case !trace.Complete:
		rec.Discovered = append(rec.Discovered, never("the linker does not tell which files it looked for"))
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
			addFile(rec, found)
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

// absentInScripts returns absent paths that a discovered linker script would name if they existed.
// libgcc_s.so of gcc is such a script, and names another library without a folder.
func (d *drivers) absentInScripts(argv []string, rec *cache.Record) (missing []string) {
	dirs, _ := d.linked(argv)
	for _, f := range rec.Discovered {
		if base := path.Base(f.Path); !strings.Contains(base, ".so") && path.Ext(base) != ".a" {
			continue
		}
		text, _ := regular.Read(d.abs(f.Path))
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

// absentLibs returns absent libraries that a link would use for -lNAME if they existed. They are in
// a -L folder before the one that has it, or shared ones beside a static one.
func (d *drivers) absentLibs(argv []string) (missing []string) {
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

// linked returns the folders of -L, followed by those of LIBRARY_PATH, and the file names that each
// -l may stand for in a folder.
func (d *drivers) linked(argv []string) (dirs []string, libs [][]string) {
	args := host.LinkerWords(argv)
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

// linkTrace is the parsed output of a linker: the files that it opened or did not find.
type linkTrace struct {
	Complete bool     // the trace is not truncated
	Read     []string // files, libraries and their scripts among them
	Missing  []string
	Needs    bool   // it searched for a library that another library needs
	Rest     []byte // other output
}

// parseLinkTrace reads the standard output of a link with --verbose by GNU ld (2.40):
//
//	GNU ld (GNU Binutils for Debian) 2.40
//	  Supported emulations: ...
//	using internal linker script:
//	==================================================
//	...
//	==================================================
//	/usr/bin/ld: mode elf_x86_64
//	attempt to open l1/libx.so failed
//	attempt to open l2/libx.so succeeded
//	opened script file l2/libx.so
//	cannot find script file more.ld
//	l2/libx.so
//	l2/../objects/member_of_thin_archive.o
//	libm.so.6 needed by l2/libx.so
//	found libm.so.6 at /lib/x86_64-linux-gnu/libm.so.6
//
// A line that is the name of a file, as isFile reports, names a file that was linked.
func parseLinkTrace(text []byte, isFile func(name string) bool) (t linkTrace) {
	if !bytes.HasPrefix(text, []byte("GNU ld ")) {
		return linkTrace{Rest: text}
	}
	const bar = "==================================================\n"
	bars, needed := 0, false
	read := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line == bar {
			bars++
			continue
		}
		if bars%2 == 1 || bars == 0 {
			continue
		}
		name := strings.TrimSuffix(line, "\n")
		failed, found := false, true
		switch {
		case strings.HasPrefix(name, "attempt to open ") && strings.HasSuffix(name, " failed"):
			name, failed = name[len("attempt to open "):len(name)-len(" failed")], true
		case strings.HasPrefix(name, "cannot find script file "):
			name, failed = strings.TrimPrefix(name, "cannot find script file "), true
		case strings.HasPrefix(name, "attempt to open ") && strings.HasSuffix(name, " succeeded"):
			name = name[len("attempt to open ") : len(name)-len(" succeeded")]
		case strings.HasPrefix(name, "opened script file "):
			name = strings.TrimPrefix(name, "opened script file ")
		case strings.HasPrefix(name, "found ") && strings.Contains(name, " at "):
			_, name, _ = strings.Cut(name, " at ")
			t.Needs = t.Needs || !read[name]
			needed = false
		case strings.Contains(name, " needed by "):
			t.Needs = t.Needs || needed // the previous one was not found
			found, needed = false, true
		case strings.Contains(name, ": mode elf"), strings.HasPrefix(name, "using "):
			found = false
		default:
			if found = isFile(name); !found {
				t.Rest = append(t.Rest, line...)
			}
		}
		switch {
		case failed:
			t.Missing = append(t.Missing, name)
		case found && !read[name]:
			read[name] = true
			t.Read = append(t.Read, name)
		}
	}
	t.Complete, t.Needs = bars >= 2, t.Needs || needed
	return t
}

// A shared library that a link names may need others. GNU ld searches for those in the folders of
// -rpath-link, of the library itself, and last in those of the dynamic loader. It reads the latter
// from ld.so.conf and its includes. It links no code of those libraries, but a program exports the
// symbols that they refer to. A record of such a link has the text of these lists as a condition.

// loaderLists are the paths where GNU ld looks for the list. The first is in the prefix that Debian
// and others build it with.
var loaderLists = []string{"/usr/etc/ld.so.conf", "/etc/ld.so.conf"}

// loader reads the lists once in a run.
type loader struct {
	build  Build
	once   sync.Once
	digest cache.Digest
	paths  []string
	texts  []byte // of all lists, each with its name and size
}

// conf returns the current digest of the condition, and the paths that it depends on.
func (l *loader) conf() (cache.Digest, []string) {
	l.once.Do(func() {
		for _, list := range loaderLists {
			l.read(list)
		}
		l.digest = sha256.Sum256(l.texts)
	})
	return l.digest, l.paths
}

// pathsOf returns the paths that the condition of a record depends on, if the record has it.
func (l *loader) pathsOf(rec *cache.Record) []string {
	if !discovers(rec, loaderMark) {
		return nil
	}
	_, paths := l.conf()
	return paths
}

// read appends the text of a list and of those that it includes, once for each.
func (l *loader) read(file string) {
	if slices.Contains(l.paths, file) {
		return
	}
	l.paths = append(l.paths, file)
	text, err := regular.Read(file)
	if err != nil {
		return
	}
	l.build.Digest(file) // registers the file, so that the next build checks it by stat
	l.texts = fmt.Appendf(l.texts, "%s %d\n%s", file, len(text), text)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "include" {
			continue
		}
		for _, pattern := range words[1:] {
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(file), pattern)
			}
			l.paths = append(l.paths, path.Dir(pattern))
			found, _ := filepath.Glob(pattern)
			for _, f := range found {
				l.read(f)
			}
		}
	}
}

// A test finds the toolkit's libraries by the folders that kbuild prepends to its LD_LIBRARY_PATH.
// The libraries that it loads from them are not declared inputs: its programs and libraries name
// them. Libraries that a program opens by name at run time (dlopen) are not found.

// Loaded returns the shared libraries that a test loads from the folders that kbuild adds, in the
// order in which they are needed, and the absent paths that the loader would prefer to one of them
// or to a system library. It returns none before the test's program is built.
func (d *Discovery) Loaded(a *graph.Action) (found, missed []string) {
	dirs := a.Test().LibDirs
	if len(dirs) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	for todo := slices.Clone(a.Inputs); len(todo) > 0; todo = todo[1:] {
		for _, name := range needs(d.abs(todo[0])) {
			if seen[name] || path.Base(name) != name {
				continue // a name with a folder is not searched for
			}
			seen[name] = true
			here, not := d.inFolders(dirs, name)
			found, missed, todo = append(found, here...), append(missed, not...), append(todo, here...)
		}
	}
	return found, missed
}

// inFolders returns the files that the loader may load for a library, from the first folder that
// has it. They are the file in that folder, and builds for some processors (ld.so(8)). All of those
// are returned, whatever the processor of this machine.
func (d *Discovery) inFolders(dirs []string, name string) (found, missed []string) {
	for _, dir := range dirs {
		special := filepath.Join(dir, "glibc-hwcaps")
		subs, err := os.ReadDir(d.abs(special))
		if err != nil {
			missed = append(missed, special)
		}
		for _, sub := range subs {
			if file := filepath.Join(special, sub.Name(), name); d.isFile(file) {
				found = append(found, file)
			} else {
				missed = append(missed, file)
			}
		}
		file := filepath.Join(dir, name)
		if d.isFile(file) {
			return append(found, file), missed
		}
		missed = append(missed, file)
	}
	return found, missed
}

// needs returns the shared libraries that an ELF file names, or none for another file.
func needs(file string) []string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return nil
	}
	names, _ := e.ImportedLibraries() // none without a dynamic section
	return names
}
