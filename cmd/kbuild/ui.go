package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/machine"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cmd/internal/report"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// This file implements engine.UI for the command line.

// workspace builds the Workspace that the options and the environment describe.
func (c *cli) workspace() *engine.Workspace {
	c.locate()
	probe.AbsoluteLibraries()
	env := run.Environment(os.Environ())
	o := engine.Options{Env: env,
		Manifest: manifest.Options{Dir: c.Dir, File: c.File, Vars: c.Var, Profile: c.Profile, Arch: c.Arch,
			Env: env.LookUp, Environ: env, BuildDir: c.BuildDir, Below: c.below, Version: version},
		CacheDir: c.CacheDir, NoCache: c.NoCache, Remote: c.Remote,
		RemoteHosts: remoteHosts(env.Get("KBUILD_REMOTE_HOSTS")),
		ReadOnly:    c.ReadOnly || env.Get("KBUILD_REMOTE_READ_ONLY") != "",
		Patience:    c.patience(), RemoteExec: c.RemoteExec || env.Get("KBUILD_REMOTE_EXEC") != "",
		RemoteJobs: c.RemoteJobs, NoSplit: c.NoSplit,
		RequireSplit: c.RequireSplit, NoWait: c.NoWait, DryRun: c.DryRun, Begun: c.begun}
	for _, name := range slices.Sorted(maps.Keys(c.Platform)) {
		o.Platform = append(o.Platform, [2]string{name, c.Platform[name]})
	}
	if address, ok := os.LookupEnv("KBUILD_REMOTE"); ok && c.Remote == nil {
		o.Remote = &address
	}
	o.CacheSize, o.CacheSizeError = cacheSize()
	return engine.New(o, c)
}

// patience returns how long a build may wait for a failing remote cache. 0 means the default.
func (c *cli) patience() time.Duration {
	const name = "KBUILD_REMOTE_PATIENCE"
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		c.say("kbuild: warning: %s: %q is not a duration such as 1.5s or 1m; using the default", name, text)
		return 0
	}
	return d
}

// remoteHosts parses HOST:PORT,HOST. The default port is 443.
func remoteHosts(list string) (hosts []string) {
	for host := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "443")
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// cacheSize returns the size limit of the cache in bytes.
func cacheSize() (int64, error) {
	const name = "KBUILD_CACHE_SIZE"
	text := os.Getenv(name)
	if text == "" {
		return disk.DefaultLimit, nil
	}
	var size sizeFlag
	if err := size.UnmarshalText([]byte(text)); err != nil {
		return 0, usagef("%s: %v", name, err)
	}
	return size.budget(disk.DefaultLimit), nil
}

func (c *cli) store() (*disk.Store, error) {
	dir, err := c.workspace().ActionCache()
	if err != nil {
		return nil, err
	}
	return disk.Open(dir)
}

// fromMake applies the -n, -s and -k of a calling make. A recipe line with + runs under make -n
// too, and must not build then.
func (c *cli) fromMake(makeflags string) {
	letters := jobserver.Letters(makeflags)
	c.DryRun = c.DryRun || strings.Contains(letters, "n")
	c.Quiet = c.Quiet || strings.Contains(letters, "s")
	if strings.Contains(letters, "k") && c.Keep == nil {
		c.Keep = new(failuresFlag)
	}
}

// ended writes the trace and the reports, and maps the result of a run to an exit status.
func (c *cli) ended(sum sched.Summary, err error) error {
	if c.trace != nil { // for failed and interrupted builds too
		err = errors.Join(err, c.trace.Finish())
	}
	err = errors.Join(err, c.writeReports())
	switch {
	case sum.Interrupted:
		return exitError{exitInterrupted, err}
	case sum.Failed > 0:
		return exitError{exitFailed, err}
	}
	return err
}

// Enter implements engine.UI. It prints the directory so that editors can resolve file names.
func (c *cli) Enter() {
	if c.Dir != "." && !c.Quiet && !c.JSON {
		c.say("kbuild: Entering directory '%s'", c.Dir)
	}
}

// Say implements engine.UI.
func (c *cli) Say(text string) { c.say("kbuild: %s", text) }

// Note implements engine.UI.
func (c *cli) Note(text string) {
	if !c.Quiet {
		c.Say(text)
	}
}

// Waiting implements engine.UI. The note is only for terminals, not for logs.
func (c *cli) Waiting(text string) {
	if term.IsTerminal(c.err) && !term.InCI() {
		c.Note(text)
	}
}

