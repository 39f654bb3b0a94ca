package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// perform does the work of an action. functions are those that ptxas reported.
func (r *Runner) perform(ctx context.Context, a *graph.Action, dir scratch) (res sched.Result, functions []cache.Function) {
	if s := r.keys.steps[a.Kind]; s != nil {
		err := r.intermediates.materialize(ctx, a, a.Argv)
		if err == nil {
			err = s.run(work{a, r.Root, dir})
		}
		if err != nil {
			return failed(err), nil
		}
		return sched.Result{Status: sched.Ran}, nil
	}
	res, functions = r.command(ctx, a, a.Argv, dir)
	if a.Step().Gate && res.Status != sched.Failed {
		if err := copyFile(r.tree.abs(a.Inputs[0]), dir.output(0, a.Outputs[0])); err != nil {
			return failed(err), nil
		}
	}
	if a.Kind == graph.Test && res.Status != sched.Failed {
		if err := os.WriteFile(dir.output(0, a.Outputs[0]), res.Output, 0o666); err != nil {
			return failed(err), nil
		}
		res.Output = nil // a test that passes prints nothing
	}
	var e *ended
	if a.Step().DiagnosticArgv == nil || len(res.Output) == 0 && res.Status != sched.Failed || errors.As(res.Err, &e) || errors.Is(res.Err, errLost) {
		return res, functions
	}
	return r.performAgain(ctx, a, res, dir)
}

// performAgain runs an action that printed something again, on the text with the true line numbers.
// The outputs stay those of the canonical text, which is the same wherever the lines are. They are
// replaced only if the first run failed and the second succeeded.
func (r *Runner) performAgain(ctx context.Context, a *graph.Action, res sched.Result, dir scratch) (sched.Result, []cache.Function) {
	second := dir.again()
	if err := second.makeFolders(a); err != nil {
		return failed(err), nil
	}
	again, functions := r.command(ctx, a, a.Step().DiagnosticArgv, second)
	if res.Status == sched.Failed && again.Status != sched.Failed {
		for i, o := range a.Outputs {
			if err := os.Rename(second.output(i, o), dir.output(i, o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return failed(err), nil
			}
		}
	}
	again.CPU += res.CPU
	again.Elapsed += res.Elapsed
	return again, functions
}

// command runs argv as a process of a, after it has written the files that argv reads.
func (r *Runner) command(ctx context.Context, a *graph.Action, argv []string, dir scratch) (sched.Result, []cache.Function) {
	if err := r.intermediates.materialize(ctx, a, argv); err != nil {
		return failed(err), nil
	}
	if err := stage(r.Root, a, dir); err != nil {
		return failed(err), nil
	}
	refs, err := withHostRefs(r.Root, a, argv, dir)
	if err != nil {
		return failed(err), nil
	}
	if argv, err = commandLine(r.Root, a, refs.argv, dir); err != nil {
		return failed(err), nil
	}
	out, err := r.processes.run(ctx, a, argv, dir)
	if discover.IsTraced(a) && discover.TellsUser(a) {
		out.Output = append(out.Output, r.discovery.Trace(dir.traceFile()).Rest...)
	}
	res := sched.Result{Status: sched.Ran, Output: out.Output, Argv: refs.shown(a), Elapsed: out.Elapsed, CPU: out.UserCPU + out.SysCPU, MaxRSS: out.MaxRSS, Worker: out.Worker}
	var functions []cache.Function
	if err == nil {
		res.Output, functions, err = r.readOutput(a, out, refs, dir)
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
	}
	return res, functions
}

// readOutput parses the output of a's process and checks whether the process did its work: nvlink
// drops code with status 0.
func (r *Runner) readOutput(a *graph.Action, out run.Result, refs refsArgv, dir scratch) (shown []byte, functions []cache.Function, err error) {
	printed := r.withoutScratch(a, refs.printed(string(out.Output)), dir)
	rest, functions := splitResourceUsage(printed)
	if a.Step().ResourceUsage {
		printed = rest
	}
	var faults []nvcc.Fault
	if a.Work.Link != nil {
		printed, faults = nvcc.ReadNVLink(printed, a.Link().NonLTO)
	}
	printed = run.Shorten(printed, run.DefaultOutput)
	shown = []byte(printed)
	switch {
	case a.Work.Link != nil && out.LeftOut > 0 && out.ExitCode == 0:
		return shown, nil, fmt.Errorf("nvlink printed more than kbuild can check (%d bytes more): it exits with 0 even if it drops code, and only its messages say so", out.LeftOut)
	case exitError(out) != nil:
		err = r.makers.explainFailure(a, printed, inCircumstances(a, printed, exitError(out), r.State))
	case len(faults) > 0:
		err = linkError(a, faults)
	}
	if err != nil && a.Work.Link != nil && a.Link().Check && (out.ExitCode != 0 || len(faults) > 0) {
		err = checkLinkError(a, printed, err)
	}
	return shown, functions, err
}

// withoutScratch removes kbuild's own folders from the output of a command.
func (r *Runner) withoutScratch(a *graph.Action, printed string, dir scratch) string {
	printed = strings.ReplaceAll(printed, dir.tmp+"/", "")
	if a.Step().EmptyCwd {
		printed = strings.ReplaceAll(printed, r.Root+"/", "")
	}
	if dir.name != "" {
		printed = strings.ReplaceAll(printed, dir.seen().output(0, ""), path.Base(a.Outputs[0]))
	} else {
		printed = strings.ReplaceAll(printed, dir.rel+"/", "")
	}
	if a.Kind == graph.NVLink {
		printed = strings.ReplaceAll(printed, path.Join(r.Graph.BuildDir, graph.SlicesDir, a.Archs[0])+"/", r.Graph.BuildDir+"/")
	}
	return printed
}
