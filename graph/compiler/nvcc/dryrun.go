package nvcc

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// nvcc is taken apart with its own words. `nvcc --dryrun --keep --keep-dir D` prints every command that it
// would run, as shell text with stable names, and runs none; the files need not exist. ParseDryRun reads
// that text, LearnCompile and LearnLink find out what each command is for, and the planner makes an action
// of each.
//
// Nothing is taken from the place of a token or of a line: 11.8 starts with the architecture that was named
// last, 12.4 with the host pass, and 13.3 added an option in the middle. A token means something by the
// option before it or by being a file that another step writes; all others are passed on as they are. A
// token that names a file in the kept folder and is neither stops the learning, and the caller runs nvcc whole.

// The names that a question to `nvcc --dryrun` uses besides those of package compiler; no project has them.
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

// Ask turns the argv of an nvcc command into the question that nvcc answers with its steps: the same without
// its program, source, output and dependency file, which get names of their own.
func Ask(argv []string, source, output, depfile string) []string {
	question := []string{"--dryrun", "--keep", "--keep-dir", askKeep}
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case a == "-MD" || a == "--objdir-as-tempdir":
		case a == "-MF" && i+1 < len(argv) && argv[i+1] == depfile:
			i++
		case a == "-t" || a == "--threads":
			i++ // how nvcc runs its steps; with --dryrun it is an error
		case strings.HasPrefix(a, "-t=") || strings.HasPrefix(a, "--threads="):
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
		if name, value, ok := compiler.Assignment(rest); ok {
			// Variables with an underscore are nvcc's own; LIBRARIES, INCLUDES and the like are in the steps already.
			if name == "NVVMIR_LIBRARY_DIR" || name == "LD_LIBRARY_PATH" {
				d.Env = append(d.Env, name+"="+strings.TrimSpace(value))
			}
			assigned[name] = value
			continue
		}
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

// toolOf names the tool of a step, "" for one that is not known.
func toolOf(argv []string) string {
	base := path.Base(argv[0])
	switch base {
	case "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink":
		return base
	}
	if slices.Contains(argv[1:], "-c") || slices.Contains(argv[1:], "-E") {
		return "gcc"
	}
	return ""
}
