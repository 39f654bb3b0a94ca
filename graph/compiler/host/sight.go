package host

import (
	"slices"
	"strings"
)

// Sight is what a compile makes, or says, something of.
type Sight int

// A compile sees everything where nobody knows better.
const (
	SeesAll   Sight = iota // comments, or files of which nobody knows
	SeesLines              // code, and the line and the column of all code
	SeesCode               // code, and where it stands in its line and among other lines; not how many lines are before it
)

// seesAll are the starts of options with which a compile may make something of comments or of other files, or of which nobody knows what they have it do.
var seesAll = []string{"@", "-C", "-P", "-E", "-S", "-d", "-M", "-B", "-v", "-Q", "-wrapper", "-traditional", "-ansi", "-trigraphs", "-fplugin", "-iplugindir", "-Xclang", "-Xpreprocessor", "-mllvm",
	"-Wp,", "-Wa,", "-Xassembler", "--config", "-no-integrated-cpp", "-save-temps", "--save-temps", "-specs", "--specs", "-fdump", "-fpreprocessed", "-fdirectives-only", "-finput-charset",
	"-fmodule", "-fimplicit-module", "-fbuiltin-module", "-fprebuilt-module", "-fdeps", "-fpch", "-include-pch", "-emit-", "-fsyntax-only", "-fverbose-asm", "-aux-info", "-iprofile", "-fprofile", "-fauto-profile",
	"-fbranch-prob", "-ftest-coverage", "--coverage", "-coverage", "-fcoverage", "-fthin", "-flto", "-fembed-bitcode", "-funique-internal", "-fcallgraph", "-fstack-usage", "-fopt-info", "-fsave-opt",
	"-foptimization-record", "-fdiagnostics", "-fcompare-debug", "-frecord", "-grecord", "-gembed", "-gsplit", "-fcontract", "-fanalyzer", "-ftime", "-fmem-report", "-fopenacc", "-fparse-all-comments", "-fcomment",
	"-fxray", "-finstrument", "-fgnu-tm", "-arch", "-offload", "-Wdocumentation", "-Weverything", "-Wimplicit-fallthrough=1", "-Wtrailing-whitespace", "-Wleading-whitespace", "-Wc90", "-Wtraditional",
	"-Winvalid-pch", "-ftabstop", "-std=c8", "-std=c90", "-std=gnu8", "-std=gnu90", "-std=iso9899:19"}

// seesLines are the starts of options besides those of RecordsLines with which a compile makes something of line numbers.
var seesLines = []string{"-fopenmp", "-fmacro-backtrace", "-fmax-include"}

// Sees is how much a compile by a host compiler of a family ("gcc", "clang") sees of the headers that it reads.
func Sees(family string, argv []string) Sight {
	if family != "gcc" && family != "clang" || len(argv) == 0 {
		return SeesAll
	}
	sight, options := SeesCode, argv[1:]
	for i := 0; i < len(options); i++ {
		o := options[i]
		starts := func(start string) bool { return strings.HasPrefix(o, start) }
		switch {
		case o == "-MD", o == "-MMD", o == "-MP":
		case o == "-MF", o == "-MT", o == "-MQ", o == "-o", o == "-I", o == "-D", o == "-U", o == "-isystem", o == "-iquote", o == "-idirafter":
			i++
		case o == "-x":
			if i++; i < len(options) && options[i] != "c" && options[i] != "c++" {
				return SeesAll
			}
		case slices.ContainsFunc([]string{"-I", "-D", "-U", "-isystem"}, starts):
		case starts("-x") && o != "-xc" && o != "-xc++", slices.ContainsFunc(seesAll, starts):
			return SeesAll
		case starts("-fsanitize"), starts("-g") && family == "gcc":
			sight = SeesLines
		case RecordsLines([]string{o}): // clang has a digest of each file in debug information
			return SeesAll
		case slices.ContainsFunc(seesLines, starts) && family == "clang":
			sight = SeesLines
		}
	}
	return sight
}

// AskUses is the question which macros a compile uses, of gcc: the text that it writes to a file has a line for each that is expanded or tested. Each of macros
// has a definition from the start, in case that none is left; gcc may warn that it gets another.
func AskUses(argv []string, to string, macros []string) []string {
	question := []string{argv[0]}
	for i := 1; i < len(argv); i++ {
		switch arg := argv[i]; {
		case arg == "-c", arg == "-MD", arg == "-MMD", arg == "-MP":
		case arg == "-MF", arg == "-MT", arg == "-MQ":
			i++
		case arg == "-o":
			i++
			question = append(question, "-o", to)
		default:
			question = append(question, arg)
		}
	}
	for _, m := range macros {
		question = append(question, "-D"+m+"=0")
	}
	return append(question, "-E", "-dU", "-w")
}
