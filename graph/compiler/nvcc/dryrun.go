package nvcc

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// nvcc is taken apart with its own words. `nvcc --dryrun --keep --keep-dir D` prints every command
// that it would run, as shell text with stable names, and runs none; the files need not exist.
// ParseDryRun reads that text, LearnCompile and LearnLink find out what each command is for, and
// the planner makes an action of each.
//
// Nothing is taken from the place of a token or of a line: 11.8 starts with the architecture that
// was named last, 12.4 with the host pass, and 13.3 added an option in the middle. A token means
// something by the option before it or by being a file that another step writes; all others are
// passed on as they are. A token that names a file in the kept folder and is neither stops the
// learning, and the caller runs nvcc whole.

// The names that a question to `nvcc --dryrun` uses besides those of package compiler; no project
// has them.
const (
	AskSource = "kbuild_source.cu"
	askKeep   = "kbuild_keep"
	askStem   = "kbuild_source"
)

// DryRun is what nvcc says that it would run.
type DryRun struct {
	Env   []string // variables that nvcc sets for its steps, NAME=value, PATH left out: tools are run by path
	Steps []Step
	Said  string // what the driver said besides, such as a warning about an old architecture
}

// Step is one command.
type Step struct {
	Tool string // "gcc" for any host compiler, "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink"; "" for what is not known
	Argv []string
}

// Ask turns the argv of an nvcc command into the question that nvcc answers with its steps: the
// same without its program, source, output and dependency file, which get names of their own.
func Ask(argv []string, source, output, depfile string) []string {
	question := []string{"--dryrun", "--keep", "--keep-dir", askKeep}
	args := withoutRun(argv[1:])
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-MD" || a == "--objdir-as-tempdir":
		case a == "-MF" && i+1 < len(args) && args[i+1] == depfile:
			i++
		case a == source:
			question = append(question, AskSource)
		case a == output:
			question = append(question, compiler.AskOutput)
		default:
			question = append(question, a)
		}
	}
	return question
}

// AskEnviron is the environment of a question: what nvcc takes from there is treated as Ask treats
// a command.
func AskEnviron(env []string) []string {
	env = slices.Clone(env)
	for i, e := range env {
		if name, flags, _ := strings.Cut(e, "="); name == "NVCC_PREPEND_FLAGS" || name == "NVCC_APPEND_FLAGS" {
			env[i] = name + "=" + strings.Join(withoutRun(strings.Fields(flags)), " ")
		}
	}
	return env
}

// withoutRun leaves out how nvcc runs its steps: before 13.0 a dry run with -t is an error, and
// since
// 13.0 one with -time or -fdevice-time-trace writes the file.
func withoutRun(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch {
		case name != "-t" && name != "--threads" && !IsTime(name):
			out = append(out, args[i])
		case !joined:
			i++
		}
	}
	return out
}

// ParseDryRun reads the output of nvcc --dryrun.
func ParseDryRun(text string) (DryRun, error) {
	var d DryRun
	assigned := map[string]string{} // 12.6 and newer: a step is "$CICC_PATH/cicc"
	for _, line := range strings.Split(text, "\n") {
		rest, ok := strings.CutPrefix(line, "#$ ")
		if !ok {
			if line != "" {
				d.Said += line + "\n"
			}
			continue
		}
		if name, value, ok := compiler.Assignment(rest); ok && !runsTool(value) {
			if !ownVariable(name) {
				d.Env = append(d.Env, name+"="+forSteps(name, value))
			}
			assigned[name] = value
			continue
		}
		rest = redirectRE().ReplaceAllString(rest, "")
		argv, err := compiler.ShellWords(rest, assigned)
		if err != nil {
			return d, fmt.Errorf("%w in %q", err, rest)
		}
		if len(argv) == 0 || argv[0] == "rm" || argv[0] == "erase" {
			continue
		}
		d.Steps = append(d.Steps, Step{toolOf(argv), argv})
	}
	if len(d.Steps) == 0 {
		return d, errors.New("nvcc --dryrun shows no steps")
	}
	return d, nil
}

// redirectRE is the end of each step with -t (13.0 and newer): nvcc shows what the steps say when
// all have ended.
var redirectRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` > \S+ 2>\S+\s*$`) })

// forSteps is a value as the steps get it. NVIDIA's nvcc.profile puts "$(TOP)/lib:" in front of
// LD_LIBRARY_PATH, and where that was empty the end of it stands for the folder that a step runs
// in.
func forSteps(name, value string) string {
	if name == "LD_LIBRARY_PATH" {
		return compiler.LibraryPath(value)
	}
	return strings.TrimSpace(value)
}

// ownVariable reports a variable that nvcc sets for itself: what it says is in the steps. PATH is
// not needed where tools are run by path.
func ownVariable(name string) bool {
	return strings.HasPrefix(name, "_") || strings.HasPrefix(name, "NVCC_") || strings.HasSuffix(name, "_FLAGS") ||
		slices.Contains([]string{"TOP", "PATH", "CICC_PATH", "CUDA_ROOT", "INCLUDES", "SYSTEM_INCLUDES", "LIBRARIES"}, name)
}

// runsTool reports that what looks like the value of a variable is a step with a variable of its
// own: NAME=value cicc ...
func runsTool(value string) bool {
	words := strings.Fields(value)
	return slices.ContainsFunc(words[min(1, len(words)):], func(w string) bool { return isTool(path.Base(strings.Trim(w, `"'`))) })
}

// isTool reports a program of the toolkit that is understood.
func isTool(name string) bool {
	return slices.Contains(Programs, name) || name == TileIRAS
}

// toolOf names the tool of a step, "" for one that is not known.
func toolOf(argv []string) string {
	switch base := path.Base(argv[0]); {
	case isTool(base):
		return base
	case strings.Contains(base, "="): // a variable of the step's own
		return ""
	case slices.Contains(argv[1:], "-c") || slices.Contains(argv[1:], "-E"):
		return "gcc"
	}
	return ""
}
