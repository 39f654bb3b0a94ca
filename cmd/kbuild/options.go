package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/kbuild-dev/kbuild/cmd/internal/report"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

const nextRelease = "0.1.0"

// version is set at link time for releases.
var version = nextRelease + "-dev"

// cli holds the options that all commands share, and the state of one run.
type cli struct {
	Dir          string            `short:"C" placeholder:"DIR" default:"." help:"Change to DIR first."`
	File         string            `short:"f" placeholder:"FILE" help:"The manifest (default: kernels.hcl)."`
	Jobs         jobsFlag          `short:"j" placeholder:"N" help:"Run at most N processes at once (default: the number of processors)."`
	Keep         *failuresFlag     `short:"k" name:"keep-going" placeholder:"N" help:"Stop after N failures; 0 never stops (default: 1)."`
	Mem          memFlag           `placeholder:"SIZE" help:"Let processes that run together need at most SIZE, such as 8GiB or 50% (default: what is available)."`
	Load         loadFlag          `short:"l" placeholder:"LOAD" help:"Start no further process while the load average is above LOAD; 0 is no limit."`
	DryRun       bool              `short:"n" help:"Show what would run, and what would be restored from the cache; run nothing."`
	Verbose      bool              `short:"v" help:"Show command lines, and what was restored from the cache."`
	Quiet        bool              `short:"q" help:"Show failures only."`
	Arch         []string          `placeholder:"LIST" help:"Ship code for these architectures, for example sm_80,sm_90."`
	Profile      string            `placeholder:"P" help:"Use the values of profile P; build under build/P."`
	Var          map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"Set a variable of the manifest."`
	BuildDir     string            `placeholder:"DIR" help:"The build tree (default: build). It is refused where the project, its manifest or a source would be in it."`
	CacheDir     string            `placeholder:"DIR" help:"The action cache (default: $KBUILD_CACHE_DIR, else kbuild in the user's cache folder)."`
	NoCache      bool              `help:"Neither read nor write the action cache."`
	Remote       *string           `placeholder:"URL" help:"A cache on another machine, such as grpcs://HOST:PORT/INSTANCE or https://HOST/PATH; an empty one is none (default: $KBUILD_REMOTE, else what the manifest names)."`
	ReadOnly     bool              `name:"remote-read-only" help:"Send nothing to the remote cache."`
	RemoteExec   bool              `help:"Run passes of compilers on the machines of the remote cache too (default: $KBUILD_REMOTE_EXEC)."`
	RemoteJobs   int               `placeholder:"N" default:"64" help:"Run at most N actions at once there (default: 64)."`
	Platform     map[string]string `name:"remote-platform" mapsep:"none" placeholder:"NAME=VALUE" help:"What those machines must be, in the words of the server. {memory} in VALUE stands for the bytes that an action needs."`
	NoWait       bool              `help:"Fail if another kbuild works in the build tree; do not wait for it."`
	NoSplit      bool              `xor:"split" help:"Run nvcc as one command; do not split it into its passes."`
	RequireSplit bool              `xor:"split" help:"Fail where nvcc would run as one command though nobody asked for it."`
	KeepCode     []string          `name:"keep" enum:"ptx,ltoir,cubin,sass" placeholder:"KINDS" help:"Put device code of the build under build/keep: ptx, ltoir, cubin, sass."`
	JSON         bool              `name:"json" help:"Write one JSON object a line to standard output."`
	Trace        string            `placeholder:"FILE" help:"Write a Chrome trace of the build, for Perfetto. After cache verify write --trace=FILE."`
	SARIF        string            `name:"sarif" placeholder:"FILE" help:"Write what compilers and linkers said as SARIF, for code scanning."`
	JUnit        string            `name:"junit" placeholder:"FILE" help:"Write what became of each command as JUnit XML, for CI systems."`
	Output       string            `enum:"auto,text,github" default:"auto" placeholder:"HOW" help:"text, or github: with annotations and folded outputs, as in a workflow of GitHub (default: auto)."`
	Progress     string            `enum:"auto,tty,plain,none" default:"auto" placeholder:"HOW" help:"auto, tty, plain or none."`
	Color        string            `enum:"auto,always,never" default:"auto" placeholder:"WHEN" help:"auto, always or never."`

	out      *term.Output
	err      io.Writer
	begun    time.Time // when this kbuild started
	trace    *term.Trace
	reported *report.Report
	tests    *testRun        // set by kbuild test
	located  bool            // parent folders were searched for the manifest
	below    string          // the start folder relative to the manifest's; "" if they are the same
	quietEnd bool            // successful builds print no summary
	told     map[string]bool // diagnostics already printed
}

func (c *cli) manifestName() string { return cmp.Or(c.File, manifest.DefaultFile) }

// seen converts a path relative to the project into one relative to the start folder.
func (c *cli) seen(p string) string {
	if filepath.IsAbs(p) || c.Dir == "." {
		return p
	}
	return filepath.Join(c.Dir, p)
}

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRequirement = 3
	exitInterrupted = 130
)

// exitError carries an exit status. A nil err means that the error was already reported.
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

// print writes a result to standard output: an event with --json, else text.
func (c *cli) print(event any, format string, args ...any) error {
	if c.JSON {
		return c.out.Event(event)
	}
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}

// say prints a line to standard error.
func (c *cli) say(format string, args ...any) {
	io.WriteString(c.err, term.Visible(fmt.Sprintf(format, args...))+"\n")
}
