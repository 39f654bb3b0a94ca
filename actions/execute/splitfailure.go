package execute

import (
	"bytes"
	"context"
	"errors"
	"maps"
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
// unsplit. If that succeeds, the split has failed: kbuild misparsed the dry run. It runs the
// compiler unsplit in this build tree from then on. A signal or a lack of memory is not tested: it
// says nothing about the pass's input.

// SplitFailure describes a dry run that kbuild misparsed, and the failure that showed it.
type SplitFailure struct {
	Question string `json:"question"` // the Driver.DryRunKey of the action
	Pass     string `json:"pass"`     // the pass that failed: "cicc a.cu (compute_80)"
	Said     string `json:"said"`     // the first line of its output, or its error
}

// splitFailures finds the compilers whose dry runs kbuild misparsed.
type splitFailures struct {
	r     *Runner
	mu    sync.Mutex
	found map[string]SplitFailure // by dry run; of several passes the first by name
}

// SplitFailures returns the failures that this run found, sorted, one for each dry run.
func (r *Runner) SplitFailures() []SplitFailure {
	m := r.splitFailures
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.found), func(a, b SplitFailure) int {
		return strings.Compare(a.Question, b.Question)
	})
}

// confirm checks whether a pass failed because kbuild misparsed its compiler's dry run.
func (m *splitFailures) confirm(ctx context.Context, a *graph.Action, res sched.Result) {
	driver := a.Driver()
	var end *ended
	switch {
	case driver.Argv == nil, driver.DryRunKey == "", res.Argv == nil && !a.Kind.InProcess(),
		errors.As(res.Err, &end), toolchain.BlamesSource(res.Output), diskFull(m.r.scratches.dir),
		m.isKnown(driver.DryRunKey), !m.hasInputs(driver.Argv), !m.unsplitWorks(ctx, a):
		return
	}
	pass := string(a.Kind) + " " + a.Name
	if len(a.Archs) > 0 {
		pass += " (" + strings.Join(a.Archs, ", ") + ")"
	}
	said := res.Err.Error()
	for line := range bytes.Lines(res.Output) {
		if text := strings.TrimSpace(string(line)); text != "" {
			said = strings.ToValidUTF8(text[:min(len(text), 200)], "")
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.found[driver.DryRunKey]; !ok || pass < f.Pass {
		m.found[driver.DryRunKey] = SplitFailure{driver.DryRunKey, pass, said}
	}
}

// isKnown reports whether a dry run needs no test, because its compiler already runs unsplit, or
// will. Another failure then shows nothing new.
func (m *splitFailures) isKnown(question string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.found[question]
	return found || m.r.Unsplit[question]
}

// hasInputs reports whether the files that other actions build for a command exist. A device link
// is a pass that may run before the objects are built.
func (m *splitFailures) hasInputs(argv []string) bool {
	for i, arg := range argv {
		if i > 0 && argv[i-1] != "-o" && m.r.IsOutput(arg) && !m.r.Listing.Exists(arg) {
			return false
		}
	}
	return true
}

// unsplitWorks reports whether nvcc or hipcc succeeds as one command.
func (m *splitFailures) unsplitWorks(ctx context.Context, a *graph.Action) bool {
	r := m.r
	dir, err := os.MkdirTemp(r.scratches.dir, "unsplit-")
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
	env := r.environ(a, r.scratches.shortName(dir))
	out, err := run.Run(ctx, run.Command{Argv: argv, Dir: r.Root, Env: env})
	return err == nil && exitError(out) == nil && out.LeftOut == 0 &&
		!strings.Contains(string(out.Output), "nvlink warning")
}
