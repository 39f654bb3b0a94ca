package clang

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// hipcc is asked as nvcc is: `hipcc -###` prints the commands that clang would run, and with
// HIPCC_VERBOSE=1 before them the clang command that hipcc makes of its own. The first tell what
// enters an output unasked: the device libraries, which no dependency file names. The second tells
// the flags of a clang that is run without hipcc, pass by pass, with the public options that choose
// one (--cuda-device-only --offload-arch=X, --cuda-host-only). Only the bundler's and the linker's
// commands are taken from clang's answer, since no public option asks for them alone.

// The names that a question to hipcc uses.
const (
	AskSource = "kbuild_source.hip"
	hipccSays = "hipcc-cmd:"
)

// folderOptions lead clang to its device libraries. Clang looks there while it is asked, which is
// not in the project's folder.
var folderOptions = []string{"--rocm-path", "--hip-path", "--hip-device-lib-path", "--rocm-device-lib-path"}

// fromRoot makes the value of a folder option absolute. root is "" to leave it.
func fromRoot(arg, root string) string {
	if root == "" || !LooksInRelative(arg) {
		return arg
	}
	option, dir, _ := strings.Cut(arg, "=")
	return option + "=" + path.Join(root, dir)
}

// LooksInRelative reports a folder option with a relative folder.
func LooksInRelative(arg string) bool {
	option, dir, ok := strings.Cut(arg, "=")
	return ok && !path.IsAbs(dir) && slices.Contains(folderOptions, option)
}

// Ask turns the argv of a command of hipcc or clang, which runs in the folder root, into the
// question for its steps, as Ask does for nvcc. What language the source is stands in argv.
func Ask(argv []string, root, source, output string) []string {
	question := []string{"-###"}
	for i := 1; i < len(argv); i++ {
		switch a := fromRoot(argv[i], root); {
		case a == "-MD", strings.HasPrefix(a, CUID):
		case a == forCC1 && i+1 < len(argv) && strings.HasPrefix(argv[i+1], CUID):
			i++
		case a == "-MF":
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

// HIPSteps is what hipcc -### shows, before it is known for what.
type Steps struct {
	Clang []string   // the command of clang: what hipcc made of the question, or the question itself
	Steps [][]string // commands; none if the text was not understood
	Said  string     // then the text
	Error string     // the first line of clang's errors, beside the steps; "" if there is none
}

func ParseSteps(text string, asked []string) (Steps, error) {
	h := Steps{Clang: asked}
	for _, line := range strings.Split(text, "\n") {
		if cmd, ok := strings.CutPrefix(line, hipccSays); ok {
			words, err := compiler.ShellWords(cmd, nil)
			if err != nil {
				return h, fmt.Errorf("%w in %q", err, line)
			}
			h.Clang = words
			continue
		}
		if _, said, is := strings.Cut(line, ": error: "); is && h.Error == "" && !strings.HasPrefix(line, " ") {
			h.Error = said
		}
		if !strings.HasPrefix(line, ` "`) {
			continue // the version, warnings
		}
		words, err := compiler.ShellWords(line, nil)
		if err != nil {
			return h, fmt.Errorf("%w in %.200q", err, line)
		}
		h.Steps = append(h.Steps, words)
	}
	if len(h.Steps) == 0 {
		return h, errors.New("-### shows no steps")
	}
	return h, nil
}

// after is the argument behind an option.
func After(argv []string, option string) string {
	if i := slices.Index(argv, option); i >= 0 && i+1 < len(argv) {
		return argv[i+1]
	}
	return ""
}

// DeviceLibs are the files that a -cc1 command links into the code.
func DeviceLibs(argv []string) []string {
	var libs []string
	for i, a := range argv {
		if (a == "-mlink-builtin-bitcode" || a == "-mlink-bitcode-file") && i+1 < len(argv) {
			libs = append(libs, path.Clean(argv[i+1]))
		}
	}
	return libs
}

// ReadSteps reads the answer to asked, a program and its arguments.
func ReadSteps(text string, asked []string) Steps {
	h, err := ParseSteps(text, asked)
	if err != nil {
		return Steps{Said: text}
	}
	return h
}
