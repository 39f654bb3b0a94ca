package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
)

// These tests show which way builds take, and in which order actions end. No action runs a process: a
// fake runner writes the outputs, each from the contents of the inputs.

// fakeBuild is what a test wants of the fake runners of a build.
type fakeBuild struct {
	fails     string      // the output whose action fails
	keep      int         // as sched.Options.KeepGoing; 0 means 1
	after     [][2]string // the action of the first output ends after that of the second
	stop      string      // the output at which the user interrupts
	misparsed int         // how many rounds find another misparsed dry run
	rounds    int

	cancel func()
	ended  []string // outputs in the order in which their actions ended
}

// fakeRunner executes the actions of one round.
type fakeRunner struct {
	*fakeBuild
	tree      *Tree
	misparses []execute.SplitFailure

	mu   sync.Mutex
	keys map[graph.ActionID]cache.Key
	done map[string]chan struct{} // by output: closed when its action has ended
}

func (r *fakeRunner) key(a *graph.Action) (cache.Key, error) {
	w := cache.NewHasher()
	w.Field("command", strings.Join(a.Argv, " "))
	for _, in := range a.Inputs {
		d, err := r.tree.files.Digest(in)
		if err != nil {
			return cache.Key{}, err
		}
		w.Field(in, d.String())
	}
	return w.Sum(), nil
}

