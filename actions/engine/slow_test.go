package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// silent is a front that shows nothing.
type silent struct{}

func (silent) Enter()                                 {}
func (silent) Diagnose(manifest.Diagnostics)          {}
func (silent) Say(string)                             {}
func (silent) Note(string)                            {}
func (silent) Waiting(string)                         {}
func (silent) UpToDate(int)                           {}
func (silent) Begin(*Tree, []graph.ActionID) (r *Run) { return r }

// noted is a front that tells of each line.
type noted struct {
	silent
	lines chan string
}

func (n noted) Waiting(text string) { n.lines <- text }

func TestSlowStepIsSaid(t *testing.T) {
	ui := noted{lines: make(chan string, 1)}
	w, failed := &Workspace{UI: ui}, errors.New("failed")
	now := make(chan time.Time, 1)
	now <- time.Time{}
	var printed string
	err := w.during(func() error { printed = <-ui.lines; return failed }, now, "asking the compilers")
	if err != failed || printed != "asking the compilers" {
		t.Errorf("a slow step: %v, said %q", err, printed)
	}
	if err := w.during(func() error { return failed }, nil, "asking"); err != failed || len(ui.lines) > 0 {
		t.Errorf("a quick step: %v, and %d lines", err, len(ui.lines))
	}
}
