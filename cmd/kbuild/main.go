// Command kbuild builds multi-architecture GPU programs from a kernels.hcl.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

// version is set at link time for releases.
var version = "0.1.0-dev"

// cli is the command line. Options may stand before or after the command's name.
type cli struct {
	Dir      string            `short:"C" placeholder:"DIR" default:"." help:"Change to DIR first."`
	File     string            `short:"f" placeholder:"FILE" help:"The manifest (default: kernels.hcl)."`
	Jobs     jobsFlag          `short:"j" placeholder:"N" help:"Run at most N processes at once (default: the number of processors)."`
	Keep     *failuresFlag     `short:"k" name:"keep-going" placeholder:"N" help:"Stop after N failures; 0 never stops (default: 1)."`
	Mem      sizeFlag          `placeholder:"SIZE" help:"Let processes that run together need at most SIZE, such as 8GiB or 50% (default: what is available)."`
	Load     loadFlag          `short:"l" placeholder:"LOAD" help:"Start no further process while the load average is above LOAD; 0 is no limit."`
	DryRun   bool              `short:"n" help:"Show what would run, and what would be restored from the cache; run nothing."`
	Verbose  bool              `short:"v" help:"Show command lines, and what was restored from the cache."`
	Quiet    bool              `short:"q" help:"Show failures only."`
	Arch     []string          `placeholder:"LIST" help:"Ship code for these architectures, for example sm_80,sm_90."`
	Profile  string            `placeholder:"P" help:"Use the values of profile P; build under build/P."`
	Var      map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"Set a variable of the manifest."`
	BuildDir string            `placeholder:"DIR" help:"The build tree (default: build). It is refused where the project, its manifest or a source would be in it."`
	CacheDir string            `placeholder:"DIR" help:"The action cache (default: $KBUILD_CACHE_DIR, else kbuild in the user's cache folder)."`
	NoCache  bool              `help:"Neither read nor write the action cache."`
	NoWait   bool              `help:"Fail if another kbuild works in the build tree; do not wait for it."`
	NoSplit  bool              `help:"Run nvcc as one command; do not split it into its passes."`
	KeepCode []string          `name:"keep" enum:"ptx,ltoir,cubin,sass" placeholder:"KINDS" help:"Put device code of the build under build/keep: ptx, ltoir, cubin, sass."`
	JSON     bool              `name:"json" help:"Write one JSON object a line to standard output."`
	Trace    string            `placeholder:"FILE" help:"Write a Chrome trace of the build, for Perfetto. After cache verify write --trace=FILE."`
	Progress string            `enum:"auto,tty,plain,none" default:"auto" placeholder:"HOW" help:"auto, tty, plain or none."`
	Color    string            `enum:"auto,always,never" default:"auto" placeholder:"WHEN" help:"auto, always or never."`

	Build      buildCmd      `cmd:"" default:"withargs" help:"Build targets (the default command)."`
	Plan       planCmd       `cmd:"" help:"Show every action of the build, with its command line."`
	Graph      graphCmd      `cmd:"" help:"Draw the build graph: kbuild graph | dot -Tsvg > graph.svg"`
	Why        whyCmd        `cmd:"" help:"Say why something would run, field by field."`
	Precompile precompileCmd `cmd:"" help:"Build modules ahead of time, and print the paths of their artifacts; or verify them."`
	Inspect    inspectCmd    `cmd:"" help:"Show the device code in objects, archives, libraries and programs."`
	Cache      cacheCmd      `cmd:"" help:"Manage the action cache."`
	Compdb     compdbCmd     `cmd:"" help:"Write compile_commands.json to standard output."`
	Fmt        fmtCmd        `cmd:"" help:"Format manifests."`
	Clean      cleanCmd      `cmd:"" help:"Remove what kbuild has written into the build tree, and into those of profiles in it."`
	Doctor     doctorCmd     `cmd:"" help:"Check toolkits, compilers and folders."`
	Init       initCmd       `cmd:"" help:"Write a kernels.hcl for the sources of this folder."`
	Explain    explainCmd    `cmd:"" help:"Explain a block or an attribute of kernels.hcl."`
	Schema     schemaCmd     `cmd:"" help:"Write a JSON schema of kernels.hcl to standard output."`
	Man        manCmd        `cmd:"" help:"Write the man pages kbuild.1 and kernels.hcl.5."`
	Completion completionCmd `cmd:"" help:"Write a completion script for bash, zsh or fish."`
	Version    versionCmd    `cmd:"" help:"Show the version."`

	out, err io.Writer
	begun    time.Time // when this kbuild started
	trace    *term.Trace
	told     map[string]bool // diagnostics that were printed
}

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRequirement = 3
	exitInterrupted = 130
)

// exitError carries an exit status. A nil err was reported already.
type exitError struct {
	status int
	err    error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

func main() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) }

// Main runs kbuild and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) (status int) {
	begun := time.Now()
	out := &output{to: stdout}
	if c, ok := plain(args); ok {
		c.out, c.err, c.begun = out, stderr, begun
		return out.settle(stderr, report(c, buildCmd{}.Run(c)))
	}
	c := cli{out: out, err: stderr, begun: begun}
	exited := -1
	parser := c.parser(func(s int) { exited = s; panic(exitPanic{}) })
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exitPanic); !ok {
				panic(r)
			}
			status = out.settle(stderr, exited)
		}
	}()
	if slices.Equal(args, []string{"--version"}) { // as every program has it
		args = []string{"version"}
	}
	k, err := parser.Parse(bareTrace(args, parser.Model.Flags))
	switch {
	case errors.As(err, new(outputError)): // of the help
		return out.settle(stderr, exitFailed)
	case err != nil:
		fmt.Fprintf(stderr, "kbuild: %s\n", term.Visible(err.Error()))
		fmt.Fprintln(stderr, "Try: kbuild --help")
		return exitUsage
	}
	if c.JSON {
		c.rawOut()
	}
	return out.settle(stderr, report(&c, k.Run(&c)))
}

// parser reads a command line into c.
func (c *cli) parser(exit func(int)) *kong.Kong {
	parser, err := kong.New(c, kong.Name("kbuild"), kong.Writers(c.out, c.err),
		kong.Description("kbuild builds multi-architecture GPU programs with link-time optimisation, from a kernels.hcl."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}), kong.Exit(exit))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return parser
}

// exitPanic unwinds out of kong after --help.
type exitPanic struct{}

func report(c *cli, err error) int {
	if err == nil {
		return 0
	}
	e := exitOf(err)
	if e.err != nil && !errors.As(err, new(outputError)) { // output.settle says that one
		c.say("kbuild: %s", strings.TrimRight(e.err.Error(), "\n"))
	}
	return e.status
}

// exitOf gives an error of the engine its exit status.
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

type versionCmd struct{}

// toolkits are those that were tried: kbuild takes them apart. Others run as one command where their answers are not understood.
const toolkits = "nvcc 11.8, 12.4 and 13.5, hipcc 5.2 and 5.7, clang 15 for CUDA"

// Run shows the version, the commit that it was made of if the go command noted one, and the toolkits that are known.
func (versionCmd) Run(c *cli) error {
	fmt.Fprintf(c.out, "kbuild %s%s\nknows %s\n", version, commit(), toolkits)
	return nil
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	revision := set["vcs.revision"]
	if len(revision) < 12 {
		return ""
	}
	if revision = revision[:12]; set["vcs.modified"] == "true" {
		revision += ", modified"
	}
	return " (" + revision + ")"
}