func (r *fakeRunner) Check(_ context.Context, a *graph.Action) (sched.Result, bool) {
	key, err := r.key(a)
	if err != nil {
		return sched.Result{Status: sched.Failed, Err: err}, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[a.ID] = key
	rec := r.tree.db.Last(a.Outputs[0])
	if rec == nil || rec.Command != key {
		return sched.Result{}, false
	}
	for _, o := range rec.Outputs {
		if d, err := r.tree.files.Digest(o.Path); err != nil || d != o.Digest {
			return sched.Result{}, false
		}
	}
	return sched.Result{Status: sched.UpToDate}, true
}

func (r *fakeRunner) Execute(ctx context.Context, a *graph.Action, _ <-chan struct{}) sched.Result {
	output := a.Outputs[0]
	defer close(r.wait(output))
	for _, order := range r.after {
		if order[0] == output {
			<-r.wait(order[1])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, filepath.Base(output))
	if r.stop == output {
		r.cancel()
	}
	if r.fails == output {
		return sched.Result{Status: sched.Failed, Err: errors.New("it failed")}
	}
	rec := &cache.Record{Command: r.keys[a.ID]}
	for i, text := range r.contents(a) {
		name := cache.Absolute(r.tree.Runner.Root, a.Outputs[i])
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		if err == nil {
			err = os.WriteFile(name, text, 0o666)
		}
		r.tree.Runner.Forget(a.Outputs[i])
		d, err2 := r.tree.files.Digest(a.Outputs[i])
		if err = errors.Join(err, err2, ctx.Err()); err != nil {
			return sched.Result{Status: sched.Failed, Err: err}
		}
		rec.Outputs = append(rec.Outputs, cache.Output{Path: a.Outputs[i], Digest: d, Size: int64(len(text))})
	}
	if err := r.tree.db.Append(rec); err != nil {
		return sched.Result{Status: sched.Failed, Err: err}
	}
	return sched.Result{Status: sched.Ran}
}

// contents returns the contents of the outputs. The file "names" lists dynamic outputs.
func (r *fakeRunner) contents(a *graph.Action) (texts [][]byte) {
	if a.Work.Collect != nil {
		text, _ := os.ReadFile(cache.Absolute(r.tree.Runner.Root, "names"))
		var files []fileset.File
		for name := range strings.FieldsSeq(string(text)) {
			files = append(files, fileset.File{Name: name})
		}
		list, pack := fileset.Pack(files)
		return [][]byte{list, pack}
	}
	for _, o := range a.Outputs {
		texts = append(texts, fmt.Appendf(nil, "%s of %x\n", o, r.keys[a.ID]))
	}
	return texts
}

// wait returns the channel that is closed when the action of an output has ended.
func (r *fakeRunner) wait(output string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done[output] == nil {
		r.done[output] = make(chan struct{})
	}
	return r.done[output]
}

func (r *fakeRunner) Observed([]graph.ActionID) ([]cache.Observation, bool) { return nil, true }

func (r *fakeRunner) Uses(ids []graph.ActionID, p *graph.Packer) []string {
	g := r.tree.Runner.Graph
	for _, id := range ids {
		for _, in := range g.Actions[id].Inputs {
			if _, made := g.Producer(in); !made {
				p.Use(in, id)
			}
		}
	}
	return nil
}

func (r *fakeRunner) SplitFailures() []execute.SplitFailure { return r.misparses }

// fake builds with fake runners, and checks what the build does. If it sets build.rounds, the build
// has so many runs of the scheduler.
func (p *project) fake(what string, build fakeBuild, want, ended string, sum sched.Summary) {
	p.t.Helper()
	f, rounds := &ui{}, 0
	f.opened = func(t *Tree) {
		r := &fakeRunner{fakeBuild: &build, tree: t, keys: map[graph.ActionID]cache.Key{}, done: map[string]chan struct{}{}}
		if rounds++; rounds <= build.misparsed {
			r.misparses = []execute.SplitFailure{{Question: fmt.Sprintf("hip\n%s %d", what, rounds), Pass: "clang a.hip", Said: "unknown argument"}}
		}
		t.runner, build.cancel = r, f.stop
		f.run.Options.Jobs, f.run.Options.KeepGoing = 4, max(1, build.keep)
	}
	p.expect(what, p.watch(f), want)
	if got := strings.Join(build.ended, " "); got != ended {
		p.t.Errorf("%s: the actions ended in the order %s, want %s", what, got, ended)
	}
	if f.sum != sum {
		p.t.Errorf("%s: %+v, want %+v", what, f.sum, sum)
	}
	if build.rounds > 0 && rounds != build.rounds {
		p.t.Errorf("%s: %d rounds, want %d", what, rounds, build.rounds)
	}
}

// fakeProject is a project with three generators, and one that reads what they write.
func fakeProject(t *testing.T, more string) *project {
	text := "variable \"def\" {\n  type = string\n}\n"
	files := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		text += fmt.Sprintf("generate %q {\n  command = [\"make\", var.def]\n  inputs  = [\"%[1]s.in\"]\n  outputs = [%[1]q]\n}\n", name)
		files[name+".in"] = name
	}
	text += "generate \"all\" {\n  command = [\"make\"]\n  inputs  = [generate.a.outputs[0], generate.b.outputs[0], generate.c.outputs[0]]\n  outputs = [\"all\"]\n}\n"
	files["kernels.hcl"] = text + more
	return newProject(t, files)
}

// The ways that builds take, one after the other in one tree.
func TestWays(t *testing.T) {
	p := fakeProject(t, "")
	inputs := func(text string) {
		for _, name := range []string{"a.in", "b.in", "c.in"} {
			p.write(name, text)
		}
	}
	out := func(name string) string { return "build/gen/" + name + "/" + name }
	tests := []struct {
		name  string
		edit  func()
		build fakeBuild
		want  string
		ended string
		sum   sched.Summary
	}{
		{name: "the first build", build: fakeBuild{after: [][2]string{{out("a"), out("c")}, {out("c"), out("b")}}},
			want: "plan: ran gen/a/a gen/all/all gen/b/b gen/c/c", ended: "b c a all", sum: sched.Summary{Actions: 4, Ran: 4}},
		{name: "nothing to do", want: "view:", sum: sched.Summary{Actions: 4, UpToDate: 4}},
		{name: "an edit", edit: func() { p.write("b.in", "edited") },
			want: "part: ran gen/all/all gen/b/b", ended: "b all", sum: sched.Summary{Actions: 4, Ran: 2, UpToDate: 2}},
		{name: "an output is gone", edit: func() { p.remove(out("c")) },
			want: "part: ran gen/c/c; up_to_date gen/all/all gen/b/b", ended: "c", sum: sched.Summary{Actions: 4, Ran: 1, UpToDate: 3}},
		{name: "a variable", edit: func() { t.Setenv("KBUILD_VAR_def", "2") },
			build: fakeBuild{after: [][2]string{{out("a"), out("b")}, {out("b"), out("c")}}},
			want:  "plan: ran gen/a/a gen/all/all gen/b/b gen/c/c", ended: "c b a all", sum: sched.Summary{Actions: 4, Ran: 4}},
		{name: "one fails, and the build goes on", edit: func() { inputs("2") },
			build: fakeBuild{keep: 9, fails: out("a"), after: [][2]string{{out("b"), out("a")}, {out("c"), out("b")}}},
			want:  "part: failed gen/a/a; ran gen/b/b gen/c/c; skipped gen/all/all", ended: "a b c",
			sum: sched.Summary{Actions: 4, Ran: 2, Failed: 1, Skipped: 1}},
		{name: "it is mended", want: "part: ran gen/a/a gen/all/all; up_to_date gen/b/b gen/c/c", ended: "a all",
			sum: sched.Summary{Actions: 4, Ran: 2, UpToDate: 2}},
		{name: "interrupted", edit: func() { inputs("3") },
			build: fakeBuild{keep: 9, stop: out("a"), after: [][2]string{{out("a"), out("b")}, {out("c"), out("a")}}},
			want:  "part: ran gen/b/b; skipped gen/a/a gen/all/all gen/c/c", ended: "b a c",
			sum: sched.Summary{Actions: 4, Ran: 1, Skipped: 3, Interrupted: true}},
		{name: "the rest", build: fakeBuild{after: [][2]string{{out("a"), out("c")}}},
			want: "part: ran gen/a/a gen/all/all gen/c/c; up_to_date gen/b/b", ended: "c a all", sum: sched.Summary{Actions: 4, Ran: 3, UpToDate: 1}},
		{name: "a part finds a split failure", edit: func() { p.write("a.in", "4") }, build: fakeBuild{misparsed: 1, rounds: 2},
			want: "plan:", ended: "a all", sum: sched.Summary{Actions: 4, UpToDate: 4}},
		{name: "a part and a plan find one", edit: func() { p.write("a.in", "5") }, build: fakeBuild{misparsed: 2, rounds: 3},
			want: "plan: (2 plans)", ended: "a all", sum: sched.Summary{Actions: 4, UpToDate: 4}},
		{name: "the build ends, whatever each round finds", edit: func() { p.write("a.in", "6") },
			build: fakeBuild{misparsed: 1000, rounds: maxRounds, fails: out("a")},
			want:  fmt.Sprintf("plan: failed gen/a/a; skipped gen/all/all (%d plans)", maxRounds-1), ended: strings.TrimSpace(strings.Repeat("a ", maxRounds)),
			sum: sched.Summary{Actions: 4, UpToDate: 2, Failed: 1, Skipped: 1}},
	}
	for _, test := range tests {
		if test.edit != nil {
			test.edit()
		}
		p.fake(test.name, test.build, test.want, test.ended, test.sum)
	}
}

// If a command writes other files than the last time, a second plan has them.
func TestDynamicOutputs(t *testing.T) {
	p := fakeProject(t, "generate \"some\" {\n  command = [\"make\"]\n  inputs  = [\"names\"]\n  outputs = [\"*.h\"]\n}\n")
	tests := []struct {
		names       string
		build       fakeBuild
		want, ended string
		sum         sched.Summary
	}{
		{names: "x.h", build: fakeBuild{rounds: 2, after: [][2]string{{"build/gen/b/b", "build/gen/a/a"}, {"build/gen/c/c", "build/gen/b/b"},
			{"build/gen/some/x.h", "build/gen/c/c"}, {"build/gen/all/all", "build/gen/some/x.h"}}},
			want:  "plan: ran gen/a/a gen/all/all gen/b/b gen/c/c gen/some/x.h (2 plans)",
			ended: ".some.list a b c x.h all", sum: sched.Summary{Actions: 6, Ran: 6}},
		{want: "view:", sum: sched.Summary{Actions: 6, UpToDate: 6}},
		{names: "x.h y.h", build: fakeBuild{rounds: 2}, want: "plan: ran gen/some/x.h (2 plans)", ended: ".some.list x.h", sum: sched.Summary{Actions: 6, Ran: 2, UpToDate: 4}},
		{names: "y.h  x.h", build: fakeBuild{rounds: 1}, want: "plan:", ended: ".some.list", sum: sched.Summary{Actions: 6, Ran: 1, UpToDate: 5}},
		{names: "z.h", build: fakeBuild{rounds: 1, fails: "build/gen/.some.list"}, want: "plan: failed gen/.some.list", ended: ".some.list", sum: sched.Summary{Actions: 1, Failed: 1}},
		{build: fakeBuild{rounds: 2}, want: "plan: ran gen/some/z.h (2 plans)", ended: ".some.list z.h", sum: sched.Summary{Actions: 6, Ran: 2, UpToDate: 4}},
	}
	for i, test := range tests {
		if test.names != "" {
			p.write("names", test.names)
		}
		p.fake(fmt.Sprint("build ", i), test.build, test.want, test.ended, test.sum)
	}
}
