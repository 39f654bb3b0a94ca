package nvcc

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
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

// PlainFlags returns an error if flags of the environment name files or a compiler.
func PlainFlags(flags []string) error {
	if len(flags) == 0 {
		return nil
	}
	c, err := ReadCommand(slices.Concat([]string{"nvcc", "-c", "kbuild.cu", "-MD"}, flags))
	switch {
	case err != nil:
		return err
	case c.Output != "kbuild.o" || c.Deps == nil || *c.Deps != (Dependencies{File: "kbuild.d", Target: "kbuild.o"}) || c.CCBin != "" || c.Mode == "lto" || slices.Contains(flags, "-MD"):
		return errors.New("it names files, or a compiler")
	}
	return nil
}

// Whole returns the command with other names for its output and dependency file, in the form of
// Driver.Compile.
func (c *Command) Whole(output, depfile string) []string {
	if c.Linked != nil {
		return slices.Concat(c.Argv, []string{"-o", output}, c.Linked)
	}
	return slices.Concat(c.Argv, []string{"-MD", "-MF", depfile, "-o", output, c.Source})
}

// SearchedFor returns the folder of the toolkit's programs, and the PATH in which nvcc finds its host
// compiler, from a dry run; "" for what it does not show.
func SearchedFor(dryRun string) (programs, path string) {
	for line := range strings.Lines(dryRun) {
		line = strings.TrimSpace(line)
		if dir, ok := strings.CutPrefix(line, "#$ _HERE_="); ok && programs == "" {
			programs = dir
		}
		if list, ok := strings.CutPrefix(line, "#$ PATH="); ok && path == "" {
			path = list
		}
	}
	return programs, path
}

// RefusedAlone is Refused for a command that is not of a manifest. It compiles to output.
func (c *CompilePasses) RefusedAlone(k *cuda.Toolkit, output string) error {
	if len(c.TileIRAS) > 0 {
		return errors.New("it compiles tile code")
	}
	if err := c.Refused(k); err != nil || c.Host == nil {
		return err
	}
	options := c.Host.Unplaced()
	beside := host.BesideObject(k.HostCXX.Family, options, output)
	if beside.Named || beside.Unkept != "" {
		return errors.New("the host compiler writes or reads files beside the object")
	}
	if i := slices.IndexFunc(options, func(o string) bool {
		return slices.Contains([]string{"-v", "-###", "-H", "-Q", "-ftime-report", "-fmem-report"}, o) || strings.HasPrefix(o, "-M") || strings.HasPrefix(o, "-Wp,")
	}); i >= 0 {
		return fmt.Errorf("%s is for the host compiler", options[i])
	}
	return nil
}

// Order returns actions in the order in which nvcc runs the passes, and then those that nvcc does not
// run.
func (c *Command) Order(d DryRun, actions []*graph.Action) (ordered []*graph.Action) {
	rest := slices.Clone(actions)
	take := func(is func(*graph.Action) bool) {
		if i := slices.IndexFunc(rest, is); i >= 0 {
			ordered = append(ordered, rest[i])
			rest = slices.Delete(rest, i, i+1)
		}
	}
	if c.Deps != nil { // then nvcc preprocesses first, and in the order of the command
		archs := c.Archs()
		for _, step := range d.Steps { // if the command names no architecture
			if arch := step.arch(); arch != "" && slices.Contains(step.Argv, "-E") {
				archs = append(archs, "compute_"+arch)
			}
		}
		for _, arch := range append(archs, "host") {
			take(func(a *graph.Action) bool {
				return a.Kind.Info().Writes == graph.FormText && slices.Contains(a.Archs, arch)
			})
		}
	}
	for _, step := range d.Steps {
		take(step.isOf)
	}
	return append(ordered, rest...)
}

// kindOf holds the kind of the action that does the work of a tool.
var kindOf = map[string]graph.Kind{"cicc": graph.CICC, "ptxas": graph.PTXAS, "nvlink": graph.NVLink,
	"cudafe++": graph.Cudafe, "fatbinary": graph.Fatbinary, "gcc": graph.HostPart}

// isOf reports whether an action does the work of a step.
func (s Step) isOf(a *graph.Action) bool {
	kind, arch := kindOf[s.Tool], s.arch()
	if s.Tool == "gcc" && slices.Contains(s.Argv, "-E") {
		kind = graph.Preprocess
	}
	switch {
	case a.Kind != kind:
		return false
	case arch == "":
		return kind.Info().Writes != graph.FormText || slices.Contains(a.Archs, "host")
	}
	return len(a.Archs) == 1 && strings.TrimPrefix(strings.TrimPrefix(a.Archs[0], "compute_"), "sm_") == arch
}

// arch returns the architecture that a step is for, "90a".
func (s Step) arch() string {
	for i, w := range s.Argv {
		if v, ok := strings.CutPrefix(w, "-D__CUDA_ARCH__="); ok { // 900, also for 90a
			return strings.TrimSuffix(v, "0")
		}
		v, joined := strings.CutPrefix(w, "-arch=")
		if w == "-arch" && i+1 < len(s.Argv) {
			v, joined = s.Argv[i+1], true
		}
		if joined {
			return strings.TrimPrefix(strings.TrimPrefix(v, "compute_"), "sm_")
		}
	}
	return ""
}
