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

// The options of nvcc (--help of 11.8 to 13.5), by their short names: short=long. Both may have one
// dash or two.
const (
	// The value may be the next argument. If an option is missing here, its value looks like a second
	// source, and ReadCommand returns an error.
	takingValue = `o=output-file include=pre-include l=library D=define-macro U=undefine-macro I=include-path
		isystem=system-include L=library-path odir=output-directory ccbin=compiler-bindir arbin=archiver-binary cudart
		cudadevrt ldir=libdevice-directory target-dir=target-directory opt-info=optimization-info O=optimize dopt
		ftemplate-backtrace-limit ftemplate-depth x std m=machine Xcompiler=compiler-options Xlinker=linker-options
		Xarchive=archive-options Xptxas=ptxas-options Xnvlink=nvlink-options Xcicc Xcudafe Xfatbin=fatbin-options
		Xnvvm t=threads keep-dir time run-args idp=input-drive-prefix ddp=dependency-drive-prefix dp=drive-prefix
		MT=dependency-target-name MF=dependency-output arch=gpu-architecture code=gpu-code gencode=generate-code
		rdc=relocatable-device-code e=entries maxrregcount ftz prec-div prec-sqrt fmad default-stream Werror
		qpp-config dQ=version-ident diag-error diag-suppress diag-warn hls=host-linker-script split-compile
		Ofc=Ofast-compile jump-table-density jtd fdevice-time-trace static-global-template-stub
		device-entity-has-hidden-visibility brief-diag=brief-diagnostics Xtileiras=tileiras-options stdlib
		apply-controls Xnvprune=nvprune-options fmax-errors split-compile-extended fdevice-time-trace-granularity
		device-stack-protector frandom-seed fdevice-sanitize tile-preview compress-mode optf=options-file`
	flags = `c=compile dc=device-c dw=device-w ptx cubin fatbin dlink=device-link dlto=dlink-time-opt lto
		MD=generate-dependencies-with-compile MMD=generate-nonsystem-dependencies-with-compile
		MP=generate-dependency-targets g=debug G=device-debug lineinfo=generate-line-info E=preprocess
		M=generate-dependencies MM=generate-nonsystem-dependencies cuda optix-ir link lib run dryrun keep save-temps
		clean=clean-targets v=verbose h=help V=version code-ls=list-gpu-code arch-ls=list-gpu-arch use-local-env
		noprof=dont-use-profile r=host-relocatable-link astoolspatch=compile-as-tools-patch
		jobserver no-compress concat objdir-as-tempdir forward-unknown-to-host-compiler use_fast_math O0 O1 O2 O3`

	// These do not compile, or have effects beyond an output and a dependency file. Their commands pass
	// through unsplit.
	wholeAlone = `E M MM cuda optix-ir link lib run dryrun keep keep-dir save-temps clean time v h V code-ls arch-ls odir
		idp ddp dp use-local-env qpp-config noprof hls fdevice-time-trace r optf astoolspatch jobserver`
)

// optionNames holds the short name of each option, and whether it takes a value.
var optionNames = sync.OnceValue(func() map[string]Option {
	names := map[string]Option{}
	for list, value := range map[string]string{takingValue: "value", flags: ""} {
		for _, option := range strings.Fields(list) {
			short, long, _ := strings.Cut(option, "=")
			names[short] = Option{Name: "-" + short, Value: value}
			if long != "" {
				names[long] = names[short]
			}
		}
	}
	return names
})

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
		if err := r.option(o); err != nil {
			return nil, err
		}
	}
	return r.end()
}

// Option is an option in an nvcc command line, or a word that is none.
type Option struct {
	Words []string // as written: two if the value is the next word
	Name  string   // up to the first "="; of a known option the short name with one dash
	Value string   // behind the first "=", or the next word
}

