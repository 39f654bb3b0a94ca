package remote

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache"
	server "github.com/kbuild-dev/kbuild/cache/remote"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// slow estimates that every action takes an hour and memory, in bytes.
type slow struct{ memory int64 }

func (slow) Cost(*graph.Action) time.Duration { return time.Hour }
func (s slow) Memory(*graph.Action) int64     { return s.memory }

// lab is a project of one action.
type lab struct {
	t       *testing.T
	root    string
	action  *graph.Action
	execute execute.Config
	remote  *Executor
}

// newLab returns a lab whose kbuild began long after all its files were written.
func newLab(t *testing.T, a *graph.Action, s Server) *lab {
	t.Helper()
	l := &lab{t: t, root: t.TempDir()}
	state := filepath.Join(l.root, ".kbuild")
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	db, err := tree.Open(filepath.Join(state, "tree.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Close()
		run.RemoveTemp(filepath.Join(state, "tmp"), "")
	})
	g := &graph.Graph{BuildDir: "build"}
	l.action = g.Add(a)
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	l.execute = execute.Config{Graph: g, Root: l.root, State: state, Files: cache.NewFiles(l.root, nil), Listing: cache.NewListing(l.root),
		Records: db, Env: os.Environ(), Begun: time.Now().Add(-time.Minute)}
	l.remote = &Executor{Server: s, Estimates: slow{}}
	return l
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.root, name), []byte(text), 0o777); err != nil {
		l.t.Fatal(err)
	}
}

// runner returns a Runner that has checked the action, which must run.
func (l *lab) runner(r execute.Remote) *execute.Runner {
	l.t.Helper()
	time.Sleep(2 * cache.FileTick)
	l.execute.Remote = r
	runner := execute.New(l.execute)
	if res, done := runner.Check(l.t.Context(), l.action); done || !res.Portable {
		l.t.Fatalf("it need not run, or not remotely: %v", res)
	}
	return runner
}

// unsteady is a Server that loses the first command, or ends it with first, and runs all others.
type unsteady struct {
	first    *server.Outcome
	until    func(context.Context) // when that ends, if not at once
	judged   chan bool
	commands []server.Command
}

func (u *unsteady) Overhead(int64) time.Duration { return 0 }
func (u *unsteady) Used()                        {}

func (u *unsteady) Judge(_ *server.Outcome, well bool) { u.judged <- well }

func (u *unsteady) Execute(ctx context.Context, cmd server.Command) (*server.Outcome, error) {
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
	return &server.Outcome{}, os.WriteFile(cmd.Outputs[0].File, []byte("made elsewhere"), 0o666)
}

// A lost command is no failure of its action: the action does not run again for its messages.
func TestLostIsNoFailure(t *testing.T) {
	const script = `cat "$1" >"$0"; echo warning`
	argv := func(in string) []string { return []string{"sh", "-c", script, "build/a.ptx", in} }
	a := &graph.Action{Kind: graph.CICC, Name: "a.cu", Tools: []string{"cc"}, Inputs: []string{"canon"}, Outputs: []string{"build/a.ptx"}, Argv: argv("canon"),
		Work: graph.Work{Pass: &graph.CompilerPass{DiagnosticInputs: []string{"true"}, DiagnosticArgv: argv("true")}}}
	elsewhere := &unsteady{}
	l := newLab(t, a, elsewhere)
	l.write("canon", "canonical\n")
	l.write("true", "with lines\n")
	r := l.runner(l.remote)
	if res := r.Execute(t.Context(), a, make(chan struct{})); !res.Lost || len(elsewhere.commands) != 1 {
		t.Errorf("%+v after %d commands", res, len(elsewhere.commands))
	}
	if res := r.Execute(t.Context(), a, nil); res.Status != sched.Ran || string(res.Output) != "warning\n" {
		t.Errorf("%+v", res)
	}
	if text, _ := os.ReadFile(filepath.Join(l.root, "build/a.ptx")); string(text) != "canonical\n" {
		t.Errorf("it made %q", text)
	}
}

// A command that fails remotely and succeeds locally is the remote machine's fault. One that fails
// locally too is not.
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
		a := &graph.Action{Kind: graph.CICC, Name: "a.cu", Tools: []string{"cc"}, Inputs: []string{"in"}, Outputs: []string{"build/a.ptx"}, Argv: []string{"sh", "-c", tt.script, "build/a.ptx"}}
		elsewhere := &unsteady{first: &server.Outcome{ExitCode: 1}, judged: make(chan bool, 2)}
		l := newLab(t, a, elsewhere)
		l.write("in", "text\n")
		begun, here := filepath.Join(l.root, "begun"), make(chan struct{})
		if err := syscall.Mkfifo(begun, 0o666); err != nil {
			t.Fatal(err)
		}
		if tt.there != nil {
			close(here)
			elsewhere.until = func(ctx context.Context) { tt.there(ctx, begun) }
		}
		r := l.runner(l.remote)
		res := r.Execute(t.Context(), a, here)
		if lost := tt.there == nil; res.Lost != lost || lost && len(elsewhere.judged) > 0 {
			t.Errorf("%s: %+v, %d verdicts", name, res, len(elsewhere.judged))
		}
		if res.Lost {
			res = r.Execute(t.Context(), a, nil)
		}
		if (res.Status == sched.Ran) != tt.want {
			t.Errorf("%s: %+v", name, res)
		}
		if got := <-elsewhere.judged; got != tt.want || len(elsewhere.judged) > 0 {
			t.Errorf("%s: judged %v, and %d times more", name, got, len(elsewhere.judged))
		}
	}
}

// untilRead returns as soon as the command runs locally.
func untilRead(ctx context.Context, begun string) {
	if f, err := tooltest.OpenFIFO(ctx, begun, os.O_RDONLY); err == nil {
		io.ReadAll(f)
		f.Close()
	}
}

// untilBeaten returns when the command has ended locally.
func untilBeaten(ctx context.Context, _ string) { <-ctx.Done() }
