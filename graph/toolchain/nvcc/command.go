package nvcc

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
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

// refused returns why the words of a command are not parsed, or nil: a shell would change them, or a
// pass may write a file.
func refused(argv []string) error {
	for i, arg := range argv {
		if strings.ContainsAny(arg, ShellChars) {
			return fmt.Errorf("%s: nvcc has a shell expand it", arg)
		}
		for _, pass := range []string{"-Xcudafe", "-Xcicc", "-Xfatbin", "-Xnvvm"} {
			if (strings.HasPrefix(arg, pass) || i > 0 && argv[i-1] == pass) && filesOfPasses().MatchString(arg) {
				return fmt.Errorf("%s may write a file", arg)
			}
		}
	}
	return nil
}

// filesOfPasses matches parts of options by which passes write files.
var filesOfPasses = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`list|xref|output|file|embedded`) })

// Launched returns an error if options of the environment name files or a compiler. known reports
// that compiler is a script that only starts another program with all its arguments, as Debian's
// nvcc is.
func (k *Toolchain) Launched(f *find.Finder, compiler, dir string) (absent []string, known bool, err error) {
	if file, _ := f.Stat(compiler); file.Script {
		text, err := f.Read(compiler)
		known = err == nil && starterRE().Match(text)
	}
	for _, name := range f.PassOptions {
		value := f.Env[name]
		if strings.ContainsAny(value, "@$`") || strings.Contains(value, "optf") || strings.Contains(value, "options-file") {
			return nil, known, fmt.Errorf("%s names a file of options", name)
		}
	}
	for _, name := range flagVariables {
		if err := plainFlags(strings.Fields(f.Env[name])); err != nil {
			return nil, known, fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil, known, nil
}

var starterRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^([ \\t]*(#.*|exec /[^ $`\"'\\\\;|&<>()\\n]+ \"\\$@\")?[ \\t]*(\\n|$))*$")
})

// plainFlags returns an error if flags of the environment name files or a compiler.
func plainFlags(flags []string) error {
	if len(flags) == 0 {
		return nil
	}
	c, err := ReadCommand(slices.Concat([]string{"nvcc", "-c", "kbuild.cu", "-MD"}, flags))
	switch {
	case err != nil:
		return err
	case c.Output != "kbuild.o" || c.Deps != "kbuild.d" || c.Target != "kbuild.o" || c.Own || c.Phony ||
		c.HostCompiler != "" || c.Mode == "lto" || slices.Contains(flags, "-MD"):
		return errors.New("it names files, or a compiler")
	}
	return nil
}

// Command implements toolchain.Commander.
func (k *Toolchain) Command(r toolchain.CommandRequest) (p toolchain.PlannedCommand) {
	c := r.Command
	if k.Toolkit == nil {
		return p.Refuse("%s", k.Missing)
	}
	if host.NativeCPU(slices.Concat(c.Argv, k.Flags)) {
		return p.Refuse("an option depends on the processor of this machine")
	}
	if missing := Missing(k.Programs); missing != "" {
		return p.Refuse("%s", missing)
	}
	output := r.Output + path.Ext(c.Output)
	whole := &graph.Action{
		Kind: graph.Compile, Name: c.Source, Mode: c.Mode, Inputs: []string{c.Source},
		Argv:    slices.Concat(c.Argv, []string{"-MD", "-MF", r.Depfile, "-o", output, c.Source}),
		Outputs: []string{output}, Depfile: r.Depfile, Tools: []string{"nvcc"},
		Work: graph.Work{Driver: &graph.Driver{}},
	}
	ask := whole.Argv
	if c.Linked != nil {
		whole.Kind, whole.Name = graph.DeviceLink, c.Output
		whole.Inputs, whole.Depfile = c.Linked, ""
		whole.Argv = slices.Concat(c.Argv, []string{"-o", r.Output}, c.Linked)
		whole.Work.Link = &graph.Link{LTO: c.Mode == "lto"}
		ask = slices.Concat(c.Argv, []string{"-o", output, toolchain.QueryInput})
	}
	q := toolchain.Question{Tool: "nvcc", By: "nvcc --dryrun", Args: Query(ask, c.Source, output, r.Depfile)}
	run, known := r.Answers.Runs[q.Key()]
	p.HostCXX, p.Installed = k.HostCXX.Path, k.Root
	p.Programs, p.Path = assigned(run.Text, "_HERE_"), assigned(run.Text, "PATH")
	if known && run.Error == "" && p.Path == "" {
		return p.Refuse("nvcc --dryrun does not say where it finds gcc")
	}
	id := ModuleID(r.Label, r.Source, r.Variant)
	u := toolchain.Unit{Whole: whole, Dir: r.Dir, ID: id, Named: r.Named, Plan: &p.Plan,
		Layout: r.Layout, Files: r.Files, Own: c.Own, Plain: true}
	if c.Linked != nil {
		passes, err := toolchain.Learn(&r.Answers, q, LearnLink)
		if err == nil && passes.Host == nil {
			err = errors.New("the link makes no object")
		}
		if err == nil {
			s := NewSplit(u, k.Toolkit, passes.Env)
			p.Printed = passes.Said
			var files []File
			for i, in := range c.Linked { // a file that is linked twice has one slice
				files = append(files, File{Path: in, Slice: fmt.Sprint(slices.Index(c.Linked[:i+1], in), path.Ext(in))})
			}
			if err = s.Link(passes, files); err == nil {
				p.Order = s.ordered(c)
			}
		}
		p.Refused = err
		return p
	}
	passes, err := toolchain.Learn(&r.Answers, q, LearnCompile)
	if err == nil {
		err = k.refusedAlone(passes, c.Output)
	}
	if err == nil && passes.Host == nil && c.Deps != "" {
		q.Args = append(slices.Clone(q.Args), "-MD")
		passes.Preprocess["host"], err = toolchain.Learn(&r.Answers, q, LearnHostText)
	}
	if err != nil {
		p.Refused = err
		return p
	}
	p.Lines = host.RecordsLines(passes.Options())
	u.Shown = r.Shown && !p.Lines
	u.Lines = p.Lines || strings.Contains(path.Base(k.HostCXX.Path), "clang")
	s := NewSplit(u, k.Toolkit, passes.Env)
	if p.Lines {
		s.Env = append(s.Env[1:], s.Env[0]) // the order is part of keys
	}
	s.Compile(passes)
	p.Printed, p.Order = passes.Said, s.ordered(c)
	return p
}

// assigned returns the value of a variable in a dry run; "" if it has none.
func assigned(dryRun, name string) string {
	_, rest, _ := strings.Cut("\n"+dryRun, "\n#$ "+name+"=")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// refusedAlone is Refused for a command that is not of a manifest. It compiles to output.
func (k *Toolchain) refusedAlone(c *CompilePasses, output string) error {
	if len(c.TileIRAS) > 0 {
		return errors.New("it compiles tile code")
	}
	if err := c.Refused(k.Toolkit); err != nil || c.Host == nil {
		return err
	}
	options := c.Host.Unplaced()
	if host.BesideObject(k.HostCXX.Family, options, output).Refused() {
		return errors.New("the host compiler writes or reads files beside the object")
	}
	if i := slices.IndexFunc(options, func(o string) bool {
		return slices.Contains([]string{"-v", "-###", "-H", "-Q", "-ftime-report", "-fmem-report"}, o) ||
			strings.HasPrefix(o, "-M") || strings.HasPrefix(o, "-Wp,")
	}); i >= 0 {
		return fmt.Errorf("%s is for the host compiler", options[i])
	}
	return nil
}

var virtualArch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bcompute_\w+`) })

// ordered returns the actions of s in the order in which nvcc runs the passes of c, and then those
// that nvcc does not run. If c writes a dependency file, nvcc preprocesses first, in the order in
// which c names architectures.
func (s *Split) ordered(c *host.Command) []*graph.Action {
	archs := virtualArch().FindAllString(strings.Join(c.Argv, " "), -1)
	rank := func(a *graph.Action) (phase, n int) {
		step, runs := s.steps[a]
		switch {
		case c.Deps == "" || a.Kind.Info().Writes != graph.FormText:
		case a.Archs[0] == "host":
			return 1, 0
		case slices.Contains(archs, a.Archs[0]):
			return -1, slices.Index(archs, a.Archs[0])
		default: // c names no architecture
			return 0, step
		}
		if !runs {
			return 3, 0
		}
		return 2, step
	}
	order := slices.Clone(s.Plan.Actions)
	slices.SortStableFunc(order, func(a, b *graph.Action) int {
		phase, n := rank(a)
		other, m := rank(b)
		return cmp.Or(phase-other, n-m)
	})
	return order
}
