package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cmd/internal/golden"
	"github.com/kbuild-dev/kbuild/graph"
)

// run is a build with a source that fails for two architectures, one with warnings, a device link
// that fails, and what nobody reached.
func run() *Report {
	r := &Report{Root: "/p/pro ject", Version: "1.2.3"}
	r.Start(9)
	pos := graph.Pos{File: "kernels.hcl", Line: 3, Column: 1}
	compile := func(name string) *graph.Driver { return &graph.Driver{Argv: []string{"nvcc", "-c", name}} }
	bad, good, dlink := compile("src/bad.cu"), compile("src/good, 2.cu"), &graph.Driver{Argv: []string{"nvcc", "-dlink", "a.o"}}
	pass := func(d *graph.Driver, kind graph.Kind, name string, archs ...string) *graph.Action {
		return &graph.Action{Kind: kind, Name: name, Target: "library.one", Archs: archs, Intermediate: true, Pos: pos, Work: graph.Work{Driver: d}, Outputs: []string{"x"}}
	}
	failed := func(printed string, help ...string) sched.Result {
		return sched.Result{Status: sched.Failed, Err: errors.New("exit status 1"), Output: []byte(printed), Help: help, Elapsed: 250 * time.Millisecond}
	}
	ran := func(printed string) sched.Result {
		return sched.Result{Status: sched.Ran, Output: []byte(printed), Elapsed: time.Second}
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

// What the schema of SARIF 2.1.0 demands, and code scanning besides: also of files with names that
// look like URLs, and of a message without a text.
func TestSARIFIsValid(t *testing.T) {
	r := run()
	odd := func(id int, name string, printed string) {
		a := &graph.Action{ID: graph.ActionID(id), Kind: graph.HostCompile, Name: name, Inputs: []string{name}, Target: "library.odd", Outputs: []string{name + ".o"}}
		r.Finished(a, sched.Result{Status: sched.Failed, Err: errors.New("exit status 1"), Output: []byte(printed)}, 9, 9)
	}
	odd(20, "a:b.cpp", "a:b.cpp:3:0: error: no\n")
	odd(21, "ü #1?.cpp", "ü #1?.cpp:3:1: error: \xff\n")
	odd(22, "c.cpp", "<command-line>: error: \n")
	odd(23, "d.cpp", "")
	text, err := r.SARIF()
	if err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(text, &log); err != nil || log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	one := log.Runs[0]
	rules := map[string]bool{}
	for _, rule := range one.Tool.Driver.Rules {
		if rule.ID == "" || rules[rule.ID] {
			t.Errorf("rule %q is listed twice, or has no name", rule.ID)
		}
		rules[rule.ID] = true
	}
	for _, res := range one.Results {
		if !rules[res.RuleID] || !slices.Contains([]string{"none", "note", "warning", "error"}, res.Level) || res.Message.Text == "" {
			t.Errorf("%+v", res)
		}
		for _, l := range res.Locations {
			u, err := url.Parse(l.Physical.Artifact.URI)
			if err != nil || (u.Scheme != "") != (l.Physical.Artifact.Base == "") || l.Physical.Artifact.Base != "" && one.Bases[l.Physical.Artifact.Base].URI == "" {
				t.Errorf("the place %+v: %v, %+v", l.Physical.Artifact, err, u)
			}
			if region := l.Physical.Region; region != nil && (region.Line < 1 || region.Column < 0) {
				t.Errorf("the region %+v", *region)
			}
		}
	}
}

// What the schemas of Jenkins (junit-10.xsd) demand of suites and cases. "file" is GitLab's.
func TestJUnitIsValid(t *testing.T) {
	text, err := run().JUnit()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{"testsuites": "name time tests failures errors", "testsuite": "name tests failures errors time skipped",
		"testcase": "name time classname file", "failure": "type message", "skipped": "message", "system-out": ""}
	required := map[string]string{"testsuite": "name tests failures errors", "testcase": "name classname", "failure": "type"}
	d := xml.NewDecoder(bytes.NewReader(text))
	for token, err := d.Token(); err == nil; token, err = d.Token() {
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		var has []string
		for _, a := range e.Attr {
			if has = append(has, a.Name.Local); !slices.Contains(strings.Fields(allowed[e.Name.Local]), a.Name.Local) {
				t.Errorf("%s has %s", e.Name.Local, a.Name.Local)
			}
		}
		for _, name := range strings.Fields(required[e.Name.Local]) {
			if !slices.Contains(has, name) {
				t.Errorf("%s lacks %s", e.Name.Local, name)
			}
		}
		if _, known := allowed[e.Name.Local]; !known {
			t.Errorf("there is a %s", e.Name.Local)
		}
	}
}