// Diagnose implements engine.UI. Diagnostics go to standard error, or become events with --json.
// A repeated plan of the same run does not print a diagnostic again.
func (c *cli) Diagnose(all manifest.Diagnostics) {
	if c.told == nil {
		c.told = map[string]bool{}
	}
	var diags manifest.Diagnostics
	for _, d := range all {
		if text := d.Error() + "\n" + d.Detail; !c.told[text] {
			c.told[text] = true
			diags = append(diags, d)
		}
	}
	if c.JSON {
		for _, d := range diags {
			c.out.Event(map[string]any{"event": "diagnostic", "severity": d.Severity.String(), "summary": d.Summary,
				"detail": d.Detail, "file": d.Pos.File, "line": d.Pos.Line, "column": d.Pos.Column})
		}
		return
	}
	if c.Quiet && !diags.HasErrors() {
		return
	}
	c.annotate(diags)
	diags.Write(c.err, term.Color(c.Color, term.IsTerminal(c.err)))
}

// UpToDate implements engine.UI.
func (c *cli) UpToDate(actions int) {
	if c.quietEnd {
		return
	}
	term.New(term.Options{Err: c.err, Mode: term.Mode(c.Progress), Color: c.Color, Quiet: c.Quiet}).
		Finish(sched.Summary{Actions: actions, UpToDate: actions}, 0)
}

// Begin implements engine.UI.
func (c *cli) Begin(t *engine.Tree, want []graph.ActionID) *engine.Run {
	d := &display{cli: c, start: time.Now(), large: t.Large() && os.Getenv("GOGC") == ""}
	if d.large {
		debug.SetGCPercent(60)
	}
	all := c.ofAll()
	opts := c.schedule(all)
	d.tokens, _ = opts.Jobserver.(*jobserver.Client)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	d.stop = stop
	show := term.Options{Err: c.err, Mode: term.Mode(c.Progress), Color: c.Color, Verbose: c.Verbose, DryRun: c.DryRun, Quiet: c.Quiet,
		GitHub: c.forGitHub(), Jobs: opts.Jobs, Expected: t.Expected}
	if c.JSON {
		show.JSON = c.out
	}
	g := t.Runner.Graph
	for _, id := range g.Closure(want) {
		show.Actions = append(show.Actions, g.Actions[id])
	}
	d.progress = term.New(show)
	observers := term.Tee{d.progress}
	if c.Trace != "" {
		c.trace = term.NewTrace(c.Trace)
		observers = append(observers, c.trace)
	}
	if c.tests != nil {
		observers = append(observers, c.tests)
	}
	if c.reports() {
		c.reported = &report.Report{Root: t.Runner.Root, Version: version, Tests: c.tests != nil}
		observers = append(observers, c.reported)
	}
	if d.Observer = observers; len(observers) == 1 {
		d.Observer = d.progress
	}
	if client := c.share(all, d); client != nil {
		opts.Broker = shared{client, t.Runner.Root}
	}
	return &engine.Run{Context: ctx, Options: opts, Display: d}
}

// display implements engine.Display.
type display struct {
	*cli
	sched.Observer
	progress *term.Progress
	start    time.Time
	large    bool // see Finish
	stop     context.CancelFunc
	tokens   *jobserver.Client // nil if there is no jobserver
}

// Diagnose implements engine.Display.
func (d *display) Diagnose(diag manifest.Diagnostic) { d.progress.Diagnostic(diag) }

// Finish implements engine.Display.
func (d *display) Finish(sum sched.Summary) {
	if d.quietEnd && sum.Failed+sum.Skipped == 0 && !sum.Interrupted {
		d.progress.Clear()
	} else {
		d.progress.Finish(sum, time.Since(d.start))
	}
	if d.large { // the rest builds one view of the whole tree: much memory, little time
		debug.SetGCPercent(10)
	}
}

// Close implements engine.Display.
func (d *display) Close() {
	d.stop()
	if d.tokens != nil {
		d.tokens.Close()
	}
}

// schedule returns the limits of a run. Under make's jobserver its tokens limit the jobs; -j
// applies only if given.
func (c *cli) schedule(all broker.Limits) sched.Options {
	o := sched.Options{Jobs: cmp.Or(int(c.Jobs), all.Processors), KeepGoing: 1, MaxLoad: float64(c.Load)}
	if o.Budget = c.Mem.budget(all.Memory); o.Budget == 0 {
		o.Budget = c.Mem.budget(machine.Memory("/"))
	}
	if c.Keep != nil {
		o.KeepGoing = int(*c.Keep)
	}
	client, err := jobserver.FromEnviron(os.Getenv("MAKEFLAGS"))
	switch {
	case err != nil:
		c.say("kbuild: warning: %v; running one process at a time", err)
		o.Jobs = 1
	case client != nil:
		o.Jobserver = client
		if o.Jobs == 0 {
			o.Jobs = 256
		}
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	return o
}
