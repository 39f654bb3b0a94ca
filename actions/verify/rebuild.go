package verify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// The outputs of the second run must have the bytes that the record names. A difference means that
// the command is not deterministic, or that it has an input that no key covers.

// Difference describes an action whose second run wrote or read something else.
type Difference struct {
	Action  *graph.Action
	Outputs []string // outputs that differ, as the action names them
	Kept    []string // their files from the second run
	// files that the second run read and the record lacks, or has with other content
	Read []string
}

// NewRebuild returns a Verifier of outputs that runs actions by r, and keeps those that differ in
// folder.
func NewRebuild(r *execute.Runner, folder string) *Verifier {
	r.ExpectReruns()
	return &Verifier{runner: r, kept: folder}
}

// Differences returns how many actions ran again so far, and the differences found.
func (v *Verifier) Differences() (int, []Difference) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checked, slices.Clone(v.differ)
}

// compareOutputs compares the second record with the first, and keeps the outputs that differ.
func (v *Verifier) compareOutputs(again *execute.Rerun) {
	a := again.Action
	d := Difference{Action: a, Read: newlyRead(again.First, again.Second)}
	for i, o := range again.Second.Outputs {
		// an output that lists durations differs from run to run
		was := again.First.Outputs[i]
		if o.Digest == was.Digest && o.Exec == was.Exec ||
			vendors.HasTimes(a, o.Path) {
			continue
		}
		d.Outputs = append(d.Outputs, o.Path)
		kept := filepath.Join(v.kept, strings.TrimPrefix(o.Path, v.runner.Graph.BuildDir+"/"))
		if os.MkdirAll(filepath.Dir(kept), 0o777) == nil && again.CopyOutput(i, kept) == nil {
			d.Kept = append(d.Kept, kept)
		}
	}
	if len(d.Outputs)+len(d.Read) > 0 {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.differ = append(v.differ, d)
	}
}

// newlyRead returns the files that the second run read, and the first did not read with this
// content.
func newlyRead(first, second *cache.Record) []string {
	known := map[string]cache.Digest{}
	for _, f := range first.Discovered {
		known[f.Path] = f.Digest
	}
	var out []string
	for _, f := range second.Discovered {
		if d, ok := known[f.Path]; !ok || d != f.Digest {
			out = append(out, f.Path)
		}
	}
	return out
}
