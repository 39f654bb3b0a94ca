package toolchain

import (
	"errors"
	"fmt"
	"path"
	"strings"
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

// The names that a question to `nvcc --dryrun` uses; no project has them.
const (
	AskSource = "kbuild_source.cu"
	AskOutput = "kbuild_output"
	AskInput  = "kbuild_input.o"
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
	Tool string // "gcc" for any host compiler, "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink"
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
			question = append(question, AskOutput)
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
		if name, value, ok := assignment(rest); ok {
			d.assign(name, value)
			assigned[name] = value
			continue
		}
		argv, err := ShellWords(rest, assigned)
		if err != nil {
			return d, fmt.Errorf("%w in %q", err, rest)
		}
		if len(argv) == 0 || argv[0] == "rm" || argv[0] == "erase" {
			continue
		}
		tool, err := toolOf(argv)
		if err != nil {
			return d, err
		}
		d.Steps = append(d.Steps, Step{tool, argv})
	}
	if len(d.Steps) == 0 {
		return d, errors.New("nvcc --dryrun shows no steps")
	}
	return d, nil
}

// assign keeps what the steps may look at. Variables with an underscore are nvcc's own; LIBRARIES, INCLUDES and
// the like are in the steps already.
func (d *DryRun) assign(name, value string) {
	switch name {
	case "NVVMIR_LIBRARY_DIR", "LD_LIBRARY_PATH":
		d.Env = append(d.Env, name+"="+strings.TrimSpace(value))
	}
}

// assignment splits NAME=value.
func assignment(s string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(s, "=")
	if !ok || name == "" || variableName(name) != name {
		return "", "", false
	}
	return name, value, true
}

// toolOf names the tool of a step. A step that only a shell understands is not known.
func toolOf(argv []string) (string, error) {
	base := path.Base(argv[0])
	switch base {
	case "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink":
		return base, nil
	}
	for _, a := range argv[1:] {
		if a == "-c" || a == "-E" {
			return "gcc", nil
		}
	}
	return "", fmt.Errorf("nvcc --dryrun shows a step that is not known: %s", strings.Join(argv, " "))
}

// ShellWords splits a command as the shell does what nvcc prints: blanks, double quotes, backslashes, and the variables of
// assigned. Anything else that a shell would expand or connect is an error.
func ShellWords(s string, assigned map[string]string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("\"\\$`", s[i+1]) >= 0):
			i++
			word.WriteByte(s[i])
			inWord = true
		case c == '"':
			quoted, inWord = !quoted, true
		case c == '$':
			value, length, err := expand(s[i:], assigned, quoted)
			if err != nil {
				return nil, err
			}
			word.WriteString(value)
			inWord = true
			i += length - 1
		case c == '`':
			return nil, errors.New("a backquote")
		case quoted:
			word.WriteByte(c)
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case strings.IndexByte("|&;<>()'", c) >= 0:
			return nil, fmt.Errorf("the shell's %q", c)
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quoted {
		return nil, errors.New("an open quote")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// expand gives the value of the variable that s starts with, and how much of s names it. A shell would split and match a value
// outside of quotes, and whether it looks into one that has a '$' of its own depends on who set the variable: both are errors.
func expand(s string, assigned map[string]string, quoted bool) (value string, length int, err error) {
	name := variableName(s[1:])
	length = 1 + len(name)
	if inner, _, ok := strings.Cut(s[1:], "}"); ok && strings.HasPrefix(inner, "{") {
		name = variableName(inner[1:])
		length = 1 + len(inner) + 1
		if len(name) != len(inner)-1 {
			name = "" // ${NAME:-other} and the like
		}
	}
	value, ok := assigned[name]
	switch {
	case name == "" || !ok:
		return "", 0, errors.New("a '$' that stands for nothing which nvcc says")
	case strings.ContainsAny(value, "$`\"\\\n"), !quoted && (value == "" || strings.ContainsAny(value, " \t*?['")):
		return "", 0, fmt.Errorf("$%s, whose value a shell might change", name)
	}
	return value, length, nil
}

// variableName is the name of a variable at the start of s, "" if there is none.
func variableName(s string) string {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return s[:i]
		}
	}
	return s
}
