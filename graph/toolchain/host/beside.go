package host

import (
	"path"
	"slices"
	"strings"
)

// Some options make a compiler write more files than the object, or read one named after the
// object. Such a file is beside the object with another extension (a.cpp.o, a.cpp.gcno,
// a.cpp.gcda), or where the option says. The tables below were observed with gcc 11 and 12, clang
// 15 and ld 2.40.

// Beside describes what a command writes or reads besides its output.
type Beside struct {
	Files []string // always written

	// The command must run with the output's final name, which decides what it writes, reads or
	// records.
	Named  bool
	Folder bool // it records or looks up a file by its absolute working directory
	Seed   bool // gcc puts a number into its files that is random without -frandom-seed

	// An option that writes files whose names cannot be predicted; "" if there is none.
	Unkept string
	Why    string // more about Unkept, or ""
}

// Refused reports whether a compile that somebody else wrote passes through to its compiler.
func (b Beside) Refused() bool { return b.Named || b.Unkept != "" }

// besideObject lists options of a compile and the extension of the file that each writes.
var besideObject = []struct{ option, ending, family string }{
	{"-gsplit-dwarf", ".dwo", ""},
	{"--coverage", ".gcno", ""},
	{"-coverage", ".gcno", ""},
	{"-ftest-coverage", ".gcno", ""},
	{"-fstack-usage", ".su", ""},
	{"-fcallgraph-info", ".ci", "gcc"},
	{"-ftime-trace", ".json", "clang"},
}

// byFolder lists prefixes of options that put the name of a .gcda file into the object, or read
// one.
var byFolder = []string{"--coverage", "-coverage", "-fprofile-arcs", "-fprofile-generate", "-fprofile-use", "-fbranch-probabilities"}

// unkept lists prefixes of options that write files whose names only the compiler knows.
var unkept = []string{"-save-temps", "--save-temps", "-fdump-", "-aux-info", "-dumpdir", "-dumpbase", "-fsave-optimization-record",
	"-foptimization-record-file", "--serialize-diagnostics", "-serialize-diagnostics", "-MJ", "-ftime-trace=", "-fprofile-note", "-time=",
	"-fdiagnostics-add-output", "-fdiagnostics-set-output", "-fdiagnostics-format=json-file", "-fdiagnostics-format=sarif-file", "-fproc-stat-report="}

// BesideObject returns what the compile of an object writes besides it. family is that of the host
// compiler.
func BesideObject(family string, options []string, object string) Beside {
	var b Beside
	stem := strings.TrimSuffix(object, path.Ext(object))
	for i, o := range options {
		for _, e := range besideObject {
			if writesAs(o, e.option) && (e.family == "" || e.family == family) && !(e.ending == ".dwo" && !splitsDebug(family, options)) {
				b.add(stem + e.ending)
				b.Seed = b.Seed || e.ending == ".gcno" && family == "gcc"
			}
		}
		starts := func(start string) bool { return strings.HasPrefix(o, start) }
		b.Folder = b.Folder || slices.ContainsFunc(byFolder, starts)
		if o == "-da" || slices.ContainsFunc(unkept, starts) && !toStream(o) {
			b.Unkept = o
		}
		switch name, file, ok := strings.Cut(o, "="); {
		case ok && strings.HasPrefix(name, "-fopt-info") && !toStream(o):
			b.add(file)
		case strings.HasPrefix(o, "-Wa,"):
			b.assembler(o, strings.Split(o, ",")[1:])
		case i > 0 && options[i-1] == "-Xassembler":
			b.assembler(o, []string{o})
		}
	}
	if lto := IntermediateCode(options); lto != "" && slices.ContainsFunc(b.Files, func(f string) bool { return slices.Contains([]string{".dwo", ".su", ".ci"}, path.Ext(f)) }) {
		i := slices.IndexFunc(options, func(o string) bool {
			return writesAs(o, "-gsplit-dwarf") || writesAs(o, "-fstack-usage") || writesAs(o, "-fcallgraph-info")
		})
		b.Unkept, b.Why = options[i], " together with "+lto
	}
	b.Named = b.Folder || len(b.Files) > 0
	return b
}

