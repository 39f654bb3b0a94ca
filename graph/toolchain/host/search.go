package host

import (
	"path"
	"slices"
	"strings"
)

// The search folders of a compiler depend on flags, environment variables, a sysroot, -B and its
// own installation, in an order that each compiler defines. So kbuild queries the compiler. gcc and
// clang answer alike (gcc 11 and 12, clang 15):
//
//	ignoring nonexistent directory "/usr/local/include/x86_64-linux-gnu"
//	#include "..." search starts here:
//	 quoted
//	#include <...> search starts here:
//	 inc
//	 /usr/include/c++/12
//	End of search list.

// Search holds the folders in which a compile searches for headers.
type Search struct {
	Dirs    []string // in order, those of quoted includes first
	Missing []string // folders that it would search but that do not exist

	NamesRoot bool // one of them is an absolute path of or in the project's folder
}

// own lists options about what a compile reads, writes or defines that do not affect its search
// folders; true for those with a separate value.
var own = map[string]bool{
	"-c": false, "-E": false, "-S": false, "-P": false, "-dU": false, "-dD": false, "-dM": false, "-M": false, "-MM": false, "-MD": false, "-MMD": false,
	"-MP": false, "-MG": false, "-MV": false, "-o": true, "-MF": true, "-MT": true, "-MQ": true, "-x": true, "-D": true, "-U": true, "-include": true, "-imacros": true,
	"-main-file-name": true, "-dependency-file": true, "-include-pch": true, "-fcuda-include-gpubinary": true,
}

// AskSearch converts a gcc or clang command to a query for its search folders, which the compiler
// prints on standard error. files are the words for the files that it reads and writes. language is
// "" for the command's own, or else C++.
func AskSearch(argv, files []string, language string) []string {
	question := argv[:1:1]
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		step, before := 1, ""
		// Each word has its own: -Xclang -MT -Xclang NAME.
		if i+1 < len(argv) && slices.Contains([]string{"-Xclang", "-Xarch_host", "-Xarch_device"}, arg) {
			step, before, arg, i = 2, arg, argv[i+1], i+1
		}
		valued, mine := own[arg]
		switch {
		case arg == "-x" && i+1 < len(argv) && language == "":
			language, i = argv[i+1], i+1
		case mine && valued:
			i += step
		case mine, slices.Contains(files, arg), strings.HasPrefix(arg, "-D"), strings.HasPrefix(arg, "-U"), strings.HasPrefix(arg, "-save-temps"),
			strings.HasPrefix(arg, "-ftime-trace"), // without an output it writes "-.json"
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

// ParseSearch parses the output of the query. ok is false if it has no list. A driver that compiles
// for several architectures prints one for each.
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

// AskFolders converts a driver command to a query for its folders of programs and libraries. It
// keeps only the options that affect them: -B, a sysroot, the machine, specs, another installation,
// and response files, which may contain any of these.
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

// Redirects reports whether a command may make its driver run programs outside of its installation.
func Redirects(argv []string) bool {
	return slices.ContainsFunc(argv, func(arg string) bool {
		return strings.Contains(arg, "-B") || strings.Contains(arg, "--prefix") || strings.Contains(arg, "@") || strings.Contains(arg, "--sysroot") || strings.Contains(arg, "--config")
	})
}

// RedirectsCompile is Redirects for a command that does not link. Its linker options
// (-Wl,-Bsymbolic, which some CMake projects also pass to compiles) have no effect.
func RedirectsCompile(argv []string) bool {
	return Redirects(slices.DeleteFunc(slices.Clone(argv), func(arg string) bool { return strings.HasPrefix(arg, "-Wl,") }))
}

// Folders holds the folders in which a driver searches for its programs and libraries.
type Folders struct {
	Programs, Libraries []string
	Machine             string // gcc's name of the target machine, "x86_64-linux-gnu"
}

// ParseFolders parses the output of -print-search-dirs.
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

// PreprocessOnly converts a gcc or clang compile to a command that writes the preprocessed text. It
// replaces the word named in argv by source.
func PreprocessOnly(argv []string, named, source, output string) []string {
	out := argv[:1:1]
	for i := 1; i < len(argv); i++ {
		switch arg := argv[i]; {
		case arg == "-o" || arg == "-MF" || arg == "-MT" || arg == "-MQ":
			i++
		case arg == "-Xclang" && i+3 < len(argv) && argv[i+1] == "-dependency-file":
			i += 3 // each word has its own: -Xclang -dependency-file -Xclang NAME
		case arg == "-c" || arg == "-E" || arg == "-MD" || arg == "-MMD" || arg == "-MP" || strings.HasPrefix(arg, "-save-temps"):
		case arg == named:
			out = append(out, source)
		default:
			out = append(out, arg)
		}
	}
	return append(out, "-E", "-o", output)
}
