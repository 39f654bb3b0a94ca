package host

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Device parses what concerns device code in a command line of a compiler.
type Device interface {
	// Option parses an option. ok is false if it is for the host alone. The error is the reason why
	// the command passes through.
	Option(c *Command, arg string) (ok bool, err error)

	// Compiles reports whether the command compiles device code, and sets its tool and mode.
	// language is that of -x, or "".
	Compiles(c *Command, language string) (bool, error)
}

// Command is a command line of a compiler that a user or another build tool wrote: a compile of one
// source, or a device link. It is parsed as far as planning needs.
type Command struct {
	Tool string // runs it: "nvcc" or "cxx", as in actions

	// Of nvcc, without the files in the other fields. Of other compilers, with replaced output
	// names, with a dependency file of all headers, and for device code without Targets.
	Argv    []string
	Options []string // distinguish compiles of one source: those of Argv without architectures
	Source  string   // as written; "" for a link
	Linked  []string // objects and archives of a device link, as written; nil for a compile
	Output  string   // as written, or the compiler's default
	Mode    string   // "whole", "rdc", "lto", as of a target; "" for plain C and C++

	Archs        []string // of AMD's GPUs, as written, "gfx90a:xnack-", in the order of the command
	ID           string   // identifies the source within any program (-cuid); or ""
	HostCompiler string   // that an option of nvcc names, a program or a folder; or ""

	Deps string // the requested dependency file; "" if there is none
	Own  bool   // it omits headers of the system (-MMD)

	// Of nvcc: the target of the dependency file, and whether it has a rule without prerequisites
	// for each header (-MP).
	Target string
	Phony  bool

	// Of device code: the options for the target of the dependency file, and -MP.
	Targets []string
	named   bool // the command names the target of the dependency file
}

// DefaultTarget returns the options for the target of the dependency file, if the command names
// none. A compiler family has its own default.
func (c *Command) DefaultTarget(family string) []string {
	if c.named || c.Deps == "" {
		return nil
	}
	target := c.Output
	for family == "gcc" && strings.HasPrefix(target, "./") {
		target = target[2:]
	}
	return []string{"-MQ", target}
}

// Dependencies returns the dependency file as nvcc writes it. files are those that the texts of all
// passes were preprocessed from, in the order of the passes. In names nvcc escapes only blanks, and
// in the target nothing.
func (c *Command) Dependencies(files []string) []byte {
	var names []string
	seen := map[string]bool{}
	for _, f := range files {
		if f = strings.ReplaceAll(f, " ", `\ `); !seen[f] {
			seen[f] = true
			names = append(names, f)
		}
	}
	text := c.Target + " : " + strings.Join(names, " \\\n    ") + "\n"
	if c.Phony {
		for _, f := range names[1:] {
			text += "\n" + f + ":\n"
		}
	}
	return []byte(text)
}

// AskOwn returns the command that writes a dependency file without headers of the system, from one
// that compiles and writes a dependency file of all headers. The cache needs all headers.
func AskOwn(compile []string, output, depfile, to string) []string {
	// without -MF, gcc writes the dependency file to -o
	own := map[string]string{"-c": "", "-MD": "", output: os.DevNull, depfile: to}
	return append(rewritten(compile, own), "-MM")
}

// AskText returns the command that writes the preprocessed text of a compile and its dependency
// file. ok is false if an option changes what the preprocessor writes.
func AskText(compile []string, output, depfile, text, deps string) (argv []string, ok bool) {
	argv = rewritten(compile, map[string]string{"-c": "-E", output: text, depfile: deps})
	return append(argv, "-w"), !slices.ContainsFunc(argv, func(arg string) bool {
		return slices.ContainsFunc(ofText, func(start string) bool { return strings.HasPrefix(arg, start) })
	})
}

// rewritten returns a command with other arguments in place of some, "" for none.
func rewritten(argv []string, others map[string]string) (out []string) {
	for _, arg := range argv {
		other, is := others[arg]
		if !is {
			out = append(out, arg)
		} else if other != "" {
			out = append(out, other)
		}
	}
	return out
}

