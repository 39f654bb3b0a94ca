package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/machine"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// All builds of a user share the machine. -j and --mem limit one build's own scheduler. KBUILD_JOBS
// and KBUILD_MEM limit all builds together; the defaults are the machine's processors and memory.
// If -j or --mem explicitly exceeds such a limit, it raises the limit for that build.

// ofAll returns the limits that the user sets for all kbuild processes. 0 means not set.
func (c *cli) ofAll() (l broker.Limits) {
	warn := func(name string, err error) { c.say("kbuild: warning: %s: %v; using the default", name, err) }
	if text := os.Getenv("KBUILD_JOBS"); text != "" {
		var jobs jobsFlag
		if err := jobs.UnmarshalText([]byte(text)); err != nil {
			warn("KBUILD_JOBS", err)
		}
		l.Processors = int(jobs)
	}
	if text := os.Getenv("KBUILD_MEM"); text != "" {
		var size memFlag
		if err := size.UnmarshalText([]byte(text)); err != nil {
			warn("KBUILD_MEM", err)
		} else if l.Memory = size.bytes; size.share > 0 {
			l.Memory = size.budget(machine.Memory("/"))
		}
	}
	return l
}

// share returns a client of the broker, or nil if a run does not share the machine. l holds the
// limits set for all builds.
func (c *cli) share(l broker.Limits, ui broker.UI) *broker.Client {
	if c.DryRun {
		return nil
	}
	if mine := max(int(c.Jobs), jobserver.Jobs(os.Getenv("MAKEFLAGS"))); mine > cmp.Or(l.Processors, runtime.GOMAXPROCS(0)) {
		l.Processors = mine
	}
	if c.Mem.bytes > 0 && c.Mem.bytes > cmp.Or(l.Memory, machine.Memory("/")) {
		l.Memory = c.Mem.bytes
	}
	return broker.FromEnviron(l, ui)
}

// Unshared implements broker.UI.
func (d *display) Unshared(err error) {
	d.Diagnose(manifest.Diagnostic{Severity: manifest.Warning, Summary: fmt.Sprintf("processors and "+
		"memory are not shared with other builds: %v; KBUILD_BROKER=0 is without this warning", err)})
}

// Idle implements broker.UI.
func (d *display) Idle() {
	d.Diagnose(manifest.Diagnostic{Severity: manifest.Note, Summary: "waiting for processors or " +
		"memory that other kbuild processes have; `kbuild top` lists them"})
}

// shared adapts a client of the broker to sched.Broker.
type shared struct {
	client  *broker.Client
	project string
}

// Acquire implements sched.Broker.
func (s shared) Acquire(ctx context.Context, a *graph.Action, memory int64) (sched.Lease, error) {
	l, err := s.client.Acquire(ctx, broker.Request{Memory: memory, Label: string(a.Kind) + " " + a.Name, Arch: strings.Join(a.Archs, ","), Project: s.project})
	if err != nil {
		return nil, err
	}
	return l, nil
}
