package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
)

// A device compile by clang reads the source and its headers itself, though its key has the canonical text in their place. On another machine it
// reads that text. What it makes is the same, byte for byte, since nothing that travels records lines or asks for its own position. Three things
// see to that:
//
//   - The text stands there under the name of the source, which clang writes into bitcode.
//   - clang -cc1 is run as the driver would run it here, but for where headers are. The driver itself would start the file /proc/self/exe
//     once more, which there is the loader.
//   - A compile that says anything counts as lost, and runs here: its carets would point into the text.

// textThere is the text that a reads on another machine in place of what it names; "" if it reads that.
func textThere(a *graph.Action) string {
	s := a.Step()
	if len(s.KeyedByText) != 1 || len(s.UnkeyedPaths) != 1 || !filepath.IsLocal(s.UnkeyedPaths[0]) {
		return ""
	}
	text := compiler.Canonical(s.KeyedByText[0])
	if !slices.Contains(a.Inputs, text) { // the outputs record lines
		return ""
	}
	return text
}

// fillText packs the compile of a text for argv, a command of clang's driver.
func (p *parcel) fillText(ctx context.Context, a *graph.Action, argv []string, dir scratch) error {
	question := append([]string{argv[0], "-###"}, argv[1:]...)
	said, _ := p.ask(ctx, a, question, false)
	answer, err := clang.ParseSteps(said, question)
	if err != nil {
		return err
	}
	front := answer.Steps[0]
	output := clang.After(front, "-o")
	if len(front) < 2 || front[1] != "-cc1" || output == "" || len(answer.Steps) > 2 {
		return fmt.Errorf("nobody knows what %s does for %q", argv[0], argv)
	}
	made, back := dir.output(0, a.Outputs[0]), dir.file("away0")
	p.silent, p.moves[back] = true, made
	if len(answer.Steps) == 2 { // a link of what clang makes, which is done here
		made = dir.file("away.o")
		link, err := withFiles(answer.Steps[1], map[string]string{output: made, clang.After(answer.Steps[1], "-o"): back})
		if err != nil {
			return err
		}
		p.then = func(ctx context.Context) (run.Result, error) { return p.here(ctx, a, link, dir) }
		back = made
	}
	if err := p.addProgram(ctx, a, front[0]); err != nil {
		return err
	}
	if err := p.addText(ctx, a); err != nil {
		return err
	}
	p.addOutput(made, back)
	args, err := p.frontEnd(front[1:], a.Step().UnkeyedPaths[0], p.name(made))
	p.cmd.Argv = append(p.cmd.Argv, args...)
	return err
}

// withFiles is a command with other files in place of some.
func withFiles(argv []string, files map[string]string) ([]string, error) {
	argv = slices.Clone(argv)
	for from, to := range files {
		at := slices.Index(argv, from)
		if at < 0 {
			return nil, fmt.Errorf("%q does not name %q", argv, from)
		}
		argv[at] = to
	}
	return argv, nil
}

// addText adds the text of a under the name of its source.
func (p *parcel) addText(ctx context.Context, a *graph.Action) error {
	text, source := textThere(a), a.Step().UnkeyedPaths[0]
	if err := p.bring(ctx, text); err != nil {
		return err
	}
	file := cache.Absolute(p.root, text)
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if pptext.AsksPosition(data, pptext.Options{Clang: true}) {
		return fmt.Errorf("%s asks for its own lines", source)
	}
	return p.add(file, p.name(source), func() (cache.Digest, error) { return p.digest(text) })
}

// headerOptions of clang -cc1 have an argument and are for what a preprocessor reads, or for files beside the output.
var headerOptions = []string{"-I", "-F", "-D", "-U", "-isystem", "-iquote", "-idirafter", "-isysroot", "-iframework", "-iprefix", "-iwithprefix", "-iwithprefixbefore",
	"-c-isystem", "-cxx-isystem", "-internal-isystem", "-internal-externc-isystem", "-internal-iframework", "-include", "-imacros", "-resource-dir", "-dumpdir"}

// frontEnd turns the arguments of clang -cc1 for a source into those for its text. What may name a file of which nobody knows stays here.
func (p *parcel) frontEnd(args []string, source, output string) (argv []string, err error) {
	n := len(args)
	if n < 3 || args[n-3] != "-x" || args[n-1] != source || args[n-2] != "hip" && args[n-2] != "cuda" {
		return nil, fmt.Errorf("nobody knows what clang compiles with %q", args)
	}
	for i := 0; i < n-3; i++ {
		switch arg := args[i]; {
		case slices.Contains(headerOptions, arg):
			i++
		case strings.HasPrefix(arg, "-D"), strings.HasPrefix(arg, "-U"), strings.HasPrefix(arg, "-I"):
		case arg == "-o":
			i++
			argv = append(argv, arg, output)
		case arg == "-main-file-name":
			i++
			argv = append(argv, arg, args[i])
		case arg == "-mlink-builtin-bitcode", arg == "-mlink-bitcode-file":
			i++
			argv = append(argv, arg, p.name(args[i]))
			err = errors.Join(err, p.addFiles(cache.Absolute(p.root, args[i])))
		case strings.HasPrefix(arg, "-fdebug-compilation-dir="), strings.HasPrefix(arg, "-fcoverage-compilation-dir="): // words, as here
			argv = append(argv, arg)
		case p.mayName(arg):
			return nil, fmt.Errorf("nobody knows what %s names", arg)
		default:
			argv = append(argv, arg)
		}
	}
	return append(argv, "-x", args[n-2]+"-cpp-output", p.name(source)), err
}

// mayName reports whether an argument, or the value in it, may name a file; plugins and modules are files, too.
func (p *parcel) mayName(arg string) bool {
	_, value, _ := strings.Cut(arg, "=")
	return strings.Contains(arg, "/") || strings.HasPrefix(arg, "@") || strings.Contains(arg, "module") || strings.Contains(arg, "plugin") || arg == "-load" ||
		exists(cache.Absolute(p.root, arg)) || value != "" && exists(cache.Absolute(p.root, value))
}