// ofText lists prefixes of options that change what a preprocessor writes, or break the lines of
// messages.
var ofText = []string{"-P", "-C", "-d", "-fdirectives-only", "-fno-directives-only", "-fpreprocessed", "-frewrite-", "-traditional", "-fmessage-length"}

// takesValue returns the options of gcc and clang whose value is the next argument. If an option is
// missing here, its value looks like a second source, and ReadCommand returns an error.
var takesValue = sync.OnceValue(func() []string {
	return strings.Fields(`-o -I -D -U -isystem -iquote -idirafter -include -imacros -x -MF -MT -MQ -Xpreprocessor -Xassembler -Xlinker -Xclang -L -l -T -u -z -e -A -arch
	-aux-info -B -iprefix -iwithprefix -iwithprefixbefore -isysroot -imultilib -imultiarch --param -G -target -mllvm --sysroot -cxx-isystem -dumpbase -dumpdir -wrapper
	-Xarch_host -Xarch_device`)
})

// leftWhole lists prefixes of options that do not compile, have effects beyond an object and a
// dependency file, or depend on more than files. Their commands pass through to the compiler.
var leftWhole = []string{"-E", "-S", "-M", "-fsyntax-only", "-###", "-v", "--version", "--help", "-print", "-dump", "-wrapper", "-B", "-fplugin", "-fmodule", "-fdeps", "-Wp,", "-Xpreprocessor",
	"-frecord-gcc-switches", "-grecord-command-line", "-frecord-command-line", "-ftime-report", "-time", "-fmem-report", "-fstats", "-gsplit-dwarf=single", "-fembed-bitcode", "-save-stats", "-Q", "-fcompare-debug", "--config", "-emit-", "-Xclang", "-mllvm", "-iplugindir"}

// ReadCommand parses the arguments of a compiler, with option files expanded. output and depfile
// replace the names of the output and the dependency file. The error is the reason why the command
// passes through to the compiler.
func ReadCommand(argv []string, output, depfile string, device Device) (*Command, error) {
	r := commandReader{device: device, output: output, depfile: depfile}
	r.Tool, r.Argv = "cxx", argv[:1:1]
	for i := 1; i < len(argv); i++ {
		arg, value := argv[i], ""
		for _, o := range []string{"-MF", "-MT", "-MQ", "-x", "-o"} { // the value may be joined
			// Other options also begin with -o, so that one must end in .o.
			if joined, ok := strings.CutPrefix(arg, o); ok && (o != "-o" || strings.HasSuffix(arg, ".o")) {
				arg, value = o, joined
				break
			}
		}
		if value == "" && slices.Contains(takesValue(), arg) {
			if i++; i == len(argv) {
				return nil, fmt.Errorf("%s has no value", arg)
			}
			value = argv[i]
		}
		if err := r.option(arg, value); err != nil {
			return nil, err
		}
	}
	return r.end()
}

type commandReader struct {
	Command
	device                 Device
	output, depfile        string
	language               string // -x
	compiles, deps, target bool
	depsFile               string // -MF
}

