package execute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
)

// unsteady is another machine that loses the first command, and does all others.
type unsteady struct{ commands []remote.Command }

func (u *unsteady) Executes() bool               { return true }
func (u *unsteady) Ready() <-chan struct{}       { return nil }
func (u *unsteady) Overhead(int64) time.Duration { return 0 }
func (u *unsteady) Used()                        {}

func (u *unsteady) Execute(_ context.Context, cmd remote.Command) (*remote.Outcome, error) {
	u.commands = append(u.commands, cmd)
	if len(u.commands) == 1 {
		return nil, errors.New("lost")
	}
	return &remote.Outcome{}, os.WriteFile(cmd.Outputs[0].File, []byte("made elsewhere"), 0o666)
}

// A command that was lost says nothing of its action: least of all that another text has to be compiled for what there is to say.
func TestLostIsNoFailure(t *testing.T) {
	l := newLab(t, "")
	l.write("canon", "canonical\n")
	l.write("true", "with lines\n")
	l.graph = &graph.Graph{BuildDir: "build"}
	const script = `cat "$1" >"$0"; echo warning`
	argv := func(in string) []string { return []string{"sh", "-c", script, "build/a.ptx", in} }
	a := l.graph.Add(&graph.Action{Kind: graph.CICC, Name: "a.cu", Tools: []string{"cc"}, Inputs: []string{"canon"}, Outputs: []string{"build/a.ptx"}, Argv: argv("canon"),
		Work: graph.Work{Step: &graph.Step{DiagnosticInputs: []string{"true"}, DiagnosticArgv: argv("true")}}})
	if err := l.graph.Seal(); err != nil {
		t.Fatal(err)
	}
	elsewhere := &unsteady{}
	late := l.lateRunner()
	c := late.Config
	c.Elsewhere, c.Cost = elsewhere, func(*graph.Action) time.Duration { return time.Hour }
	r := New(c)
	if _, settled := r.Check(t.Context(), a); settled || !r.Portable(a) {
		t.Fatalf("settled %v, or not for other machines", settled)
	}
	if res := r.ExecuteElsewhere(t.Context(), a, make(chan struct{})); !res.Lost || len(elsewhere.commands) != 1 {
		t.Errorf("%+v after %d commands", res, len(elsewhere.commands))
	}
	if res := r.Execute(t.Context(), a); res.Status != sched.Ran || string(res.Output) != "warning\n" {
		t.Errorf("%+v", res)
	}
	if text, _ := os.ReadFile(filepath.Join(l.root, "build/a.ptx")); string(text) != "canonical\n" {
		t.Errorf("it made %q", text)
	}
}
