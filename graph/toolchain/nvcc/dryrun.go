package nvcc

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// kbuild splits nvcc by its dry run. `nvcc --dryrun --keep --keep-dir D` prints every command that
// it would run, as shell text with stable names, and runs none; the files need not exist.
// ParseDryRun parses that text, LearnCompile and LearnLink determine the purpose of each command,
// and the planner creates an action for each.
//
// The parser never relies on the position of a token or a line: 11.8 starts with the architecture
// that was named last, 12.4 with the host pass, and 13.3 added an option in the middle. A token has
// a meaning by the option before it, or because it names a file that another step writes. All other
// tokens are passed on unchanged. An unexplained token that names a file in the kept folder is an
// error, and the caller runs nvcc unsplit.

// File names in queries to `nvcc --dryrun` besides those of package toolchain; no project uses them.
const (
	QuerySource = "kbuild_source.cu"
	askKeep     = "kbuild_keep"
	askStem     = "kbuild_source"
)

// DryRun is the parsed output of nvcc --dryrun.
type DryRun struct {
	// Variables that nvcc sets for its steps, NAME=value, without PATH: tools are run by path.
	Env   []string
	Steps []Step
	Said  string // other output, such as a warning about an old architecture
}

// Step is one command of a dry run.
type Step struct {
	// "gcc" for any host compiler, "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink"; "" if
	// unknown.
	Tool string
	Argv []string
}

// Query converts the argv of an nvcc command to the arguments of its dry run query. The query has
// no program and no dependency file, and its own names for source and output.
func Query(argv []string, source, output, depfile string) []string {
	question := []string{"--dryrun", "--keep", "--keep-dir", askKeep}
	args := withoutRun(argv[1:])
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-MD" || a == "--objdir-as-tempdir":
		case a == "-MF" && i+1 < len(args) && args[i+1] == depfile:
			i++
		case a == source:
			question = append(question, QuerySource)
		case a == output:
			question = append(question, toolchain.AskOutput)
		default:
			question = append(question, a)
		}
	}
	return question
}

// flagVariables add options to each nvcc command.
var flagVariables = []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}

// QueryEnviron returns the environment of a query. Options in the variables of nvcc are converted
// as Query converts arguments.
func QueryEnviron(env []string) []string {
	env = slices.Clone(env)
	for i, e := range env {
		if name, flags, _ := strings.Cut(e, "="); slices.Contains(flagVariables, name) {
			env[i] = name + "=" + strings.Join(withoutRun(strings.Fields(flags)), " ")
		}
	}
	return env
}

// withoutRun removes the options for how nvcc runs its steps. Before 13.0 a dry run with -t is an
// error, and since 13.0 one with -time or -fdevice-time-trace writes the file.
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

// ParseDryRun parses the output of nvcc --dryrun.
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
		if name, value, ok := toolchain.Assignment(rest); ok && !runsTool(value) {
			switch {
			case ownVariable(name):
			// NVIDIA's nvcc.profile puts "$(TOP)/lib:" in front. If the variable was empty, the
			// trailing entry means the working directory.
			case name == "LD_LIBRARY_PATH":
				d.Env = append(d.Env, name+"="+toolchain.LibraryPath(value))
			default:
				d.Env = append(d.Env, name+"="+strings.TrimSpace(value))
			}
			assigned[name] = value
			continue
		}
		rest = redirectRE().ReplaceAllString(rest, "")
		argv, err := toolchain.ShellWords(rest, assigned)
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

// redirectRE matches the redirection at the end of each step with -t (13.0 and newer): nvcc prints
// the output of all steps after they have ended.
var redirectRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` > \S+ 2>\S+\s*$`) })

// ownVariable reports whether nvcc sets a variable for itself: its value is part of the steps. PATH
// is not needed because tools are run by path.
func ownVariable(name string) bool {
	return strings.HasPrefix(name, "_") || strings.HasPrefix(name, "NVCC_") || strings.HasSuffix(name, "_FLAGS") ||
		slices.Contains([]string{"TOP", "PATH", "CICC_PATH", "CUDA_ROOT", "INCLUDES", "SYSTEM_INCLUDES", "LIBRARIES"}, name)
}

// runsTool reports whether the apparent value of an assignment is a step with a variable of its
// own: NAME=value cicc ...
func runsTool(value string) bool {
	words := strings.Fields(value)
	return slices.ContainsFunc(words[min(1, len(words)):], func(w string) bool { return isTool(path.Base(strings.Trim(w, `"'`))) })
}

// isTool reports whether name is a program of the toolkit that kbuild understands.
func isTool(name string) bool {
	return slices.Contains(Programs, name) || name == TileIRAS
}

// toolOf returns the tool of a step, "" if unknown.
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

// Two parsers process an argument of nvcc before the program gets it. nvcc splits the values of its
// list options (-D, -I, -isystem, -L, -X...) at commas. 11.8 treats brackets as quotes, too, and a
// backslash protects a character. nvcc then writes the result into a shell command: within double
// quotes, where it escapes only '"', or for -X... without quotes. Folders are an exception: nvcc
// keeps their backslashes, and only quotes around a folder protect its commas.
//
// Values quoted by this file reach the program unchanged, tried with random values on 11.8, 13.0
// and 13.5. Some characters cannot be quoted. In folders these are what the shell expands,
// backslashes and quotes. Options of cicc, ptxas and nvlink are parsed once more: UnforwardedChars
// lists theirs.

// The characters that cannot be quoted: in folders of -I, in options of cicc, ptxas and nvlink, and
// in arguments that nvcc gets unquoted.
const (
	UnquotedDirChars = "\"'\\$`"
	UnforwardedChars = "'$`"
	ShellChars       = "$`"
)

var (
	listEscapes  = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `,`, `\,`, `[`, `\[`, `]`, `\]`)
	quotedShell  = strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`")
	shellRemoves = strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`", `\"`, `"`)
)

// defineValue quotes NAME=VALUE for -D.
func defineValue(define string) string { return listEscapes.Replace(quotedShell.Replace(define)) }

// forward quotes flags for a program that nvcc runs. nvcc writes them into its command without
// quotes.
func forward(option string, flags []string) []string {
	var argv []string
	for _, f := range flags {
		var quoted strings.Builder
		for _, c := range f {
			if strings.ContainsRune(" \t\"'\\$`*?[]{}()<>|&;!#~", c) {
				quoted.WriteByte('\\')
			}
			quoted.WriteRune(c)
		}
		argv = append(argv, option, listEscapes.Replace(quoted.String()))
	}
	return argv
}

// ReadList parses the value of -D, or of -I, as nvcc and its shell do.
func ReadList(list string, folders bool) []string {
	var values []string
	var value strings.Builder
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && !folders && i+1 < len(list):
			i++
			value.WriteByte(list[i])
		case c == '"' && folders:
			quoted = !quoted
		case c == ',' && !quoted:
			values = append(values, value.String())
			value.Reset()
		default:
			quoted = quoted != (c == '"')
			value.WriteByte(c)
		}
	}
	values = append(values, value.String())
	for i := range values {
		values[i] = shellRemoves.Replace(values[i])
	}
	return slices.DeleteFunc(values, func(v string) bool { return v == "" })
}
