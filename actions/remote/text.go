package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// A device compile by clang reads a source and its headers. A remote compile reads a single text,
// which the local clang writes: each header in place of its include, with macros, comments and
// columns as they are (-frewrite-includes). The output is the same, byte for byte:
//
//   - On the remote machine the text has the name of the source, which clang writes into bitcode.
//     Compiles whose outputs record lines run locally.
//   - The remote command is clang -cc1 as the local driver would start it, except for the folders
//     of headers. The driver itself would start /proc/self/exe, which is the loader on the remote
//     machine.
//   - A remote compile that prints anything counts as lost, and runs locally: its carets would
//     point into the text.
//
// clang writes the text outside of the scheduler's slots, so only one text is written at a time.
// That takes a tenth of the time of a small compile.

// hasText reports whether a is compiled remotely from such a text.
func hasText(a *graph.Action) bool {
	return a.Pass().TextArgv != nil && filepath.IsLocal(a.Inputs[0])
}

// usualText is the size of a text with the headers of HIP or CUDA, in bytes.
const usualText = 6 << 20

// fillText packs a command of clang's driver as the compile of a text.
func (p *request) fillText(ctx context.Context) error {
	question := append([]string{p.Argv[0], "-###"}, p.Argv[1:]...)
	answer, err := clang.ParseSteps(p.Query(ctx, question), question)
	if err != nil {
		return err
	}
	frontStep := answer.Steps[0]
	output := clang.After(frontStep, "-o")
	if len(frontStep) < 2 || frontStep[1] != "-cc1" || output == "" || len(answer.Steps) > 2 {
		return fmt.Errorf("kbuild does not know the steps of %q", p.Argv)
	}
	made, back := p.Output(0), p.File("away0")
	p.silent, p.moves[back] = true, made
	if len(answer.Steps) == 2 { // a link of clang's output follows, and runs locally
		made = p.File("away.o")
		files := map[string]string{output: made, clang.After(answer.Steps[1], "-o"): back}
		link := slices.Clone(answer.Steps[1])
		for from, to := range files {
			at := slices.Index(link, from)
			if at < 0 {
				return fmt.Errorf("%q does not name %q", link, from)
			}
			link[at] = to
		}
		p.then, back = p.With(link), made
	}
	if err := p.addProgram(ctx, frontStep[0]); err != nil {
		return err
	}
	if err := p.addText(ctx); err != nil {
		return err
	}
	p.addOutput(made, back)
	args, err := p.frontEnd(frontStep[1:], p.Action.Inputs[0], p.name(made))
	p.cmd.Argv = append(p.cmd.Argv, args...)
	return err
}

// addText writes the text with its dependency file, and adds the text under the name of the source.
func (p *request) addText(ctx context.Context) error {
	p.texts.Lock()
	defer p.texts.Unlock()
	source := p.Action.Inputs[0]
	c, err := p.Again(p.Action.Pass().TextArgv)
	if err != nil {
		return err
	}
	res, err := c.Run(ctx)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 || len(res.Output) > 0 {
		return fmt.Errorf("clang prints %q for the text of %s", res.Output, source)
	}
	text, err := regular.Read(c.Output(0))
	if err != nil {
		return err
	}
	for _, clock := range []string{"__DATE__", "__TIME__", "__TIMESTAMP__"} {
		if bytes.Contains(text, []byte(clock)) {
			return fmt.Errorf("%s may tell the time", source)
		}
	}
	p.moves[c.Depfile()] = p.Depfile()
	return p.add(c.Output(0), p.name(source), sha256.Sum256(text))
}

// headerOptions lists the options of clang -cc1 that have an argument and concern only headers or
// files beside the output. The text includes the headers.
var headerOptions = []string{"-I", "-F", "-isystem", "-iquote", "-idirafter", "-isysroot",
	"-iframework", "-iprefix", "-iwithprefix", "-iwithprefixbefore", "-c-isystem", "-cxx-isystem",
	"-internal-isystem", "-internal-externc-isystem", "-internal-iframework", "-include",
	"-resource-dir", "-dumpdir", "-dependency-file", "-MT"}

// frontEnd converts the arguments of clang -cc1 for a source to those for its text. It returns an
// error if an argument may name a file that kbuild does not know.
func (p *request) frontEnd(args []string, source, output string) (argv []string, err error) {
	n := len(args)
	if n < 3 || args[n-3] != "-x" || args[n-1] != source ||
		!slices.Contains(clang.Languages, args[n-2]) {
		return nil, fmt.Errorf("kbuild does not know what clang compiles with %q", args)
	}
	for i := 0; i < n-3; i++ {
		switch arg := args[i]; {
		case slices.Contains(headerOptions, arg):
			i++
		case strings.HasPrefix(arg, "-I"), arg == "-sys-header-deps":
		case arg == "-D", arg == "-U", arg == "-main-file-name":
			i++
			argv = append(argv, arg, args[i])
		case strings.HasPrefix(arg, "-D"), strings.HasPrefix(arg, "-U"):
			argv = append(argv, arg)
		case arg == "-o":
			i++
			argv = append(argv, arg, output)
		case arg == "-mlink-builtin-bitcode", arg == "-mlink-bitcode-file":
			i++
			argv = append(argv, arg, p.name(args[i]))
			err = errors.Join(err, p.addNamed(cache.Absolute(p.Root, args[i])))
		// text, not a file to read
		case strings.HasPrefix(arg, "-fdebug-compilation-dir="),
			strings.HasPrefix(arg, "-fcoverage-compilation-dir="):
			argv = append(argv, arg)
		case p.mayName(arg):
			return nil, errUnknown(arg)
		default:
			argv = append(argv, arg)
		}
	}
	return append(argv, "-x", args[n-2], p.name(source)), err
}

// mayName reports whether an argument, or the value in it, may name a file. Plugins and modules are
// files, too.
func (p *request) mayName(arg string) bool {
	_, value, _ := strings.Cut(arg, "=")
	return strings.Contains(arg, "/") || strings.HasPrefix(arg, "@") ||
		strings.Contains(arg, "module") || strings.Contains(arg, "plugin") || arg == "-load" ||
		cache.Exists(cache.Absolute(p.Root, arg)) || value != "" && cache.Exists(cache.Absolute(p.Root, value))
}
