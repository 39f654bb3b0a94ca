package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/sched"
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

// However often a build finds a compiler misparsed, it ends.
func TestRetryEnds(t *testing.T) {
	w := &Workspace{UI: silent{}}
	turns, failed := 0, errors.New("failed")
	_, err := w.retry(func(bool) (sched.Summary, string, error) {
		turns++
		return sched.Summary{}, "hipcc", failed
	})
	if err != failed || turns != mostTurns {
		t.Errorf("%d turns: %v", turns, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
