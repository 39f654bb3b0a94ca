package clang

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// hipcc has a dry run like nvcc: `hipcc -###` prints the commands that clang would run, and with
// HIPCC_VERBOSE=1 before them hipcc's own clang command. The clang commands show the implicit
// inputs of an output: the device libraries, which no dependency file names. hipcc's command shows
// the flags with which kbuild runs clang itself, pass by pass. Public options select a pass
// (--cuda-device-only --offload-arch=X, --cuda-host-only). Only the commands of the bundler and the
// linker are copied from the dry run, since no public option selects them.

// Words in queries to hipcc and in their output.
const (
	QuerySource = "kbuild_source.hip"
	hipccSays   = "hipcc-cmd:"
)

// folderOptions lists the options for the folders of clang's device libraries. Clang searches them
// during the dry run, which does not run in the project's folder.
var folderOptions = []string{"--rocm-path", "--hip-path", "--hip-device-lib-path", "--rocm-device-lib-path"}

// fromRoot makes the value of a folder option absolute. If root is "", it stays unchanged.
func fromRoot(arg, root string) string {
	if root == "" || !LooksInRelative(arg) {
		return arg
	}
	option, dir, _ := strings.Cut(arg, "=")
	return option + "=" + path.Join(root, dir)
}

// LooksInRelative reports whether arg is a folder option with a relative folder.
func LooksInRelative(arg string) bool {
	option, dir, ok := strings.Cut(arg, "=")
	return ok && !path.IsAbs(dir) && slices.Contains(folderOptions, option)
}

