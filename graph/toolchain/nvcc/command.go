package nvcc

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// takesValue returns the nvcc options whose value may be the next argument (--help of 11.8 to
// 13.5). If an option is missing here, its value looks like a second source, and ReadCommand
// returns an error.
var takesValue = sync.OnceValue(func() []string {
	return strings.Fields(`-o --output-file -include --pre-include -l --library -D --define-macro -U --undefine-macro -I --include-path -isystem --system-include
	-L --library-path -odir --output-directory -ccbin --compiler-bindir -arbin --archiver-binary -cudart --cudart -cudadevrt --cudadevrt -ldir --libdevice-directory
	-target-dir --target-directory -opt-info --optimization-info -O --optimize -dopt --dopt -ftemplate-backtrace-limit --ftemplate-backtrace-limit
	-ftemplate-depth --ftemplate-depth -x --x -std --std -m --machine -Xcompiler --compiler-options -Xlinker --linker-options -Xarchive --archive-options
	-Xptxas --ptxas-options -Xnvlink --nvlink-options -Xcicc -Xcudafe -Xfatbin -Xnvvm -t --threads -keep-dir --keep-dir -time --time -run-args --run-args
	-idp --input-drive-prefix -ddp --dependency-drive-prefix -dp --drive-prefix -MT --dependency-target-name -MF --dependency-output -arch --gpu-architecture
	-code --gpu-code -gencode --generate-code -rdc --relocatable-device-code -e --entries -maxrregcount --maxrregcount -ftz --ftz -prec-div --prec-div
	-prec-sqrt --prec-sqrt -fmad --fmad -default-stream --default-stream -Werror --Werror -qpp-config --qpp-config -dQ --version-ident -diag-error --diag-error
	-diag-suppress --diag-suppress -diag-warn --diag-warn -hls --host-linker-script -split-compile --split-compile -Ofc --Ofast-compile
	-jump-table-density --jump-table-density -fdevice-time-trace --fdevice-time-trace -static-global-template-stub --static-global-template-stub
	-device-entity-has-hidden-visibility --device-entity-has-hidden-visibility -brief-diag --brief-diagnostics -Xtileiras --tileiras-options -stdlib --stdlib
	-apply-controls --apply-controls -Xnvprune --nvprune-options -fmax-errors --fmax-errors -split-compile-extended --split-compile-extended -jtd
	-fdevice-time-trace-granularity --fdevice-time-trace-granularity -device-stack-protector --device-stack-protector -frandom-seed --frandom-seed
	-fdevice-sanitize --fdevice-sanitize -tile-preview --tile-preview -compress-mode --compress-mode -fatbin-options --fatbin-options`)
})

// wholeAlone returns options that do not compile, or have effects beyond an output and a dependency
// file. Their commands pass through unsplit.
var wholeAlone = sync.OnceValue(func() []string {
	return strings.Fields(`-E --preprocess -M --generate-dependencies -MM --generate-nonsystem-dependencies
	-cuda --cuda -optix-ir --optix-ir -link --link -lib --lib -run --run -dryrun --dryrun -keep --keep -keep-dir --keep-dir
	-save-temps --save-temps -clean --clean-targets -time --time -v --verbose -h --help -V --version -code-ls --list-gpu-code -arch-ls --list-gpu-arch
	-odir --output-directory -idp --input-drive-prefix -ddp --dependency-drive-prefix -dp --drive-prefix -use-local-env --use-local-env -qpp-config --qpp-config
	-noprof --dont-use-profile -hls --host-linker-script -fdevice-time-trace --fdevice-time-trace -r --host-relocatable-link -optf --options-file
	-astoolspatch --compile-as-tools-patch -jobserver --jobserver`)
})

// emits returns the extension of the output that an option selects; "" for any other option.
func emits(option string) string {
	switch option {
	case "-c", "--compile", "-dc", "--device-c", "-dw", "--device-w":
		return ".o"
	case "-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin":
		return "." + strings.TrimLeft(option, "-")
	}
	return ""
}

// ReadCommand parses the arguments of nvcc, with option files expanded. The error is the reason why
// the command passes through to nvcc.
func ReadCommand(argv []string) (*host.Command, error) {
	if err := refused(argv); err != nil {
		return nil, err
	}
	r := commandReader{Command: host.Command{Tool: "nvcc", Argv: argv[:1:1], Mode: "whole"}}
	options, err := SplitOptions(argv[1:])
	if err != nil {
		return nil, err
	}
	for _, o := range options {
		if err := r.option(o.Words[len(o.Words)-1], o.Name, o.Value, len(o.Words) == 2); err != nil {
			return nil, err
		}
	}
	return r.end()
}

// Option is an option in an nvcc command line, or a word that is none.
type Option struct {
	Words       []string // as written: two if the value is the next word
	Name, Value string   // split at the first "=", or the two words
}

// SplitOptions groups words into options with their values.
func SplitOptions(words []string) (options []Option, err error) {
	for i := 0; i < len(words); i++ {
		o := Option{Words: words[i : i+1 : i+1]}
		var joined bool
		if o.Name, o.Value, joined = strings.Cut(words[i], "="); !joined && slices.Contains(takesValue(), o.Name) {
			if i++; i == len(words) {
				return nil, fmt.Errorf("%s has no value", o.Name)
			}
			o.Words, o.Value = words[i-1:i+1:i+1], words[i]
		}
		options = append(options, o)
	}
	return options, nil
}

type commandReader struct {
	host.Command
	link   bool     // -dlink
	inputs []string // arguments that are no options
	emit   string   // the extension of the output
	deps   bool     // -MD or -MMD
	all    bool     // -MD
	cuda   bool     // -x cu
}

