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
// that fails for another reason than the source is put to the test: if the compiler as one command succeeds, kbuild has
// misread it, and runs it as one command in this build tree from then on.

// ofTheSource are messages about the source or about what it links: nobody else is to blame.
var ofTheSource = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\(\d+\): (?:catastrophic )?error|:\d+:(?:\d+:)? (?:fatal )?error|, line \d+; (?:error|fatal)|Undefined reference to|Multiple definition of|multiply defined|undefined (?:hidden )?symbol|duplicate symbol`)
})

// Misread are the questions to compilers whose answers were understood wrongly, sorted.
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
	if known || !r.hasInputs(a.Plain) || !r.plainWorks(ctx, a) {
		return
	}
	r.mu.Lock()
	r.misread = append(r.misread, a.Asked)
	r.mu.Unlock()
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
	argv := slices.Clone(a.Plain)
	for i := 1; i < len(argv); i++ {
		if argv[i-1] == "-o" || argv[i-1] == "-MF" || argv[i-1] == "--keep-dir" {
			argv[i] = filepath.Join(dir, filepath.Base(argv[i]))
		}
	}
	out, err := run.Run(ctx, run.Command{Argv: argv, Dir: r.Root, Env: slices.Concat(r.Env, a.Env, []string{"TMPDIR=" + dir})})
	return err == nil && exitError(out) == nil && !strings.Contains(string(out.Output), "nvlink warning")
}
