// Command kbuild builds multi-architecture GPU programs from a kernels.hcl. It parses command lines
// and shows results; planning and running builds is the job of package engine.
package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

// commandLine is the model that kong parses into. Options may come before or after the command
// name.
type commandLine struct {
	*cli `group:"Options of all commands:"`

	Build      buildCmd      `cmd:"" json:"" default:"withargs" help:"Build targets (the default command)."`
	Plan       planCmd       `cmd:"" json:"" help:"Show every action of the build, with its command line."`
	Graph      graphCmd      `cmd:"" json:"" help:"Draw the build graph: kbuild graph | dot -Tsvg > graph.svg"`
	Why        whyCmd        `cmd:"" json:"" help:"Say why something would run, field by field."`
	Run        runCmd        `cmd:"" help:"Build an executable, and run it."`
	Watch      watchCmd      `cmd:"" json:"" help:"Build, and again at each change, until interrupted."`
	Test       testCmd       `cmd:"" json:"" help:"Build and run the tests of the manifest."`
	Precompile precompileCmd `cmd:"" json:"" help:"Build modules ahead of time, and print the paths of their artifacts; or verify them."`
	Install    installCmd    `cmd:"" json:"" help:"Build targets, and install them with their headers and with packages for CMake and pkg-config."`
	CMake      cmakeCmd      `cmd:"" name:"cmake" help:"Write what a CMake project must know of libraries and modules, for kbuild_add_library; or the package with that command."`
	Inspect    inspectCmd    `cmd:"" json:"" help:"Show the device code in objects, archives, libraries and programs."`
	Cache      cacheCmd      `cmd:"" help:"Manage the action cache."`
	Toolkit    toolkitCmd    `cmd:"" help:"Pin, install and remove CUDA toolkits of PyPI."`
	Compdb     compdbCmd     `cmd:"" help:"Write compile_commands.json to standard output."`
	Fmt        fmtCmd        `cmd:"" help:"Format manifests."`
	Clean      cleanCmd      `cmd:"" help:"Remove what kbuild has written into the build tree, and into those of profiles in it."`
	Top        topCmd        `cmd:"" json:"" help:"Show what kbuild runs on this machine for this user, and what waits for what."`
	Doctor     doctorCmd     `cmd:"" json:"" help:"Check toolkits, compilers and folders."`
	CC         ccCmd         `cmd:"" name:"cc" help:"Run a compiler of another build tool, with kbuild's cache behind it: kbuild cc -- nvcc -c a.cu -o a.o"`
	Init       initCmd       `cmd:"" help:"Write a kernels.hcl for the sources of this folder."`
	Explain    explainCmd    `cmd:"" help:"Explain a block or an attribute of kernels.hcl."`
	Schema     schemaCmd     `cmd:"" help:"Write a JSON schema of kernels.hcl to standard output."`
	Man        manCmd        `cmd:"" help:"Write the man pages kbuild.1 and kernels.hcl.5."`
	Completion completionCmd `cmd:"" help:"Write a completion script for bash, zsh or fish."`
	Help       helpCmd       `cmd:"" help:"Show the help of a command, or explain a block or an attribute of kernels.hcl."`
	Version    versionCmd    `cmd:"" json:"" help:"Show the version."`
}

func main() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) }

// Main runs kbuild and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	run.DropRelativePath()
	c := cli{out: &term.Output{To: stdout}, err: stderr, begun: time.Now()}
	if compiler, ok := launched(os.Args[0], args); ok {
		return c.launchCompiler(compiler)
	}
	status := c.run(args)
	if err := c.out.Close(); err != nil {
		c.say("error: %v", err)
		return cmp.Or(status, exitFailed)
	}
	return status
}

// run parses a command line into c and runs its command.
func (c *cli) run(args []string) (status int) {
	if c.plain(args) {
		return c.report(buildCmd{}.Run(c))
	}
	if slices.Equal(args, []string{"--version"}) { // the conventional spelling of kbuild version
		return c.report(versionCmd{}.Run(c))
	}
	line := commandLine{cli: c}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitPanic:
			status = int(r)
		default:
			panic(r)
		}
	}()
	parser := line.parser()
	args, given := programArgs(args, parser.Model.Flags)
	k, err := parser.Parse(bareTrace(args, parser.Model.Flags))
	line.Run.Args = append(line.Run.Args, given...)
	switch {
	case errors.As(err, new(term.OutputError)): // while printing the help
		return exitFailed
	case err != nil:
		message, try := refused(args, err, parser.Model.Flags)
		c.say("error: %s\nTry: %s", message, try)
		return exitUsage
	}
	if c.JSON {
		if !hasJSON(k.Selected()) {
			c.say("error: %s writes no JSON; leave --json out", k.Selected().FullPath())
			return exitUsage
		}
		c.out.Raw()
	}
	return c.report(k.Run(c))
}

// hasJSON reports whether the command or one of its parents supports --json.
func hasJSON(n *kong.Node) bool {
	for ; n != nil; n = n.Parent {
		if n.Tag != nil && n.Tag.Has("json") {
			return true
		}
	}
	return false
}

// parser builds a kong parser for l, which panics with an exitPanic after --help.
func (l *commandLine) parser() *kong.Kong {
	parser, err := kong.New(l, kong.Name("kbuild"), kong.Writers(l.out, l.err),
		kong.Description("kbuild builds multi-architecture GPU programs with link-time optimisation, from a kernels.hcl."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}), kong.Exit(func(s int) { panic(exitPanic(s)) }))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return parser
}

// exitPanic unwinds the stack out of kong after --help. Its value is the exit status.
type exitPanic int

func (c *cli) report(err error) int {
	if err == nil {
		return 0
	}
	e := exitOf(err)
	if e.err != nil && !errors.As(err, new(term.OutputError)) { // Main reports that one
		c.say("error: %s", strings.TrimRight(e.err.Error(), "\n"))
	}
	return e.status
}

// exitOf maps an error to its exit status.
func exitOf(err error) exitError {
	var e exitError
	var usage engine.UsageError
	var interrupted engine.InterruptedError
	switch {
	case errors.Is(err, engine.ErrDiagnosed):
		return exitError{status: exitUsage}
	case errors.As(err, &e):
		return e
	case errors.As(err, &usage):
		return exitError{exitUsage, usage.Err}
	case errors.As(err, &interrupted):
		return exitError{exitInterrupted, err}
	}
	return exitError{exitFailed, err}
}
