package execute

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/graph"
)

// unsteady is another machine that loses the first command, or ends it as first says, and does all
// others.
type unsteady struct {
	first    *remote.Outcome
	until    func(context.Context) // when that ends, if not at once
	judged   chan bool
	commands []remote.Command
}

func (u *unsteady) Executes() bool               { return true }
func (u *unsteady) Ready() <-chan struct{}       { return nil }
func (u *unsteady) Overhead(int64) time.Duration { return 0 }
func (u *unsteady) Used()                        {}

func (u *unsteady) Judge(_ *remote.Outcome, well bool) { u.judged <- well }

func (u *unsteady) Execute(ctx context.Context, cmd remote.Command) (*remote.Outcome, error) {
	u.commands = append(u.commands, cmd)
	if u.until != nil {
		u.until(ctx)
	}
	switch {
	case len(u.commands) == 1 && u.first != nil:
		return u.first, nil
	case len(u.commands) == 1:
		return nil, errors.New("lost")
	}
	return &remote.Outcome{}, os.WriteFile(cmd.Outputs[0].File, []byte("made elsewhere"), 0o666)
}

// A command that was lost says nothing of its action: least of all that another text has to be
// compiled for what there is to say.
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
	if res := r.ExecuteRemote(t.Context(), a, make(chan struct{})); !res.Lost || len(elsewhere.commands) != 1 {
		t.Errorf("%+v after %d commands", res, len(elsewhere.commands))
	}
	if res := r.Execute(t.Context(), a); res.Status != sched.Ran || string(res.Output) != "warning\n" {
		t.Errorf("%+v", res)
	}
	if text, _ := os.ReadFile(filepath.Join(l.root, "build/a.ptx")); string(text) != "canonical\n" {
		t.Errorf("it made %q", text)
	}
}

// What fails on another machine, and ends well here, before or after, is the machine's fault. What
// fails here too is not.
func TestJudged(t *testing.T) {
	const waits = `echo begun >begun; ` // for a reader of that FIFO
	for name, tt := range map[string]struct {
		script string
		there  func(ctx context.Context, begun string) // until when it runs there; nil where it has ended before it begins here
		want   bool
	}{
		"well":            {`echo made >"$0"`, nil, true},
		"wrong":           {`exit 1`, nil, false},
		"well meanwhile":  {waits + `echo made >"$0"`, untilRead, true},
		"wrong meanwhile": {waits + `exit 1`, untilRead, false},
		"well before":     {`echo made >"$0"`, untilBeaten, true},
	} {
		l := newLab(t, "")
		l.write("in", "text\n")
		l.graph = &graph.Graph{BuildDir: "build"}
		a := l.graph.Add(&graph.Action{Kind: graph.CICC, Name: "a.cu", Tools: []string{"cc"}, Inputs: []string{"in"}, Outputs: []string{"build/a.ptx"}, Argv: []string{"sh", "-c", tt.script, "build/a.ptx"}})
		if err := l.graph.Seal(); err != nil {
			t.Fatal(err)
		}
		begun, here := filepath.Join(l.root, "begun"), make(chan struct{})
		if err := syscall.Mkfifo(begun, 0o666); err != nil {
			t.Fatal(err)
		}
		elsewhere := &unsteady{first: &remote.Outcome{ExitCode: 1}, judged: make(chan bool, 2)}
		if tt.there != nil {
			close(here)
			elsewhere.until = func(ctx context.Context) { tt.there(ctx, begun) }
		}
		c := l.lateRunner().Config
		c.Elsewhere, c.Cost = elsewhere, func(*graph.Action) time.Duration { return time.Hour }
		r := New(c)
		if _, settled := r.Check(t.Context(), a); settled {
			t.Fatalf("%s: it is settled", name)
		}
		res := r.ExecuteRemote(t.Context(), a, here)
		if lost := tt.there == nil; res.Lost != lost || lost && len(elsewhere.judged) > 0 {
			t.Errorf("%s: %+v, %d verdicts", name, res, len(elsewhere.judged))
		}
		if res.Lost {
			res = r.Execute(t.Context(), a)
		}
		if (res.Status == sched.Ran) != tt.want {
			t.Errorf("%s: %+v", name, res)
		}
		if got := <-elsewhere.judged; got != tt.want || len(elsewhere.judged) > 0 {
			t.Errorf("%s: judged %v, and %d times more", name, got, len(elsewhere.judged))
		}
	}
}

// untilRead ends as soon as the command runs here.
func untilRead(ctx context.Context, begun string) {
	if f, err := tooltest.OpenFIFO(ctx, begun, os.O_RDONLY); err == nil {
		io.ReadAll(f)
		f.Close()
	}
}

// untilBeaten ends when the command has ended here.
func untilBeaten(ctx context.Context, _ string) { <-ctx.Done() }
