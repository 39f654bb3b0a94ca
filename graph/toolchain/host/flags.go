package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Effects of host compiler options. The last of several options wins, as in gcc and clang.

// Joinable returns an error if device code cannot be inserted into the compiled host code. options
// are those of its compile.
func Joinable(options []string) error {
	if o := IntermediateCode(options); o != "" {
		return fmt.Errorf("%s makes intermediate code of the host code, and a link takes device code from there", o)
	}
	return nil
}

// IntermediateCode returns the option that makes a host compiler put its intermediate code into
// objects, in place of machine code or beside it; "" if there is none. A link uses that code and
// not the sections of the object, so device code cannot be inserted afterwards.
func IntermediateCode(options []string) string {
	lto, bitcode := "", ""
	for _, o := range options {
		name, _, _ := strings.Cut(o, "=")
		switch name {
		case "-flto":
			lto = o
		case "-fno-lto":
			lto = ""
		case "-fembed-bitcode":
			bitcode = o
		}
	}
	return cmp.Or(lto, bitcode)
}

// NativeCPU reports whether an option selects the processor of the machine that runs the compiler.
func NativeCPU(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		return strings.Contains(o, "-march=native") || strings.Contains(o, "-mtune=native") || strings.Contains(o, "-mcpu=native")
	})
}

// AsksForDebug reports whether an option of gcc, clang or nvcc requests debug information that
// names the folder of the build.
func AsksForDebug(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		return o == "-G" || strings.HasPrefix(o, "-g") && !strings.HasPrefix(o, "-gencode") ||
			strings.Contains(o, "lineinfo") || strings.Contains(o, "line-info") || strings.Contains(o, "debug")
	})
}

// AssemblerOptions returns the options that affect the compile of assembler source, and possibly
// others.
func AssemblerOptions(options []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(o string) bool {
		return strings.HasPrefix(o, "-f") || strings.HasPrefix(strings.TrimPrefix(o, "-"), "-coverage")
	})
}

// RecordsLines reports whether an option may put positions of the source into an output.
func RecordsLines(options []string) bool {
	return AsksForDebug(options) || slices.ContainsFunc(options, func(o string) bool {
		return slices.ContainsFunc(lineSigns, func(sign string) bool { return strings.HasPrefix(o, sign) })
	})
}

// lineSigns lists prefixes of options, besides those of debug information, that put positions of
// the source into an output: coverage, profiles, sanitizers, outputs as text or bytecode. Others
// derive names from the source, are for the assembler (possibly debug information), or print
// remarks of clang's optimiser.
var lineSigns = []string{"-fsanitize", "--coverage", "-fprofile", "-fauto-profile", "-fbranch-prob", "-ftest-coverage",
	"-finstrument", "-fplugin", "-flto", "-fverbose-asm", "-fcallgraph-info", "-fdump", "-save-temps", "-Wa,", "-Xassembler", "-funique-internal", "-fembed-bitcode",
	"-fthin", "-fcoverage", "-Rpass"}

// IsSpecs reports whether option names a specs file, which controls how gcc runs its programs.
func IsSpecs(option string) bool {
	return strings.HasPrefix(option, "-specs=") || strings.HasPrefix(option, "--specs=")
}

// SplitOptions groups words into options with their values. An option whose value is the next word
// is two words. A run of -Xclang A -Xclang B is one option, because its words may belong together.
func SplitOptions(words []string) (options [][]string) {
	for i := 0; i < len(words); i++ {
		start := i
		if slices.Contains(takesValue(), words[i]) && i+1 < len(words) {
			i++
		}
		if last := len(options) - 1; last >= 0 && passesOn(words[start]) && options[last][0] == words[start] {
			options[last] = append(options[last], words[start:i+1]...)
		} else {
			options = append(options, slices.Clone(words[start:i+1]))
		}
	}
	return options
}

// passesOn reports whether option passes one word to another program.
func passesOn(option string) bool {
	switch option {
	case "-Xclang", "-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xarch_host", "-Xarch_device", "-mllvm":
		return true
	}
	return false
}

// ReadOptions parses the options of a gcc or clang compile, with or without its files, into the
// terms that Compile takes. sources are the words that are no options.
func ReadOptions(words []string) (o Options, sources []string) {
	for _, option := range SplitOptions(words) {
		arg, value := option[0], strings.Join(option[1:], "")
		switch {
		case slices.Contains([]string{"-c", "-MD", "-MMD", "-MP", "-o", "-MF", "-MT", "-MQ", "-x"}, arg):
		case strings.HasPrefix(arg, "-D"):
			o.Defines = append(o.Defines, arg[2:]+value)
		case strings.HasPrefix(arg, "-I"):
			o.Includes = append(o.Includes, arg[2:]+value)
		case strings.HasPrefix(arg, "-isystem"):
			o.System = append(o.System, strings.TrimPrefix(arg, "-isystem")+value)
		case strings.HasPrefix(arg, "-std="):
			o.Std = strings.TrimPrefix(arg, "-std=")
		case slices.Contains([]string{"-O0", "-O1", "-O2", "-O3", "-Os", "-Ofast"}, arg):
			o.Opt = arg[2:]
		case arg == "-O":
			o.Opt = "1"
		case arg == "-g":
			o.Debug = true
		case arg == "-flto" || strings.HasPrefix(arg, "-flto="):
			o.LTO = []string{arg}
		case arg == "-fno-fat-lto-objects":
		case !strings.HasPrefix(arg, "-"):
			sources = append(sources, arg)
		default:
			o.Flags = append(o.Flags, option...)
		}
	}
	return o, sources
}

