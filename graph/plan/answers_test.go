package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// An answer is read once; a question without one is asked once.
func TestAnswers(t *testing.T) {
	question := func(arg string) toolchain.Question { return toolchain.Question{Tool: "nvcc", Args: []string{arg}} }
	a := &answers{learned: map[string]learned{}, runs: map[string]DryRun{
		question("good").Key():      {Text: "steps"},
		question("error").Key():     {Error: "no such option"},
		question("misparsed").Key(): {Text: "steps", Misparsed: "its cicc failed"},
	}}
	reads := 0
	read := func(text string) (*string, error) {
		reads++
		return &text, nil
	}
	for _, tt := range []struct{ arg, want, fault string }{
		{"good", "steps", ""},
		{"error", "", "nvcc --dryrun: no such option"},
		{"misparsed", "", "its cicc failed"},
		{"new", "", errNotQueried.Error()},
	} {
		for range 2 {
			got, err := learn(a, question(tt.arg), read)
			switch {
			case tt.fault != "" && (err == nil || err.Error() != tt.fault):
				t.Errorf("%s: %v, want %s", tt.arg, err, tt.fault)
			case tt.fault == "" && (err != nil || *got != tt.want):
				t.Errorf("%s: %v", tt.arg, err)
			}
		}
	}
	if reads != 1 || len(a.questions) != 1 || a.questions[0].Args[0] != "new" {
		t.Errorf("%d answers were read, and %q is asked", reads, a.questions)
	}
	var e driverError
	if _, err := learn(a, question("error"), read); !errors.As(err, &e) || !strings.Contains(e.printed, "option") {
		t.Errorf("%v is no error of the driver", err)
	}
}

// A diagnostic is told once, and only an error fails a plan.
func TestDiagnostics(t *testing.T) {
	var p diagnostics
	pos := manifest.Pos{File: "kernels.hcl", Line: 1}
	p.warnf(pos, "", "%s is old", "sm_50")
	p.warnf(pos, "", "%s is old", "sm_50")
	if len(p.list) != 1 || p.list.HasErrors() {
		t.Errorf("%+v", p)
	}
	p.errorf(pos, "Drop it.", "%s is unknown", "sm_1")
	if len(p.list) != 2 || !p.list.HasErrors() || p.list[1].Summary != "sm_1 is unknown" || p.list[1].Detail != "Drop it." {
		t.Errorf("%+v", p)
	}
}
