package build

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// A toolkit that is newer than kbuild may do something between its passes that its dry run does not show. So a pass
// that fails for another reason than the source is put to the test: if nvcc as one command succeeds, kbuild has
// misread it, and these sources are built by nvcc as one command from then on.

// ofTheSource are messages about the source or about what it links: nobody else is to blame.
var ofTheSource = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\(\d+\): (?:catastrophic )?error|:\d+:(?:\d+:)? (?:fatal )?error|, line \d+; (?:error|fatal)|Undefined reference to|Multiple definition of|multiply defined|undefined (?:hidden )?symbol|duplicate symbol`)
})

// Misread are the questions to nvcc whose answers were understood wrongly, sorted.
func (r *Runner) Misread() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.misread)
	return slices.Compact(r.misread)
}

// judge finds out who is to blame for a failed pass.
func (r *Runner) judge(ctx context.Context, a *graph.Action, res sched.Result) {
	if a.Plain == nil || a.Asked == "" || res.Argv == nil && a.Kind != graph.Join || ofTheSource().Match(res.Output) || r.diskFull() {
		return
	}
	r.mu.Lock()
	known := slices.Contains(r.misread, a.Asked)
	r.mu.Unlock()
	if known || !r.plainWorks(ctx, a) {
		return
	}
	r.mu.Lock()
	r.misread = append(r.misread, a.Asked)
	r.mu.Unlock()
}

// plainWorks runs nvcc as one command, for its exit status.
func (r *Runner) plainWorks(ctx context.Context, a *graph.Action) bool {
	dir, err := os.MkdirTemp(filepath.Join(r.State, "tmp"), "plain-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	argv := slices.Clone(a.Plain)
	for i := 1; i < len(argv); i++ {
		if argv[i-1] == "-o" || argv[i-1] == "-MF" || argv[i-1] == "--keep-dir" {
			argv[i] = filepath.Join(dir, filepath.Base(argv[i]))
		}
	}
	out, err := run.Run(ctx, run.Command{Argv: argv, Dir: r.Root, Env: slices.Concat(r.Env, a.Env, []string{"TMPDIR=" + dir})})
	return err == nil && exitError(out) == nil && !strings.Contains(string(out.Output), "nvlink warning")
}