// Query converts the argv of a hipcc or clang command to the arguments of its dry run query, as Ask
// of nvcc does. The command runs in the folder root, and argv must name the language of the source.
func Query(argv []string, root, source, output string) []string {
	question := []string{"-###"}
	for i := 1; i < len(argv); i++ {
		switch a := fromRoot(argv[i], root); {
		case a == "-MD", strings.HasPrefix(a, CUID):
		case a == forCC1 && i+1 < len(argv) && strings.HasPrefix(argv[i+1], CUID):
			i++
		case a == "-MF":
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

// Steps is the parsed output of -###.
type Steps struct {
	Clang []string   // the clang command: hipcc's own, or the query itself
	Steps [][]string // commands; empty if the text could not be parsed
	Said  string     // the text, if it could not be parsed
	Error string     // the first of clang's errors; "" if there is none
}

func ParseSteps(text string, asked []string) (Steps, error) {
	h := Steps{Clang: asked}
	for _, line := range strings.Split(text, "\n") {
		if cmd, ok := strings.CutPrefix(line, hipccSays); ok {
			words, err := toolchain.ShellWords(cmd, nil)
			if err != nil {
				return h, fmt.Errorf("%w in %q", err, line)
			}
			h.Clang = words
			continue
		}
		if _, printed, is := strings.Cut(line, ": error: "); is && h.Error == "" && !strings.HasPrefix(line, " ") {
			h.Error = printed
		}
		if !strings.HasPrefix(line, ` "`) {
			continue // the version, warnings
		}
		words, err := toolchain.ShellWords(line, nil)
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

// After returns the argument after an option, or "".
func After(argv []string, option string) string {
	if i := slices.Index(argv, option); i >= 0 && i+1 < len(argv) {
		return argv[i+1]
	}
	return ""
}

// DeviceLibs returns the files that a -cc1 command links into the code.
func DeviceLibs(argv []string) []string {
	var libs []string
	for i, a := range argv {
		if (a == "-mlink-builtin-bitcode" || a == "-mlink-bitcode-file") && i+1 < len(argv) {
			libs = append(libs, path.Clean(argv[i+1]))
		}
	}
	return libs
}

// ReadSteps parses the output of the query asked, a program and its arguments. If that fails, it
// returns the text in Said.
func ReadSteps(text string, asked []string) Steps {
	h, err := ParseSteps(text, asked)
	if err != nil {
		return Steps{Said: text}
	}
	return h
}

// Packager is the command that packs relocatable code of all architectures into one file, which the
// host object embeds. For each it has an argument
// "--image=file=F,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda". It determines the kind of image
// by the file's extension: clang's all end in .o.
type Packager struct {
	Program  string
	Flags    []string
	Images   []OffloadImage // in order
	Output   string
	Embedded bool // the host object embeds the output
}

// OffloadImage is a file that is packed, and its attributes.
type OffloadImage struct{ File, Words string }

const imageByFile = "--image=file="

// IsPackager reports whether name is the program, which is llvm-offload-binary since clang 22.
func IsPackager(name string) bool {
	return name == "clang-offload-packager" || name == "llvm-offload-binary"
}

// ReadPackager parses a packager command.
func ReadPackager(s []string) *Packager {
	p := &Packager{Program: s[0], Output: After(s, "-o")}
	for i := 1; i < len(s); i++ {
		image, is := strings.CutPrefix(s[i], imageByFile)
		switch {
		case s[i] == "-o":
			i++
		case is:
			file, words, _ := strings.Cut(image, ",")
			p.Images = append(p.Images, OffloadImage{file, words})
		default:
			p.Flags = append(p.Flags, s[i])
		}
	}
	return p
}

// Arch returns the architecture of an image.
func (i OffloadImage) Arch() string {
	for _, word := range strings.Split(i.Words, ",") {
		if arch, is := strings.CutPrefix(word, "arch="); is {
			return arch
		}
	}
	return ""
}

// Pack returns the argv that packs other files.
func (p *Packager) Pack(file func(arch string) string, output string) []string {
	argv := append([]string{p.Program}, p.Flags...)
	argv = append(argv, "-o", output)
	for _, i := range p.Images {
		argv = append(argv, imageByFile+file(i.Arch())+","+i.Words)
	}
	return argv
}

// QuerySteps queries the steps of a command of hipcc or clang. A failed query is not an error here:
// its output still has steps, and the planner queries again.
func QuerySteps(f *find.Finder, argv, env []string) Steps {
	r := f.Run(find.Command{Argv: argv, Env: env, Files: map[string]string{QuerySource: "", toolchain.QueryInput: ""}})
	return ReadSteps(r.Text, argv)
}

// LibsIn returns all device libraries in the folders that the steps of a compile read some from:
// clang selects libraries there by name.
func LibsIn(f *find.Finder, steps [][]string) (libs []string) {
	for _, argv := range steps {
		for i, a := range argv[:len(argv)-1] {
			if a != "-mlink-builtin-bitcode" {
				continue
			}
			for _, file := range f.Glob(path.Dir(argv[i+1]), "*.bc") {
				if !slices.Contains(libs, file) {
					libs = append(libs, file)
				}
			}
		}
	}
	return libs
}

// KnownTo returns the GPUs of a target that a clang knows, or nil if clang cannot list them.
func KnownTo(f *find.Finder, clang, target string, kind gencode.Kind) (archs []gencode.Code) {
	text, err := f.Output(clang, "--target="+target, "-nogpulib", "-print-supported-cpus")
	for _, word := range strings.Fields(text) {
		if c, parsed := gencode.Parse(word); parsed == nil && c.Kind == kind && err == nil {
			archs = append(archs, c)
		}
	}
	return archs
}

// AddSteps adds the programs that steps run to the parts of a tool.
func AddSteps(f *find.Finder, parts map[string]string, steps [][]string) {
	for _, argv := range steps {
		if role := path.Base(argv[0]); parts[role] == "" && f.Exists(argv[0]) {
			parts[role] = argv[0]
		}
	}
}

// AddBeside adds the programs beside a clang to its parts, links resolved, and returns those that
// exist by name.
func AddBeside(f *find.Finder, clang string, parts map[string]string, names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if file := path.Join(f.RealDir(clang), name); f.Exists(file) {
			found[name] = file
			if parts[name] == "" {
				parts[name] = file
			}
		}
	}
	return found
}
