package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type testCmd struct {
	Names []string `arg:"" optional:"" name:"test" help:"Tests, or executables whose tests are meant (default: all)."`
}

// Run builds the programs of tests and runs the tests that are not up to date.
func (cmd testCmd) Run(c *cli) error {
	c.fromMake(os.Getenv("MAKEFLAGS"))
	if c.Keep == nil {
		c.Keep = new(failuresFlag) // a failed test says nothing about the others
	}
	c.tests = &testRun{selected: cmd.Names}
	sum, err := c.workspace().Build(engine.Request{Command: c.tests})
	if err == nil {
		c.tests.tell(c)
	}
	return c.ended(sum, err)
}

// Select returns the actions of the selected tests that can run on this machine.
func (r *testRun) Select(p *engine.Project) ([]graph.ActionID, error) {
	r.skipped = nil // a build may plan again
	var labels, names []string
	for _, t := range p.Tests {
		names = append(names, meantBy(t)...)
	}
	if len(names) == 0 {
		return nil, usagef("the manifest has no tests; `kbuild explain test` says how to write one")
	}
	for _, n := range r.selected {
		if !slices.Contains(names, n) {
			hint := ""
			if near := manifest.Nearest(n, names); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			return nil, usagef("there is no test %q%s", n, hint)
		}
	}
	noGPU := ""
	if !probe.AnyGPU("/") {
		noGPU = "it needs a GPU, and there is none here"
	}
	for _, t := range p.Tests {
		label := "test." + t.Name
		if len(r.selected) > 0 && !slices.ContainsFunc(meantBy(t), func(m string) bool { return slices.Contains(r.selected, m) }) {
			continue
		}
		why := ""
		if t.NeedsGPU {
			why = noGPU
		}
		for _, g := range p.Graph.FindTarget(label) {
			if g.Unbuilt != "" {
				why = g.Unbuilt
			}
		}
		if why != "" {
			r.skipped = append(r.skipped, [2]string{label, why})
			continue
		}
		labels = append(labels, label)
	}
	if len(labels) == 0 {
		return nil, nil
	}
	return p.Select(labels)
}

// OnSuccess implements engine.Command.
func (*testRun) OnSuccess(*engine.Project, []graph.ActionID) error { return nil }

// meantBy returns the names that select a test: its own and its program's, with and without the
// kind. For an instance they include those of its block. The folders of the test select it too.
func meantBy(t manifest.Test) (names []string) {
	for _, label := range []string{"test." + t.Name, t.Executable} {
		base, _, _ := strings.Cut(label, ":")
		for _, l := range slices.Compact([]string{label, base}) {
			_, name, _ := strings.Cut(l, ".")
			names = append(names, l, name)
		}
	}
	return append(names, graph.Folders(t.Name)...)
}

// testRun selects tests and counts them. It implements engine.Command and sched.Observer.
type testRun struct {
	selected []string // names; none means all

	mu      sync.Mutex
	passed  int
	cached  int // included in passed
	failed  []string
	reached int
	skipped [][2]string // label, why
}

func (r *testRun) Start(int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed, r.cached, r.failed, r.reached = 0, 0, nil, 0
}

func (r *testRun) Started(*graph.Action) {}

func (r *testRun) Finished(a *graph.Action, res sched.Result, _, _ int) {
	if a.Work.Test == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached++
	switch res.Status {
	case sched.Cached, sched.UpToDate:
		r.cached++
		r.passed++
	case sched.Ran:
		r.passed++
	case sched.Failed:
		r.failed = append(r.failed, a.Target)
	}
}

type testSkippedEvent struct {
	Event  string `json:"event"`
	Target string `json:"target"`
	Reason string `json:"reason"`
}

// tell prints the results of the tests.
func (r *testRun) tell(c *cli) {
	for _, s := range r.skipped {
		switch {
		case c.JSON:
			c.out.Event(testSkippedEvent{"test_skipped", s[0], s[1]})
		case !c.Quiet:
			c.say("kbuild: skipped %s: %s", s[0], s[1])
		}
		if c.reported != nil {
			c.reported.Skip(s[0], s[1])
		}
	}
	if c.JSON || c.DryRun {
		return
	}
	words := []string{fmt.Sprintf("%d passed", r.passed)}
	if r.cached > 0 {
		words[0] += fmt.Sprintf(" (%d before)", r.cached)
	}
	for _, n := range []struct {
		n    int
		word string
	}{{len(r.failed), "failed"}, {len(r.skipped), "skipped"}, {r.reached - r.passed - len(r.failed), "not reached"}} {
		if n.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n.n, n.word))
		}
	}
	if !c.Quiet || len(r.failed) > 0 {
		c.say("kbuild: tests: %s", strings.Join(words, ", "))
	}
}
