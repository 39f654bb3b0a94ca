package importer

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// isLinkOption reports whether a flag is for the link. Such flags may be mixed with compile flags.
func isLinkOption(w string) bool {
	return slices.ContainsFunc([]string{"-Wl,", "-Xlinker", "-u", "-T", "-z", "-rdynamic", "-static", "-pthread", "-fuse-ld", "-l", "-L"}, func(start string) bool { return strings.HasPrefix(w, start) }) &&
		!strings.HasPrefix(w, "-lineinfo") && !strings.HasPrefix(w, "-lto") && w != "-use_fast_math"
}

// linkReader interprets the options of a link in order.
type linkReader struct {
	*Build
	dir        string // that relative names start from
	to         *Target
	runtime    string // CUDA runtime: "static", "shared"; "" if not linked
	runtimeDir string // its folder; "" if not given
	system     []string
	whole      bool     // --whole-archive is on
	states     []bool   // saved values of whole, for --push-state
	rpaths     []string // folders that the program searches
	dirs       []string // folders of linked files: kbuild adds them to the rpath
}

var libraryRE = pattern(`^lib(.+)\.(a|so)[0-9.]*$`)

// option interprets a link option and its values. Compile options have no effect on a link and are
// dropped. Paths are dropped too, since kbuild writes its own.
func (l *linkReader) option(role string, option []string) {
	word := option[0]
	if word == "-l" || word == "-L" {
		word = strings.Join(option, "")
	}
	name, isLib := strings.CutPrefix(word, "-l")
	var file []string
	if !strings.HasPrefix(word, "-") {
		file = libraryRE().FindStringSubmatch(path.Base(word))
	}
	if file != nil && strings.HasPrefix(file[1], "cudart") || file != nil && file[1] == "cudadevrt" {
		name, isLib, l.runtimeDir = file[1], true, path.Dir(word)
	}
	switch {
	case isLib && name == "cudart_static":
		l.runtime = "static"
	case isLib && name == "cudart":
		l.runtime = "shared"
	case isLib && name == "cudadevrt":
	case isLib && slices.Contains([]string{"rt", "pthread", "dl"}, name): // perhaps for the runtime
		l.system = appendNew(l.system, name)
	case isLib:
		l.to.Libs = appendNew(l.to.Libs, name)
		if l.whole {
			l.lostWhole(word)
		}
	case strings.HasPrefix(word, "-L"):
		l.dirs = append(l.dirs, word[2:])
		for _, dir := range l.folders(l.to.Name, l.dir, []string{word[2:]}) {
			if !l.implicit[dir] {
				l.to.LibDirs = appendNew(l.to.LibDirs, dir)
			}
		}
	case !strings.HasPrefix(word, "-"):
		l.file(word, file)
	case strings.HasPrefix(word, "-Wl,"):
		if kept := l.linker(role, strings.Split(word, ",")[1:]); len(kept) > 0 {
			l.to.LinkFlags = append(l.to.LinkFlags, "-Wl,"+strings.Join(kept, ","))
		}
	case word == "-Xlinker":
		var words []string
		for i := 1; i < len(option); i += 2 {
			words = append(words, option[i])
		}
		for _, w := range l.linker(role, words) {
			l.to.LinkFlags = append(l.to.LinkFlags, word, w)
		}
	case slices.ContainsFunc([]string{"-O", "-D", "-g", "-std", "-flto", "-fno-fat-lto-objects", "-shared", "-fPI", "-W", "-I", "-isystem", "-M"},
		func(start string) bool { return strings.HasPrefix(word, start) }):
	default:
		for _, w := range option {
			l.to.LinkFlags = append(l.to.LinkFlags, l.fromRoot(w))
		}
	}
}

// linker returns the linker words that are carried over. Words that affect only the libraries after
// them are dropped: kbuild links all libraries in one group, in its own order.
func (l *linkReader) linker(role string, words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut("-"+strings.TrimLeft(words[i], "-"), "=")
		switch name {
		case "-whole-archive", "-no-whole-archive":
			l.whole = name == "-whole-archive"
		case "-push-state":
			l.states = append(l.states, l.whole)
		case "-pop-state":
			if last := len(l.states) - 1; last >= 0 {
				l.whole, l.states = l.states[last], l.states[:last]
			}
		case "-start-group", "-end-group", "-(", "-)":
		case "-rpath", "-R", "-rpath-link", "-soname", "-h", "-dependency-file":
			if !joined {
				i++
			}
			if name == "-rpath" || name == "-R" {
				if !joined && i < len(words) {
					value = words[i]
				}
				l.rpaths = append(l.rpaths, strings.Split(value, ":")...)
			}
		case "-as-needed", "-no-as-needed", "-Bstatic", "-Bdynamic", "-dn", "-dy":
			if role == "flags" && name == "-as-needed" {
				kept = append(kept, words[i])
			} else {
				l.note(l.to.Name, "%s, which applies to the libraries behind it", words[i])
			}
		default:
			kept = append(kept, l.fromRoot(words[i]))
		}
	}
	return kept
}

