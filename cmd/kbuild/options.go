package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// jobsFlag is the value of -j. 0 means that -j is not given.
type jobsFlag int

// UnmarshalText implements encoding.TextUnmarshaler.
func (j *jobsFlag) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of processes; write 1 or more, or leave -j out for one for each processor", text)
	}
	*j = jobsFlag(n)
	return nil
}

// failuresFlag is the value of -k. 0 means no limit.
type failuresFlag int

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *failuresFlag) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of failures; write 1 or more, or 0 to go on whatever fails", text)
	}
	*k = failuresFlag(n)
	return nil
}

// loadFlag is the value of -l. 0 means no limit, as in ninja.
type loadFlag float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *loadFlag) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return fmt.Errorf("%q is not a load average; write a number such as 3.5", text)
	}
	*l = loadFlag(n)
	return nil
}

// sizeFlag is a size in bytes, or a share of the available total. The zero sizeFlag means all of
// it.
type sizeFlag struct {
	bytes int64
	share float64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *sizeFlag) UnmarshalText(text []byte) error {
	s := string(text)
	percent, isShare := strings.CutSuffix(s, "%")
	if isShare {
		n, err := strconv.ParseFloat(percent, 64)
		*m = sizeFlag{share: n / 100}
		if err == nil && n > 0 && n <= 1000 {
			return nil
		}
	} else if n, err := manifest.ParseSize(s); err == nil && n > 0 {
		*m = sizeFlag{bytes: n}
		return nil
	}
	return fmt.Errorf(`%q is not a size; write for example 8GiB, 512MiB, a number of bytes, or 50%% of what there is`, s)
}

// memFlag is the value of --mem. It rejects sizes that no compiler can work with, and shares over
// 100%.
type memFlag struct{ sizeFlag }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *memFlag) UnmarshalText(text []byte) error {
	if err := m.sizeFlag.UnmarshalText(text); err != nil {
		return err
	}
	switch {
	case m.share > 1:
		return fmt.Errorf("%s is more than there is; write at most 100%%, or a size such as 8GiB", text)
	case m.share == 0 && m.bytes < 1<<20:
		return fmt.Errorf("%s is %d bytes, too little for any compiler; write for example 8GiB", text, m.bytes)
	}
	return nil
}

// budget returns the size in bytes, given the available total. 0 means unknown.
func (m sizeFlag) budget(there int64) int64 {
	switch {
	case m.bytes > 0:
		return m.bytes
	case m.share > 0 && there > 0:
		return max(1, int64(m.share*float64(there)))
	}
	return there
}

// locate finds the manifest in the current folder or the nearest parent, as git and cargo do. It
// does nothing if -C or -f is given.
func (c *cli) locate() {
	if c.Dir != "." || c.File != "" || c.located {
		return
	}
	c.located = true
	here, err := filepath.Abs(".")
	if err != nil {
		return
	}
	for dir, up := here, "."; ; dir, up = filepath.Dir(dir), filepath.Join(up, "..") {
		if info, err := os.Stat(filepath.Join(dir, c.manifestName())); err == nil && info.Mode().IsRegular() {
			if c.Dir = up; up != "." {
				c.below, _ = filepath.Rel(dir, here)
			}
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// named maps names on the command line to the manifest's folder. Only names of existing files in a
// folder below it change.
func (c *cli) named(names []string) []string {
	c.locate()
	if c.below == "" {
		return names
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if info, err := os.Stat(name); err == nil && !info.IsDir() && !filepath.IsAbs(name) {
			out[i] = filepath.ToSlash(filepath.Join(c.below, name))
		}
	}
	return out
}
