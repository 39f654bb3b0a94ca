package execute

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// A toolkit that is newer than kbuild may do something between its passes that its dry run does not
// show. So a pass that fails for another reason than the source is put to the test: if the compiler
// as one command succeeds, kbuild has misparsed it, and runs it as one command in this build tree
// from then on. A signal and want of memory are no reason at all: they say nothing of what the pass
// was given.

// Misparse is a question to a compiler whose answer was understood wrongly, and how that came out.
type Misparse struct {
	Question string `json:"question"` // graph.Action.Asked
	Pass     string `json:"pass"`     // that failed: "cicc a.cu (compute_80)"
	Said     string `json:"said"`     // the first line of what it said, or why it failed
}

// misparses finds the compilers that were understood wrongly.
type misparses struct {
	makers
	processes *processes
	exists    func(file string) bool
	known     map[string]bool // questions that are known to be misparsed

	mu    sync.Mutex
	found []Misparse
}

// all are those that this run found, sorted, one for each question.
func (m *misparses) all() []Misparse {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.found, func(a, b Misparse) int { return strings.Compare(a.Question+a.Pass, b.Question+b.Pass) })
	return slices.CompactFunc(slices.Clone(m.found), func(a, b Misparse) bool { return a.Question == b.Question })
}

// confirm finds out whether a pass failed because its compiler was misparsed.
func (m *misparses) confirm(ctx context.Context, a *graph.Action, res sched.Result) {
	var e *ended
	if a.Driver().Argv == nil || a.Driver().DryRunKey == "" || res.Argv == nil && a.Kind != graph.Join || errors.As(res.Err, &e) || compiler.BlamesSource(res.Output) ||
		diskFull(m.processes.scratches.dir) || m.isKnown(a.Driver().DryRunKey) || !m.hasInputs(a.Driver().Argv) || !m.plainWorks(ctx, a) {
		return
	}
	pass := string(a.Kind) + " " + a.Name
	if len(a.Archs) > 0 {
		pass += " (" + strings.Join(a.Archs, ", ") + ")"
	}
	m.mu.Lock()
	m.found = append(m.found, Misparse{a.Driver().DryRunKey, pass, firstLine(res)})
	m.mu.Unlock()
}

// isKnown reports a question that need not be put to the test: the compiler runs as one command
// already, or will. Of what fails all the same nothing more can be learned.
func (m *misparses) isKnown(question string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[question] || slices.ContainsFunc(m.found, func(m Misparse) bool { return m.Question == question })
}

// firstLine is what a failed action said first, else its error.
func firstLine(res sched.Result) string {
	for line := range bytes.Lines(res.Output) {
		if text := strings.TrimSpace(string(line)); text != "" {
			return strings.ToValidUTF8(text[:min(len(text), 200)], "")
		}
	}
	return res.Err.Error()
}

// hasInputs reports that what others make for a command is there: a device link is a pass that may
// run before the objects do.
func (m *misparses) hasInputs(argv []string) bool {
	for i, arg := range argv {
		if i > 0 && argv[i-1] != "-o" && m.isMade(arg) && !m.exists(arg) {
			return false
		}
	}
	return true
}

// plainWorks runs nvcc or hipcc as one command, for its exit status.
func (m *misparses) plainWorks(ctx context.Context, a *graph.Action) bool {
	p := m.processes
	dir, err := os.MkdirTemp(p.scratches.dir, "plain-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	argv := slices.Clone(a.Driver().Argv)
	for i := 1; i < len(argv); i++ {
		if argv[i-1] == "-o" || argv[i-1] == "-MF" || argv[i-1] == "--keep-dir" {
			argv[i] = filepath.Join(dir, filepath.Base(argv[i]))
		}
	}
	out, err := run.Run(ctx, run.Command{Argv: argv, Dir: p.root, Env: p.environ(a, p.scratches.shortName(dir))})
	return err == nil && exitError(out) == nil && out.LeftOut == 0 && !strings.Contains(string(out.Output), "nvlink warning")
}