func (b *Beside) add(file string) {
	if file = path.Clean(file); !slices.Contains(b.Files, file) {
		b.Files = append(b.Files, file)
	}
}

// writesAs reports whether o is option, possibly with a value such as an addition to the file
// (-fcallgraph-info=su).
func writesAs(o, option string) bool {
	name, _, _ := strings.Cut(o, "=")
	return name == option
}

// assembler adds the files of the assembler's -a[cdghlmns]=FILE. given is the option that passes
// options to it. Its --MD writes files with unpredictable names.
func (b *Beside) assembler(given string, options []string) {
	for _, o := range options {
		if strings.HasPrefix(o, "--MD") || strings.HasPrefix(o, "-MD") {
			b.Unkept = given
		}
		name, file, ok := strings.Cut(o, "=")
		if letters, list := strings.CutPrefix(name, "-a"); ok && list && strings.Trim(letters, "cdghilmns") == "" {
			b.add(file)
		}
	}
}

// toStream reports whether an option writes to standard output or error.
func toStream(option string) bool {
	_, file, _ := strings.Cut(option, "=")
	return file == "stderr" || file == "stdout" || file == "-"
}

// splitsDebug reports whether options write debug information to a file of its own. gcc writes that
// file even without debug information, clang does not.
func splitsDebug(family string, options []string) bool {
	split, debug := false, false
	for _, o := range options {
		switch {
		case o == "-gsplit-dwarf", o == "-gsplit-dwarf=split":
			split = true
		case o == "-gno-split-dwarf", o == "-gsplit-dwarf=single":
			split = false
		case o == "-g0":
			debug = false
		case strings.HasPrefix(o, "-g"):
			debug = true
		}
	}
	return split && (debug || family != "clang")
}

// BesideLink returns what a link writes besides its output: the map that a linker option requests.
// Other options that write files are Unkept.
func BesideLink(options []string) Beside {
	var b Beside
	words := LinkerWords(options)
	for i, w := range words {
		name, file, joined := strings.Cut(w, "=")
		if !joined && i+1 < len(words) {
			file = words[i+1]
		}
		option := "-" + strings.TrimLeft(name, "-")
		if option == "-Ma" || option == "-M" && joined {
			option = "-Map" // ld accepts abbreviations; -M alone prints the map to standard output
		}
		switch option {
		case "-Map":
			switch {
			case file == "-" || file == "" || strings.HasPrefix(file, "/dev/"):
			case strings.HasSuffix(file, "/") || strings.Contains(file, "%"):
				b.Unkept, b.Why = w, ", of a name that the linker makes"
			default:
				b.add(file)
			}
		case "-reproduce", "-time-trace", "-time-trace-file", "-print-symbol-order", "-save-temps", "-out-implib":
			b.Unkept = w
		}
		if strings.HasPrefix(name, "-fopt-info") && joined && !toStream(w) {
			b.add(file)
		}
		if strings.HasPrefix(w, "-save-temps") || strings.HasPrefix(w, "-fdump-") || strings.HasPrefix(w, "-plugin-opt=save-temps") ||
			strings.HasPrefix(w, "-plugin-opt=-save-temps") {
			b.Unkept = w
		}
	}
	b.Named = len(b.Files) > 0
	return b
}

// LinkerWords returns the options of a link, with those of the linker without their -Wl, or
// -Xlinker.
func LinkerWords(options []string) (words []string) {
	for _, o := range options {
		if list, ok := strings.CutPrefix(o, "-Wl,"); ok {
			words = append(words, strings.Split(list, ",")...)
		} else if o != "-Xlinker" {
			words = append(words, o)
		}
	}
	return words
}
