package host

import (
	"path"
	"slices"
	"strings"
)

// Where a compiler searches is asked of the compiler: flags, variables of the environment, a
// sysroot, -B and its own installation all have a say, and each compiler orders them by rules of
// its own. gcc and clang answer alike (gcc 11 and 12, clang 15):
//
//	ignoring nonexistent directory "/usr/local/include/x86_64-linux-gnu"
//	#include "..." search starts here:
//	 quoted
//	#include <...> search starts here:
//	 inc
//	 /usr/include/c++/12
//	End of search list.

// Search is where a compile looks for headers.
type Search struct {
	Dirs    []string // in order, those of quoted includes first
	Missing []string // folders that it would search, and that do not exist

	Placed bool // one of them is spelled by the name of the project's folder
}

// own are options that say what a compile reads, writes or defines, and nothing of where it
// searches; true for those with a value of their own.
var own = map[string]bool{
	"-c": false, "-E": false, "-S": false, "-P": false, "-dU": false, "-dD": false, "-dM": false, "-M": false, "-MM": false, "-MD": false, "-MMD": false,
	"-MP": false, "-MG": false, "-MV": false, "-o": true, "-MF": true, "-MT": true, "-MQ": true, "-x": true, "-D": true, "-U": true, "-include": true, "-imacros": true,
	"-main-file-name": true, "-dependency-file": true, "-include-pch": true, "-fcuda-include-gpubinary": true,
}

// AskSearch turns the command of a gcc or clang into the question where it searches, which it
// answers on its standard error. files are words of it that name what it reads and writes; language
// is "" for the one that it names itself, or else C++.
func AskSearch(argv, files []string, language string) []string {
	question := argv[:1:1]
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		step, before := 1, ""
		if i+1 < len(argv) && slices.Contains([]string{"-Xclang", "-Xarch_host", "-Xarch_device"}, arg) { // before each word: -Xclang -MT -Xclang NAME
			step, before, arg, i = 2, arg, argv[i+1], i+1
		}
		valued, mine := own[arg]
		switch {
		case arg == "-x" && i+1 < len(argv) && language == "":
			language, i = argv[i+1], i+1
		case mine && valued:
			i += step
		case mine, slices.Contains(files, arg), strings.HasPrefix(arg, "-D"), strings.HasPrefix(arg, "-U"), strings.HasPrefix(arg, "-save-temps"),
			strings.HasPrefix(arg, "-ftime-trace"), // which writes "-.json" where there is no output
			strings.HasPrefix(arg, "-frandom-seed="), strings.HasPrefix(arg, "-cuid="), strings.HasPrefix(arg, "-fembed-offload-object="):
		case before != "":
			question = append(question, before, arg)
		default:
			question = append(question, arg)
		}
	}
	if language == "" {
		language = "c++"
		if slices.ContainsFunc(files, func(f string) bool { return path.Ext(f) == ".c" }) {
			language = "c"
		}
	}
	return append(question, "-E", "-v", "-x", strings.TrimSuffix(language, "-cpp-output"), "/dev/null")
}

// ParseSearch reads the answer; ok is false if it is none. A driver that compiles for several
// architectures answers for each.
func ParseSearch(text string) (s Search, ok bool) {
	listing := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch missing, ignored := strings.CutPrefix(line, `ignoring nonexistent directory "`); {
		case ignored:
			s.Missing = appendNew(s.Missing, strings.TrimSuffix(missing, `"`))
		case strings.HasPrefix(line, "#include ") && strings.HasSuffix(line, " search starts here:"):
			listing = true
		case line == "End of search list.":
			listing, ok = false, true
		case listing && strings.HasPrefix(line, " "):
			s.Dirs = appendNew(s.Dirs, strings.TrimSuffix(line[1:], " (framework directory)"))
		}
	}
	return s, ok && !listing
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// AskFolders turns the command of a driver into the question where it looks for programs and
// libraries. Only what decides on that is left of it: -B, a sysroot, the machine, specs, another
// installation, and response files, in which all of these may be.
func AskFolders(argv []string) []string {
	question := argv[:1:1]
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		switch {
		case slices.Contains([]string{"-B", "--prefix", "--sysroot", "-target", "-specs", "--specs", "--gcc-toolchain"}, arg) && i+1 < len(argv):
			i++
			question = append(question, arg, argv[i])
		case slices.ContainsFunc([]string{"-B", "--prefix=", "--sysroot=", "--target=", "-specs=", "--specs=", "--config=", "--gcc-", "-m", "@"}, func(p string) bool { return strings.HasPrefix(arg, p) }):
			question = append(question, arg)
		}
	}
	return append(question, "-print-search-dirs")
}

// Redirects reports a command that may have its driver run other programs than those of its
// installation.
func Redirects(argv []string) bool {
	return slices.ContainsFunc(argv, func(arg string) bool {
		return strings.Contains(arg, "-B") || strings.Contains(arg, "--prefix") || strings.Contains(arg, "@") || strings.Contains(arg, "--sysroot") || strings.Contains(arg, "--config")
	})
}

// RedirectsCompile is Redirects for a command that does not link: what is for the linker
// (-Wl,-Bsymbolic, which CMake has in the flags of some projects' compiles, too) goes nowhere then.
func RedirectsCompile(argv []string) bool {
	return Redirects(slices.DeleteFunc(slices.Clone(argv), func(arg string) bool { return strings.HasPrefix(arg, "-Wl,") }))
}

// Folders are where a driver looks for what it runs and what it links.
type Folders struct {
	Programs, Libraries []string
	Machine             string // what a gcc calls the machine that it compiles for, "x86_64-linux-gnu"
}

// ParseFolders reads what -print-search-dirs says.
func ParseFolders(text string) (f Folders, ok bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if list, is := strings.CutPrefix(line, "programs: ="); is {
			f.Programs = folders(list)
			for _, d := range f.Programs {
				if _, own, ok := strings.Cut(path.Clean(d), "/gcc/"); ok && f.Machine == "" {
					f.Machine, _, _ = strings.Cut(own, "/")
				}
			}
		} else if list, is := strings.CutPrefix(line, "libraries: ="); is {
			f.Libraries, ok = folders(list), true
		}
	}
	return f, ok
}

func folders(list string) (dirs []string) {
	for _, d := range strings.Split(list, ":") {
		if d != "" {
			dirs = appendNew(dirs, d)
		}
	}
	return dirs
}

// PreprocessOnly turns the command of a compile by a gcc or clang into one that writes the
// preprocessed text. named is the source in argv, and source what it is.
func PreprocessOnly(argv []string, named, source, output string) []string {
	out := argv[:1:1]
	for i := 1; i < len(argv); i++ {
		switch arg := argv[i]; {
		case arg == "-o" || arg == "-MF" || arg == "-MT" || arg == "-MQ":
			i++
		case arg == "-Xclang" && i+3 < len(argv) && argv[i+1] == "-dependency-file":
			i += 3 // before each word: -Xclang -dependency-file -Xclang NAME
		case arg == "-c" || arg == "-E" || arg == "-MD" || arg == "-MMD" || arg == "-MP" || strings.HasPrefix(arg, "-save-temps"):
		case arg == named:
			out = append(out, source)
		default:
			out = append(out, arg)
		}
	}
	return append(out, "-E", "-o", output)
}
