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
