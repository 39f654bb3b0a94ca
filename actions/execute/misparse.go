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
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// A toolkit that is newer than kbuild may do something between its passes that its dry run does not
// show. So kbuild tests a pass that fails for another reason than the source: it runs the compiler
// unsplit. If that succeeds, kbuild has misparsed the dry run, and runs the compiler unsplit in
// this build tree from then on. A signal or a lack of memory is not tested: it says nothing about
// the pass's input.

// Misparse describes a dry run that kbuild misparsed, and the failure that showed it.
type Misparse struct {
	Question string `json:"question"` // the Driver.DryRunKey of the action
	Pass     string `json:"pass"`     // the pass that failed: "cicc a.cu (compute_80)"
	Said     string `json:"said"`     // the first line of its output, or its error
}

// misparses finds the compilers whose dry runs kbuild misparsed.
type misparses struct {
	r     *Runner
	mu    sync.Mutex
	found []Misparse
}

// all returns the misparses that this run found, sorted, one for each dry run.
func (m *misparses) all() []Misparse {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.found, func(a, b Misparse) int { return strings.Compare(a.Question+a.Pass, b.Question+b.Pass) })
	return slices.CompactFunc(slices.Clone(m.found), func(a, b Misparse) bool { return a.Question == b.Question })
}

// confirm checks whether a pass failed because kbuild misparsed its compiler's dry run.
func (m *misparses) confirm(ctx context.Context, a *graph.Action, res sched.Result) {
	var e *ended
	if a.Driver().Argv == nil || a.Driver().DryRunKey == "" || res.Argv == nil && a.Kind != graph.Join || errors.As(res.Err, &e) || toolchain.BlamesSource(res.Output) ||
		diskFull(m.r.scratches.dir) || m.isKnown(a.Driver().DryRunKey) || !m.hasInputs(a.Driver().Argv) || !m.plainWorks(ctx, a) {
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

// isKnown reports whether a dry run needs no test, because its compiler already runs unsplit, or
// will. Another failure then shows nothing new.
func (m *misparses) isKnown(question string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.r.Misparsed[question] || slices.ContainsFunc(m.found, func(m Misparse) bool { return m.Question == question })
}

// firstLine returns the first line that a failed action printed, or its error.
func firstLine(res sched.Result) string {
	for line := range bytes.Lines(res.Output) {
		if text := strings.TrimSpace(string(line)); text != "" {
			return strings.ToValidUTF8(text[:min(len(text), 200)], "")
		}
	}
	return res.Err.Error()
}

// hasInputs reports whether the files that other actions build for a command exist. A device link
// is a pass that may run before the objects are built.
func (m *misparses) hasInputs(argv []string) bool {
	for i, arg := range argv {
		if i > 0 && argv[i-1] != "-o" && m.r.tree.IsOutput(arg) && !m.r.Listing.Exists(arg) {
			return false
		}
	}
	return true
}

// plainWorks reports whether nvcc or hipcc succeeds as one unsplit command.
func (m *misparses) plainWorks(ctx context.Context, a *graph.Action) bool {
	r := m.r
	dir, err := os.MkdirTemp(r.scratches.dir, "plain-")
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
	out, err := run.Run(ctx, run.Command{Argv: argv, Dir: r.Root, Env: r.environ(a, r.scratches.shortName(dir))})
	return err == nil && exitError(out) == nil && out.LeftOut == 0 && !strings.Contains(string(out.Output), "nvlink warning")
}