// Which options of a link may hide references of host code.

// exporting lists link options that make symbols of a program visible to lookups by name at run
// time.
var exporting = []string{"-rdynamic", "--export-dynamic", "-export-dynamic", "-E", "--dynamic-list", "--export-dynamic-symbol"}

// harmless lists link options that add no host code and name no symbol; harmlessStarts lists
// prefixes of others.
var harmless = []string{"-s", "-S", "-pthread", "-pie", "-no-pie", "-static-libgcc", "-static-libstdc++",
	"--as-needed", "--no-as-needed", "--gc-sections", "--no-gc-sections", "--no-undefined", "--enable-new-dtags", "--disable-new-dtags",
	"--start-group", "--end-group", "--whole-archive", "--no-whole-archive", "--push-state", "--pop-state", "-Bsymbolic"}

var harmlessStarts = []string{"-O", "-g", "-W", "-m", "-f", "-z", "-rpath", "--rpath", "--build-id", "--hash-style", "--strip", "--warn",
	"--no-warn", "--fatal-warnings", "--icf", "--threads", "--sort", "--exclude-libs", "-Map", "--print", "--dynamic-linker",
	"--compress-debug-sections", "--no-allow", "--allow"}

// operands lists options whose value is the next word.
var operands = []string{"-z", "-rpath", "--rpath", "-Map", "--dynamic-linker"}

// HidesReferences returns a link option by which host code that kbuild does not read may refer to
// symbols, with the reason; "" if there is none.
func HidesReferences(flags []string, stripUnused bool) string {
	skip := false
	for _, w := range LinkerWords(flags) {
		if skip {
			skip = false
			continue
		}
		name, _, _ := strings.Cut(w, "=")
		switch {
		case slices.Contains(exporting, name) && !stripUnused:
			return w + ", and others may look exported symbols up (strip_unused = true says that none does)"
		case slices.Contains(exporting, name):
		case name == "-static" || name == "-static-pie":
			return w + ", by which a -l may mean another file"
		case !isHarmless(w):
			return w + ", by which host code may refer to anything (a library belongs into libs)"
		}
		skip = slices.Contains(operands, w)
	}
	return ""
}

func isHarmless(option string) bool {
	return slices.Contains(harmless, option) || !strings.HasPrefix(option, "-flto") && !strings.HasPrefix(option, "-fplugin") &&
		slices.ContainsFunc(harmlessStarts, func(h string) bool { return strings.HasPrefix(option, h) })
}

// LTO selects how host code is optimised across files: gcc has one kind, clang "full" and "thin".
//
// A link must be one process with one thread, because the scheduler accounts for it as one. gcc
// would start several processes by make, and lld one thread for each processor. The output does not
// depend on their number (gcc 12, lld 15). It does depend on the number of partitions, and gcc
// warns if one process compiles several. A user's option comes later and wins: -flto=auto
// -flto-partition=balanced, -Wl,--thinlto-jobs=all.
type LTO struct {
	Family string // "gcc" or "clang"
	Kind   string // "full" or "thin"
	LD     string // of clang: the ld.lld to link with; "" for the one that clang finds
}

// Compile returns the options of a compile. seed identifies the object within a link: gcc derives
// names of sections and symbols from it, and random names without one.
func (h LTO) Compile(seed string) []string {
	if h.Family == "gcc" {
		return []string{"-flto", "-frandom-seed=" + seed}
	}
	return []string{"-flto=" + h.Kind}
}

// Link returns the options of a link, with the optimisation level and debug information of the
// compile.
func (h LTO) Link(opt string, debug bool) []string {
	var argv []string
	if opt != "" {
		argv = append(argv, "-O"+opt)
	}
	if debug {
		argv = append(argv, "-g")
	}
	if h.Family == "gcc" {
		return append(argv, "-flto=1", "-flto-partition=one")
	}
	argv = append(argv, "-flto="+h.Kind, "-fuse-ld=lld")
	if h.LD != "" {
		argv = append(argv, "--ld-path="+h.LD)
	}
	return append(argv, "-Wl,--thinlto-jobs=1") // one link accepts objects of both kinds
}