// SplitOptions groups words into options with their values.
func SplitOptions(words []string) (options []Option, err error) {
	for i := 0; i < len(words); i++ {
		o := Option{Words: words[i : i+1 : i+1]}
		var joined bool
		o.Name, o.Value, joined = strings.Cut(words[i], "=")
		if known := optionNames()[strings.TrimLeft(o.Name, "-")]; known.Name != "" && o.Name[0] == '-' {
			if known.Value != "" && !joined {
				if i++; i == len(words) {
					return nil, fmt.Errorf("%s has no value", o.Name)
				}
				o.Words, o.Value = words[i-1:i+1:i+1], words[i]
			}
			o.Name = known.Name
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

	options []string // without those that select architectures
}

func (r *commandReader) option(o Option) error {
	arg, once := o.Words[0], (*string)(nil)
	if known := optionNames()[strings.TrimPrefix(o.Name, "-")]; known.Name == o.Name && known.Value == "" && o.Name != arg && strings.Contains(arg, "=") {
		return fmt.Errorf("%s is not taken apart", arg) // a flag with a value
	}
	switch o.Name {
	case "-c", "-dc", "-dw", "-ptx", "-cubin", "-fatbin":
		end := ".o"
		if len(o.Name) > 3 {
			end = "." + o.Name[1:]
		}
		if r.emit != "" && r.emit != end {
			return fmt.Errorf("%s does not go with another kind of output", arg)
		}
		if r.emit = end; o.Name == "-dc" && r.Mode == "whole" {
			r.Mode = "rdc"
		}
	case "-o":
		once = &r.Output
	case "-MF":
		once = &r.Deps
	case "-MT":
		once = &r.Target
	case "-MD":
		r.deps, r.all = true, true
	case "-MMD":
		r.deps, r.Own = true, true
	case "-MP":
		r.Phony = true
	case "-dlink":
		r.link = true
	case "-arch", "-code", "-gencode":
		if strings.Contains(o.Value, "native") {
			return fmt.Errorf("%s=native depends on the GPUs of this machine", arg)
		}
		if strings.Contains(o.Value, "lto_") {
			r.Mode = "lto"
		}
	case "-x":
		r.cuda = o.Value == "cu"
	case "-ccbin":
		r.HostCompiler = o.Value
	case "-dlto", "-lto":
		r.Mode = "lto"
	case "-rdc":
		if o.Value == "true" && r.Mode == "whole" {
			r.Mode = "rdc"
		}
	default:
		switch {
		case slices.Contains(strings.Fields(wholeAlone), strings.TrimPrefix(o.Name, "-")):
			return fmt.Errorf("%s is not taken apart", arg)
		case strings.HasPrefix(arg, "@"):
			return fmt.Errorf("nvcc knows no %s", arg)
		case arg == "" || arg == "-":
			return fmt.Errorf("the argument %q is not understood", arg)
		case arg[0] != '-':
			r.inputs = append(r.inputs, arg)
			return nil
		}
	}
	switch {
	case once != nil && (*once != "" || o.Value == ""):
		return fmt.Errorf("%s is given twice, or without a value", arg)
	case once != nil:
		*once = o.Value
	case o.Name != "-MD" && o.Name != "-MMD" && o.Name != "-MP":
		r.Argv = append(r.Argv, o.Words...)
		if o.Name != "-arch" && o.Name != "-code" && o.Name != "-gencode" {
			r.options = append(r.options, o.Words...)
		}
	}
	return nil
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
	object := cmp.Or(c.Output, stem+".o") // the default target, of -ptx too (11.8 and 13.5)
	c.Output = cmp.Or(c.Output, stem+r.emit)
	if r.deps {
		c.Deps = cmp.Or(c.Deps, strings.TrimSuffix(c.Output, path.Ext(c.Output))+".d")
		c.Target = cmp.Or(c.Target, object)
	}
	c.Options = r.options
	return &c, nil
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
	c.Options = r.options
	return &c, nil
}
