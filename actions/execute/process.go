package execute

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// mostAnswered is how much of an answer is read.
const mostAnswered = 4 << 20

// ask runs a question to a tool where and with what the command of a runs: see discover.Ask.
func (r *Runner) ask(ctx context.Context, a *graph.Action, question []string, quiet bool) (said string, ok bool) {
	if r.makeTemp() != nil {
		return "", false
	}
	env := append(append(slices.Clone(r.Env), "TMPDIR="+filepath.Join(r.State, "tmp")), a.Env...)
	c := run.Command{Argv: question, Dir: r.Root, Env: env, MaxOutput: mostAnswered}
	if quiet {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return "", false
		}
		defer null.Close()
		c.Stdout = null
	}
	out, err := run.Run(ctx, c)
	if err != nil || out.LeftOut > 0 {
		return "", false
	}
	return string(out.Output), out.ExitCode == 0
}
