package execute

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// A toolkit that is newer than kbuild may do something between its passes that its dry run does not show. So a pass
// that fails for another reason than the source is put to the test: if the compiler as one command succeeds, kbuild has
// misread it, and runs it as one command in this build tree from then on. A signal and want of memory are no reason at all: they
// say nothing of what the pass was given.

// Misreading is a question to a compiler whose answer was understood wrongly, and how that came out.
type Misreading struct {
	Question string `json:"question"` // graph.Action.Asked
	Pass     string `json:"pass"`     // that failed: "cicc a.cu (compute_80)"
	Said     string `json:"said"`     // the first line of what it said, or why it failed
}

// Misread are the questions that this run found to be misread, sorted.
func (r *Runner) Misread() []Misreading {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.misread, func(a, b Misreading) int { return strings.Compare(a.Question+a.Pass, b.Question+b.Pass) })
	return slices.CompactFunc(slices.Clone(r.misread), func(a, b Misreading) bool { return a.Question == b.Question })
}

// judge finds out who is to blame for a failed pass.
func (r *Runner) judge(ctx context.Context, a *graph.Action, res sched.Result) {
	var e *ended
	if a.Driver().Argv == nil || a.Driver().DryRunKey == "" || res.Argv == nil && a.Kind != graph.Join || errors.As(res.Err, &e) || compiler.BlamesSource(res.Output) || r.diskFull() {
		return
	}
	if r.distrusts(a.Driver().DryRunKey) || !r.hasInputs(a.Driver().Argv) || !r.plainWorks(ctx, a) {
		return
	}
	pass := string(a.Kind) + " " + a.Name
	if len(a.Archs) > 0 {
		pass += " (" + strings.Join(a.Archs, ", ") + ")"
	}
	r.mu.Lock()
	r.misread = append(r.misread, Misreading{a.Driver().DryRunKey, pass, firstLine(res)})
	r.mu.Unlock()
}

// distrusts reports a question that need not be put to the test: the compiler runs as one command already, or will. Of what fails
// all the same nothing more can be learned.
func (r *Runner) distrusts(question string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Distrusted[question] || slices.ContainsFunc(r.misread, func(m Misreading) bool { return m.Question == question })
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

// hasInputs reports that what others make for a command stands: a device link is a pass that may run before the objects do.
func (r *Runner) hasInputs(argv []string) bool {
	for i, arg := range argv {
		if i > 0 && argv[i-1] != "-o" && r.maker(arg) != nil && !r.Listing.Exists(arg) {
			return false
		}
	}
	return true
}

// plainWorks runs nvcc or hipcc as one command, for its exit status.
func (r *Runner) plainWorks(ctx context.Context, a *graph.Action) bool {
	dir, err := os.MkdirTemp(filepath.Join(r.State, "tmp"), "plain-")
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
	out, err := run.Run(ctx, run.Command{Argv: argv, Dir: r.Root, Env: slices.Concat(r.Env, a.Env, []string{"TMPDIR=" + r.shortName(dir)})})
	return err == nil && exitError(out) == nil && out.LeftOut == 0 && !strings.Contains(string(out.Output), "nvlink warning")
}
