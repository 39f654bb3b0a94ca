package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cmd/internal/golden"
	"github.com/kbuild-dev/kbuild/graph"
)

// run is a build with a source that fails for two architectures, one with warnings, a device link that fails, and what nobody reached.
func run() *Report {
	r := &Report{Root: "/p/pro ject", Version: "1.2.3"}
	r.Start(9)
	pos := graph.Pos{File: "kernels.hcl", Line: 3, Column: 1}
	compile := func(name string) *graph.Driver { return &graph.Driver{Argv: []string{"nvcc", "-c", name}} }
	bad, good, dlink := compile("src/bad.cu"), compile("src/good, 2.cu"), &graph.Driver{Argv: []string{"nvcc", "-dlink", "a.o"}}
	pass := func(d *graph.Driver, kind graph.Kind, name string, archs ...string) *graph.Action {
		return &graph.Action{Kind: kind, Name: name, Target: "library.one", Archs: archs, Intermediate: true, Pos: pos, Work: graph.Work{Driver: d}, Outputs: []string{"x"}}
	}
	failed := func(said string, help ...string) sched.Result {
		return sched.Result{Status: sched.Failed, Err: errors.New("exit status 1"), Output: []byte(said), Help: help, Elapsed: 250 * time.Millisecond}
	}
	ran := func(said string) sched.Result {
		return sched.Result{Status: sched.Ran, Output: []byte(said), Elapsed: time.Second}
	}
	r.Finished(pass(bad, graph.Preprocess, "src/bad.cu", "compute_80"), ran(""), 1, 9)
	r.Finished(pass(bad, graph.CICC, "src/bad.cu", "compute_80"), failed("src/bad.cu(3): error: identifier \"foo\" is undefined\n", "Name it."), 2, 9)
	r.Finished(pass(bad, graph.CICC, "src/bad.cu", "compute_90"), failed("src/bad.cu(3): error: identifier \"foo\" is undefined\n", "Name it."), 3, 9)
	r.Finished(pass(good, graph.CICC, "src/good, 2.cu", "compute_80"), ran("src/good, 2.cu(7): warning #177-D: 100% unused\n/opt/x.h:1:2: warning: far [-Wfar]\n\x01\n"), 4, 9)
	r.Finished(pass(good, graph.Join, "src/good, 2.cu"), ran(""), 5, 9)
	r.Finished(pass(dlink, graph.NVLink, "app", "sm_80"), failed("nvlink error   : Undefined reference to 'f' in 'a.o'\n"), 6, 9)
	r.Finished(&graph.Action{ID: 7, Kind: graph.Archive, Name: "libone.a", Target: "library.one", Pos: pos}, sched.Result{Status: sched.Skipped}, 7, 9)
	r.Finished(&graph.Action{ID: 8, Kind: graph.Generate, Name: "tables", Target: "generate.tables", Pos: pos}, sched.Result{Status: sched.Failed, Err: errors.New("no such program")}, 8, 9)
	return r
}

func TestReports(t *testing.T) {
	r := run()
	sarif, err := r.SARIF()
	if err != nil || !json.Valid(sarif) {
		t.Fatal(err)
	}
	junit, err := r.JUnit()
	if err != nil || xml.Unmarshal(junit, &junitSuites{}) != nil {
		t.Fatal(err)
	}
	golden.Check(t, "report.sarif", sarif)
	golden.Check(t, "report.xml", junit)
	golden.Check(t, "report.github", r.GitHub("/p"))
	if text := r.GitHub(""); bytes.Contains(text, []byte("file=")) {
		t.Errorf("files without a workspace:\n%s", text)
	}
}
