package host

import (
	"path"
	"slices"
	"strings"
)

// Some options have a compiler write more files than the object, or look for one by the object's
// name: beside it, with another ending (a.cpp.o, a.cpp.gcno, a.cpp.gcda), or where the option says.
// What is known here was seen of gcc 11 and 12, clang 15 and ld 2.40.

// Beside is what a command writes besides its output.
type Beside struct {
	Files  []string // written, always
	Named  bool     // the command must run with the output's own name, which decides what it writes, reads or records
	Folder bool     // it records or looks up a file by the absolute folder that it runs in
	Seed   bool     // gcc marks its files with a number that is random but for -frandom-seed

	Unkept string // an option that writes files which nobody can name before; "" if there is none
	Why    string // more about Unkept, ""
}

// besideObject are options of a compile and the ending of the file that each writes.
var besideObject = []struct{ option, ending, family string }{
	{"-gsplit-dwarf", ".dwo", ""},
	{"--coverage", ".gcno", ""},
	{"-coverage", ".gcno", ""},
	{"-ftest-coverage", ".gcno", ""},
	{"-fstack-usage", ".su", ""},
	{"-fcallgraph-info", ".ci", "gcc"},
	{"-ftime-trace", ".json", "clang"},
}

// byFolder are options that put the name of a .gcda file into the object, or read one, by the
// starts of their names.
var byFolder = []string{"--coverage", "-coverage", "-fprofile-arcs", "-fprofile-generate", "-fprofile-use", "-fbranch-probabilities"}

// unkept are options that write files under names which only the compiler knows, by their starts.
var unkept = []string{"-save-temps", "--save-temps", "-fdump-", "-aux-info", "-dumpdir", "-dumpbase", "-fsave-optimization-record",
	"-foptimization-record-file", "--serialize-diagnostics", "-serialize-diagnostics", "-MJ", "-ftime-trace=", "-fprofile-note", "-time=",
	"-fdiagnostics-add-output", "-fdiagnostics-set-output", "-fdiagnostics-format=json-file", "-fdiagnostics-format=sarif-file", "-fproc-stat-report="}

// BesideObject is what the compile of an object by a host compiler of a family writes.
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
	if lto := IntermediateCode(options); lto != "" && slices.ContainsFunc(b.Files, byLink) {
		i := slices.IndexFunc(options, func(o string) bool {
			return writesAs(o, "-gsplit-dwarf") || writesAs(o, "-fstack-usage") || writesAs(o, "-fcallgraph-info")
		})
		b.Unkept, b.Why = options[i], " together with "+lto
	}
	b.Named = b.Folder || len(b.Files) > 0
	return b
}

// byLink reports a file that a link writes where it compiles, under another name.
func byLink(file string) bool { return slices.Contains([]string{".dwo", ".su", ".ci"}, path.Ext(file)) }

func (b *Beside) add(file string) {
	if file = path.Clean(file); !slices.Contains(b.Files, file) {
		b.Files = append(b.Files, file)
	}
}

// writesAs reports an option, or it with a value: what else the file is to hold
// (-fcallgraph-info=su), or that there be one.
func writesAs(o, option string) bool {
	name, _, _ := strings.Cut(o, "=")
	return name == option
}

// assembler takes the files of the assembler's -a[cdghlmns]=FILE from options that given hands to
// it. Its --MD writes names of its own.
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

// toStream reports an option that writes to standard output or error.
func toStream(option string) bool {
	_, file, _ := strings.Cut(option, "=")
	return file == "stderr" || file == "stdout" || file == "-"
}

// splitsDebug reports debug information in a file of its own. gcc writes that file also where there
// is none, clang does not.
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

// BesideLink is what a link writes: the map that an option of the linker asks for. Others are not
// told of.
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
			option = "-Map" // ld takes the beginnings of its options; -M alone has the map on standard output
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

// LinkerWords are the options of a link with those of the linker without -Wl, and -Xlinker before
// them.
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
