// Package report writes machine-readable reports of a build: SARIF for code scanning, JUnit for CI
// systems, annotations for GitHub. It observes a run and has one result per command of the user. It
// does not know how commands are split or run.
package report

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
	"github.com/kbuild-dev/kbuild/graph"
)

// Report collects the results of a run. Its methods may be called from any goroutine.
type Report struct {
	Root    string // the project; messages name files relative to it
	Version string // kbuild's version
	Tests   bool   // JUnit lists only tests and failures

	mu    sync.Mutex
	cases []*command
	of    map[any]*command
}

// command is one command of the user: a compile with all its passes, or a link.
type command struct {
	action   *graph.Action // the last action
	elapsed  time.Duration
	failed   bool
	skipped  bool
	why      string // the reason for skipping
	printed  []string
	help     []string
	messages []*message
}

// message is a message with the architectures whose passes printed it.
type message struct {
	messages.Message
	archs []string
}

var _ sched.Observer = (*Report)(nil)

// Start implements sched.Observer.
func (r *Report) Start(int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = map[any]*command{}
}

// Started implements sched.Observer.
func (r *Report) Started(*graph.Action) {}

// Finished implements sched.Observer.
func (r *Report) Finished(a *graph.Action, res sched.Result, _, _ int) {
	if a.Kind.InProcess() && res.Status != sched.Failed {
		return // part of another action
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.command(a)
	c.elapsed += res.Elapsed
	c.failed = c.failed || res.Status == sched.Failed
	c.skipped = c.skipped || res.Status == sched.Skipped
	if a.Work.Test != nil && res.Err != nil {
		c.why = res.Err.Error()
	}
	text := string(res.Output)
	if res.Status == sched.Failed && strings.TrimSpace(text) == "" && res.Err != nil {
		text = res.Err.Error()
	}
	if text != "" && !slices.Contains(c.printed, text) {
		c.printed = append(c.printed, text)
	}
	for _, h := range res.Help {
		if !slices.Contains(c.help, h) {
			c.help = append(c.help, h)
		}
	}
	found := messages.Parse(text)
	if len(found) == 0 && res.Status == sched.Failed {
		line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		found = []messages.Message{{Severity: messages.Error, Text: cmp.Or(line, "it failed")}}
	}
	for _, m := range found {
		c.add(m, a)
	}
}

// Skip records a test that cannot run on this machine.
func (r *Report) Skip(label, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &graph.Action{Kind: graph.Test, Target: label, Name: strings.TrimPrefix(label, "test."),
		Work: graph.Work{Test: new(graph.TestRun)}}
	r.cases = append(r.cases, &command{action: a, skipped: true, why: why})
}

// command returns the command that an action belongs to.
func (r *Report) command(a *graph.Action) *command {
	var key any = a.ID
	if d := a.Work.Driver; d != nil && d.Argv != nil {
		key = d
	}
	c := r.of[key]
	if c == nil {
		c = &command{}
		r.of[key] = c
		r.cases = append(r.cases, c)
	}
	c.action = a
	return c
}

// add records a message of a pass. A message without a file belongs to the source, or to the
// manifest's position of the link.
func (c *command) add(m messages.Message, a *graph.Action) {
	if m.File == "" && m.Line == 0 {
		if slices.Contains(a.Inputs, a.Name) || slices.Contains(a.Driver().Argv, a.Name) {
			m.File = a.Name
		} else {
			m.File, m.Line, m.Column = a.Pos.File, a.Pos.Line, a.Pos.Column
		}
	}
	i := slices.IndexFunc(c.messages, func(o *message) bool { return o.Message == m })
	if i < 0 {
		i = len(c.messages)
		c.messages = append(c.messages, &message{Message: m})
	}
	for _, arch := range a.CodeFor() {
		if !slices.Contains(c.messages[i].archs, arch) {
			c.messages[i].archs = append(c.messages[i].archs, arch)
		}
	}
}

// sorted returns the commands by target and name, so that reports are reproducible.
func (r *Report) sorted() []*command {
	all := slices.Clone(r.cases)
	slices.SortStableFunc(all, func(a, b *command) int {
		return cmp.Or(strings.Compare(a.action.Target, b.action.Target), strings.Compare(a.action.Name, b.action.Name))
	})
	return all
}

// within returns file relative to dir, with slashes. file may be relative to root. ok is false if
// file is outside dir.
func within(root, dir, file string) (rel string, ok bool) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, file)
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// title returns a command's name: "compile src/a.cu".
func (c *command) title() string {
	kind := c.action.Kind
	if len(c.action.Driver().Argv) > 0 { // a pass of a command
		kind = graph.Compile
		info := c.action.Kind.Info()
		if info.LinksDevice() || info.Cuts || slices.Contains(c.action.Driver().Argv, "-dlink") {
			kind = graph.DeviceLink
		}
	}
	return string(kind) + " " + c.action.Name
}