// fromRoot makes a project file in a linker word relative to the root, where kbuild runs linkers.
// CMake names version scripts and similar files by absolute paths.
func (l *linkReader) fromRoot(word string) string {
	start, file := "", word
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
		start, file = name+"=", value
	}
	if !filepath.IsAbs(file) || l.inTree(file) {
		return word
	}
	return start + l.rel("", file)
}

// end adds the rpath folders that kbuild does not add itself, and records the runtime.
func (l *linkReader) end() {
	l.to.runtime, l.to.system, l.to.runtimeDir = l.runtime, l.system, l.runtimeDir
	for _, dir := range l.rpaths {
		if dir != "" && !l.inTree(dir) && !l.implicit[dir] && !slices.Contains(l.dirs, dir) {
			l.to.LinkFlags = append(l.to.LinkFlags, "-Wl,-rpath,"+dir)
		}
	}
}

// lostWhole records that --whole-archive of a system library is lost.
func (l *linkReader) lostWhole(file string) {
	l.note(l.to.Name, "--whole-archive of %s: name the file in a prebuilt with always_link = true", file)
}

// file interprets a linked file.
func (l *linkReader) file(w string, lib []string) {
	abs := w
	if !filepath.IsAbs(w) {
		abs = filepath.Join(l.dir, w)
	}
	plain, _, _ := strings.Cut(path.Base(abs), ".so.") // CMake links libs.so.1.2, reports libs.so
	name, ours := l.made[abs]
	if !ours {
		name, ours = l.made[path.Join(path.Dir(abs), plain+".so")]
	}
	l.dirs = append(l.dirs, path.Dir(abs))
	if ours && l.loose[name] {
		return // its sources were already included
	}
	archive := l.whole && path.Ext(abs) == ".a"
	dir := path.Dir(abs)
	_, err := os.Stat(strings.TrimSuffix(abs, ".a") + ".so")
	switch {
	case ours:
		l.to.Deps = appendNew(l.to.Deps, name)
		if archive {
			l.to.Whole = appendNew(l.to.Whole, name)
		}
	case l.inTree(abs):
		l.note(l.to.Name, "%s, which CMake makes in its build tree", l.rel("", abs))
	case lib == nil:
		l.note(l.to.Name, "%s is linked: only libraries are carried over", w)
	case l.implicit[dir] && (lib[2] == "so" || err != nil):
		l.to.Libs = appendNew(l.to.Libs, lib[1])
		if archive {
			l.lostWhole(w)
		}
		switch {
		case path.Base(dir) == "stubs":
			l.to.LibDirs = appendNew(l.to.LibDirs, dir)
		case !l.searched[dir]:
			l.to.toolkitDirs = appendNew(l.to.toolkitDirs, dir)
		}
	default:
		l.to.Prebuilt = appendNew(l.to.Prebuilt, l.rel(l.dir, w))
		if archive {
			l.to.Whole = appendNew(l.to.Whole, l.rel(l.dir, w))
		}
	}
}

// runtimes selects the CUDA runtime of every target. If a program has device code, kbuild links the
// runtime with its dependencies and finds its folder. A program with only host code lists the
// runtime as a library.
func (b *Build) runtimes() {
	byName := map[string]*Target{}
	for _, u := range b.Targets {
		byName[u.Name] = u
	}
	for _, u := range b.Targets {
		if u.Kind != "executable" && !u.Shared {
			continue
		}
		device := u.hasDevice() || slices.ContainsFunc(u.Deps, func(d string) bool {
			return byName[d] != nil && !byName[d].Shared && byName[d].hasDevice()
		})
		switch {
		case device && u.runtime == "shared":
			u.CudaRT = "shared"
		case device && u.runtime == "":
			u.CudaRT = "none"
		case !device && u.runtime != "":
			u.Libs = appendNew(u.Libs, map[string]string{"static": "cudart_static", "shared": "cudart"}[u.runtime])
			if u.runtimeDir != "" && !b.searched[u.runtimeDir] {
				u.toolkitDirs = appendNew(u.toolkitDirs, u.runtimeDir)
			}
		}
		if !device || u.runtime == "" {
			u.LibDirs = append(u.LibDirs, u.toolkitDirs...)
			u.Libs = append(u.Libs, u.system...)
		}
	}
}
