package engine

import (
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
	defer func(was time.Duration) { slowStep = was }(slowStep)
	ui := noted{lines: make(chan string, 1)}
	w := &Workspace{UI: ui}
	w.slowly("asking")()
	if len(ui.lines) > 0 {
		t.Errorf("a quick step: said %q", <-ui.lines)
	}
	slowStep = 0
	end := w.slowly("asking the compilers")
	if printed := <-ui.lines; printed != "asking the compilers" {
		t.Errorf("a slow step: said %q", printed)
	}
	end()
}
