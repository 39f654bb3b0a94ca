package execute

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
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
	return a.Step().TextArgv != nil && filepath.IsLocal(a.Inputs[0])
}

// usualText is the size of a text with the headers of HIP or CUDA, in bytes.
const usualText = 6 << 20

// fillText packs argv, a command of clang's driver, as the compile of a text.
func (p *remoteRequest) fillText(ctx context.Context, a *graph.Action, argv []string, dir scratch) error {
	question := append([]string{argv[0], "-###"}, argv[1:]...)
	printed, _ := p.ask(ctx, a, question, false)
	answer, err := clang.ParseSteps(printed, question)
	if err != nil {
		return err
	}
	frontStep := answer.Steps[0]
	output := clang.After(frontStep, "-o")
	if len(frontStep) < 2 || frontStep[1] != "-cc1" || output == "" || len(answer.Steps) > 2 {
		return fmt.Errorf("nobody knows what %s does for %q", argv[0], argv)
	}
	made, back := dir.output(0, a.Outputs[0]), dir.file("away0")
	p.silent, p.moves[back] = true, made
	if len(answer.Steps) == 2 { // a link of clang's output follows, and runs locally
		made = dir.file("away.o")
		link, err := withFiles(answer.Steps[1], map[string]string{output: made, clang.After(answer.Steps[1], "-o"): back})
		if err != nil {
			return err
		}
		p.then = func(ctx context.Context) (run.Result, error) { return p.here(ctx, a, link, dir) }
		back = made
	}
	if err := p.addProgram(ctx, a, frontStep[0]); err != nil {
		return err
	}
	if err := p.addText(ctx, a, dir); err != nil {
		return err
	}
	p.addOutput(made, back)
	args, err := p.frontEnd(frontStep[1:], a.Inputs[0], p.name(made))
	p.cmd.Argv = append(p.cmd.Argv, args...)
	return err
}

// withFiles returns a command in which some files are replaced by others.
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

// addText writes the text of a with its dependency file, and adds the text under the name of the
// source.
func (p *remoteRequest) addText(ctx context.Context, a *graph.Action, dir scratch) error {
	p.texts.Lock()
	defer p.texts.Unlock()
	own, source := dir.again(), a.Inputs[0]
	if err := own.makeFolders(a); err != nil {
		return err
	}
	argv, err := commandLine(p.root, a, a.Step().TextArgv, own)
	if err != nil {
		return err
	}
	res, err := p.here(ctx, a, argv, own)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 || len(res.Output) > 0 {
		return fmt.Errorf("clang prints %q for the text of %s", res.Output, source)
	}
	file := own.output(0, a.Outputs[0])
	text, err := regular.Read(file)
	if err != nil {
		return err
	}
	for _, clock := range []string{"__DATE__", "__TIME__", "__TIMESTAMP__"} {
		if bytes.Contains(text, []byte(clock)) {
			return fmt.Errorf("%s may tell the time", source)
		}
	}
	p.moves[own.depfile()] = dir.depfile()
	return p.add(file, p.name(source), func() (cache.Digest, error) { return sha256.Sum256(text), nil })
}

// headerOptions lists the options of clang -cc1 that have an argument and concern only headers or
// files beside the output. The text includes the headers.
var headerOptions = []string{"-I", "-F", "-isystem", "-iquote", "-idirafter", "-isysroot", "-iframework", "-iprefix", "-iwithprefix", "-iwithprefixbefore",
	"-c-isystem", "-cxx-isystem", "-internal-isystem", "-internal-externc-isystem", "-internal-iframework", "-include", "-resource-dir", "-dumpdir", "-dependency-file", "-MT"}

// frontEnd converts the arguments of clang -cc1 for a source to those for its text. It returns an
// error if an argument may name a file that kbuild does not know.
func (p *remoteRequest) frontEnd(args []string, source, output string) (argv []string, err error) {
	n := len(args)
	if n < 3 || args[n-3] != "-x" || args[n-1] != source || args[n-2] != "hip" && args[n-2] != "cuda" {
		return nil, fmt.Errorf("nobody knows what clang compiles with %q", args)
	}
	for i := 0; i < n-3; i++ {
		switch arg := args[i]; {
		case slices.Contains(headerOptions, arg):
			i++
		case strings.HasPrefix(arg, "-I"), arg == "-sys-header-deps":
		case arg == "-D", arg == "-U":
			i++
			argv = append(argv, arg, args[i])
		case strings.HasPrefix(arg, "-D"), strings.HasPrefix(arg, "-U"):
			argv = append(argv, arg)
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
		// text, not a file to read
		case strings.HasPrefix(arg, "-fdebug-compilation-dir="), strings.HasPrefix(arg, "-fcoverage-compilation-dir="):
			argv = append(argv, arg)
		case p.mayName(arg):
			return nil, fmt.Errorf("nobody knows what %s names", arg)
		default:
			argv = append(argv, arg)
		}
	}
	return append(argv, "-x", args[n-2], p.name(source)), err
}

// mayName reports whether an argument, or the value in it, may name a file. Plugins and modules are
// files, too.
func (p *remoteRequest) mayName(arg string) bool {
	_, value, _ := strings.Cut(arg, "=")
	return strings.Contains(arg, "/") || strings.HasPrefix(arg, "@") || strings.Contains(arg, "module") || strings.Contains(arg, "plugin") || arg == "-load" ||
		exists(cache.Absolute(p.root, arg)) || value != "" && exists(cache.Absolute(p.root, value))
}