// option parses an argument, and its value if it has one.
func (r *commandReader) option(arg, value string) error {
	if ok, err := r.device.Option(&r.Command, arg); ok || err != nil {
		if ok {
			r.Argv = append(r.Argv, arg)
		}
		return err
	}
	switch {
	case arg == "-c":
		r.compiles = true
	case arg == "-MD", arg == "-MMD":
		if r.deps && r.Own != (arg == "-MMD") {
			return fmt.Errorf("-MD and -MMD are both given")
		}
		r.deps, r.Own = true, arg == "-MMD"
		return nil
	// "-" is standard output; without a value the compiler fails.
	case (arg == "-MF" || arg == "-o") && (value == "" || value == "-"):
		return fmt.Errorf("%s %q names no file", arg, value)
	case arg == "-MF":
		r.depsFile = value
		return nil
	case arg == "-MT", arg == "-MQ":
		r.target = true
		r.Targets = append(r.Targets, arg, value)
	case arg == "-MP":
		r.Targets = append(r.Targets, arg)
	case arg == "-o":
		if r.Output != "" {
			return fmt.Errorf("-o is given twice")
		}
		r.Output, value = value, r.output
	case arg == "-x":
		if r.Source != "" {
			return fmt.Errorf("-x %s is not taken", value)
		}
		r.language = value
	case slices.ContainsFunc(leftWhole, func(start string) bool { return strings.HasPrefix(arg, start) }), strings.HasPrefix(arg, "@"), IsSpecs(arg), arg == "-", arg == "":
		return fmt.Errorf("%q is not taken apart", arg)
	case strings.HasPrefix(arg, "-o"), strings.HasPrefix(arg, "--"):
		return fmt.Errorf("%s is not known", arg)
	case NativeCPU([]string{arg}):
		return fmt.Errorf("%s depends on the processor of this machine", arg)
	case arg[0] != '-':
		if r.Source != "" {
			return fmt.Errorf("%s and %s: there is more than one source, or an option that is not known", r.Source, arg)
		}
		r.Source = arg
	}
	r.Argv = append(r.Argv, arg)
	if slices.Contains(takesValue(), arg) {
		r.Argv = append(r.Argv, value)
	}
	return nil
}

// CXXEndings lists the extensions of C++ sources.
var CXXEndings = []string{".cc", ".cp", ".cxx", ".cpp", ".c++", ".C", ".CPP"}

func (r *commandReader) end() (*Command, error) {
	isDevice, err := r.device.Compiles(&r.Command, r.language)
	switch {
	case !r.compiles || r.Source == "":
		return nil, fmt.Errorf("it is no compile of one source")
	case err != nil:
		return nil, err
	case isDevice:
	case r.language != "" && r.language != "c" && r.language != "c++":
		return nil, fmt.Errorf("-x %s is not taken", r.language)
	case r.language == "" && path.Ext(r.Source) == ".c" && strings.Contains(path.Base(r.Argv[0]), "++"):
		return nil, fmt.Errorf("%s is C, which %s takes for C++", r.Source, path.Base(r.Argv[0]))
	case r.language == "" && path.Ext(r.Source) != ".c" && !slices.Contains(CXXEndings, path.Ext(r.Source)):
		return nil, fmt.Errorf("%s is no C or C++ source", r.Source)
	case slices.Contains([]string{".h", ".hh", ".hpp"}, path.Ext(r.Source)),
		slices.Contains(slices.Collect(maps.Values(gencode.Languages)), path.Ext(r.Source)):
		return nil, fmt.Errorf("%s is no plain C or C++ source", r.Source)
	case r.depsFile != "" && !r.deps, r.target && !r.deps:
		return nil, fmt.Errorf("-MF or -MT without -MD")
	}
	c := r.Command
	stem := strings.TrimSuffix(path.Base(c.Source), path.Ext(c.Source))
	if c.Output == "" {
		c.Output = stem + ".o"
		c.Argv = append(c.Argv, "-o", r.output)
	}
	c.Argv = append(c.Argv, "-MD", "-MF", r.depfile)
	c.named = r.target
	if isDevice {
		for i := 0; i < len(c.Argv); i++ { // without the options for the target of the dependency file
			if n := map[string]int{"-MT": 2, "-MQ": 2, "-MP": 1}[c.Argv[i]]; n > 0 {
				c.Argv = slices.Delete(c.Argv, i, i+n)
				i--
			}
		}
	}
	c.Options = slices.Clone(c.Argv)
	if r.deps {
		if c.Deps = r.depsFile; c.Deps == "" {
			c.Deps = strings.TrimSuffix(c.Output, path.Ext(c.Output)) + ".d"
		}
	}
	output, deps, source := path.Clean(c.Output), path.Clean(c.Deps), path.Clean(c.Source)
	if output == deps || output == source || deps == source {
		return nil, fmt.Errorf("two of source, object and dependency file are one file")
	}
	return &c, nil
}