// option parses an argument, or an option with its value as the next argument.
func (r *commandReader) option(arg, name, value string, separate bool) error {
	once := func(to *string) error {
		if *to != "" || value == "" {
			return fmt.Errorf("%s is given twice, or without a value", name)
		}
		*to = value
		return nil
	}
	if end := emits(arg); end != "" && !separate {
		if r.emit != "" && r.emit != end {
			return fmt.Errorf("%s does not go with another kind of output", arg)
		}
		r.emit = end
	}
	switch {
	case slices.Contains(wholeAlone(), name):
		return fmt.Errorf("%s is not taken apart", name)
	case name == "-o" || name == "--output-file":
		return once(&r.Output)
	case name == "-MF" || name == "--dependency-output":
		return once(&r.Deps)
	case name == "-MT" || name == "--dependency-target-name":
		return once(&r.Target)
	case arg == "-MD" || arg == "--generate-dependencies-with-compile":
		r.deps, r.all = true, true
		return nil
	case arg == "-MMD" || arg == "--generate-nonsystem-dependencies-with-compile":
		r.deps, r.Own = true, true
		return nil
	case arg == "-MP" || arg == "--generate-dependency-targets":
		r.Phony = true
		return nil
	case strings.HasPrefix(arg, "@"):
		return fmt.Errorf("nvcc knows no %s", arg)
	case arg == "" || arg == "-":
		return fmt.Errorf("the argument %q is not understood", arg)
	case !separate && arg[0] != '-':
		r.inputs = append(r.inputs, arg)
		return nil
	case arg == "-dlink" || arg == "--device-link":
		r.link = true
	case strings.Contains(value, "native") && slices.Contains(archOptions, name):
		return fmt.Errorf("%s=native depends on the GPUs of this machine", name)
	}
	r.mode(arg, name, value)
	if separate {
		r.Argv = append(r.Argv, name)
	}
	r.Argv = append(r.Argv, arg)
	return nil
}

// mode records options that select the mode, the source language or the host compiler.
func (r *commandReader) mode(arg, name, value string) {
	switch {
	case name == "-x" || name == "--x":
		r.cuda = value == "cu"
	case name == "-ccbin" || name == "--compiler-bindir":
		r.HostCompiler = value
	case arg == "-dlto" || arg == "--dlink-time-opt" || arg == "-lto" || arg == "--lto", strings.Contains(value, "lto_"):
		r.Mode = "lto"
	case arg == "-dc" || arg == "--device-c", (name == "-rdc" || name == "--relocatable-device-code") && value == "true":
		if r.Mode == "whole" {
			r.Mode = "rdc"
		}
	}
}

// end checks that the command is complete, and returns it.
func (r *commandReader) end() (*host.Command, error) {
	if r.link {
		return r.endLink()
	}
	switch {
	case len(r.inputs) == 0:
		return nil, fmt.Errorf("no source is named")
	case len(r.inputs) > 1:
		return nil, fmt.Errorf("%s and %s: there is more than one source, or an option that is not known", r.inputs[0], r.inputs[1])
	}
	r.Source = r.inputs[0]
	switch {
	case r.emit == "":
		return nil, fmt.Errorf("it is no compile of one source")
	case r.all && r.Own:
		return nil, fmt.Errorf("-MD and -MMD are both given")
	case !r.deps && (r.Deps != "" || r.Target != ""):
		return nil, fmt.Errorf("-MF or -MT without -MD")
	case r.Output == "-" || strings.ContainsAny(r.Source+r.Output, ",\"\\\n"):
		return nil, fmt.Errorf("nvcc reads the names %q and %q in a way of its own", r.Source, r.Output)
	case !r.cuda && path.Ext(r.Source) != ".cu":
		return nil, fmt.Errorf("%s is no CUDA source", r.Source)
	}
	c := r.Command
	stem := strings.TrimSuffix(path.Base(c.Source), path.Ext(c.Source))
	if c.Output == "" {
		c.Output = stem + r.emit
	}
	if r.deps {
		c.Deps = cmp.Or(c.Deps, strings.TrimSuffix(c.Output, path.Ext(c.Output))+".d")
		c.Target = cmp.Or(c.Target, c.Output)
	}
	c.Options = withoutArchs(c.Argv)
	return &c, nil
}

// archOptions lists the options that select architectures.
var archOptions = []string{"-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code"}

// withoutArchs returns the options of a command except those that select architectures.
func withoutArchs(argv []string) (options []string) {
	for i := 1; i < len(argv); i++ {
		name, _, joined := strings.Cut(argv[i], "=")
		switch {
		case !slices.Contains(archOptions, name):
			options = append(options, argv[i])
		case !joined:
			i++
		}
	}
	return options
}

// endLink is end for a device link. The order of libraries and objects does not matter (11.8 and
// 13.5): nvcc passes all -l to nvlink first, then the files.
func (r *commandReader) endLink() (*host.Command, error) {
	switch {
	case len(r.inputs) == 0:
		return nil, fmt.Errorf("nothing is linked")
	case r.emit != "":
		return nil, fmt.Errorf("it compiles, too, or makes no object")
	case r.deps:
		return nil, fmt.Errorf("it is a link with a dependency file")
	}
	for _, in := range r.inputs {
		if ext := path.Ext(in); ext != ".o" && ext != ".a" {
			return nil, fmt.Errorf("%s is linked, and is no object or archive", in)
		}
	}
	c := r.Command
	c.Linked = r.inputs
	if c.Output == "" {
		c.Output = "a_dlink.o"
	}
	c.Options = withoutArchs(c.Argv)
	return &c, nil
}
