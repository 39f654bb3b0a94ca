package execute

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// Rebuild implements sched.Runner. It brings a build tree up to date as Runner does, then runs each
// action again beside the tree. The second outputs must have the bytes that the record names. A
// difference means that the command is not deterministic, or that it has an input that no key
// covers. The tree keeps the first outputs.
type Rebuild struct {
	rerun
	kept string // folder for outputs that differ

	mu      sync.Mutex
	checked int
	differ  []Difference
}

// Difference describes an action whose second run wrote or read something else.
type Difference struct {
	Action  *graph.Action
	Outputs []string // outputs that differ, as the action names them
	Kept    []string // their files from the second run
	// files that the second run read and the record lacks, or has with other content
	Read []string
}

// NewRebuild wraps r. It keeps outputs that differ in folder.
func NewRebuild(r *Runner, folder string) *Rebuild {
	v := &Rebuild{kept: folder}
	v.rerun = rerun{r: r, compare: v.compare}
	return v
}

// Checked returns how many actions ran again so far, and the differences found.
func (v *Rebuild) Checked() (int, []Difference) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checked, slices.Clone(v.differ)
}

func sameContent(a, b *cache.Record) bool {
	return slices.EqualFunc(a.Outputs, b.Outputs, func(a, b cache.Output) bool { return a.Digest == b.Digest && a.Exec == b.Exec })
}

// compare compares the second record with the first, and keeps the outputs that differ.
func (v *Rebuild) compare(a *graph.Action, first, second *cache.Record, dir scratch) error {
	d := Difference{Action: a, Read: newlyRead(first, second)}
	for i, o := range second.Outputs {
		if was := first.Outputs[i]; o.Digest == was.Digest && o.Exec == was.Exec || holdsTimes(a, o.Path) {
			continue
		}
		kept := filepath.Join(v.kept, strings.TrimPrefix(o.Path, v.r.Graph.BuildDir+"/"))
		d.Outputs = append(d.Outputs, o.Path)
		if os.MkdirAll(filepath.Dir(kept), 0o777) == nil && copyFile(v.r.outputFile(a, i, dir), kept) == nil {
			d.Kept = append(d.Kept, kept)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked++
	if len(d.Outputs)+len(d.Read) > 0 {
		v.differ = append(v.differ, d)
	}
	return nil
}

// holdsTimes reports whether an output of a lists durations, which differ from run to run.
func holdsTimes(a *graph.Action, output string) bool {
	return compiler.IsTimeTrace(a, output) || nvcc.IsTimeFile(a, output)
}

// newlyRead returns the files that the second run read, and the first did not read with this
// content. A header with a normal form may have other comments than the first run read
// (discover.HoldsInTokens). Then a comparison of the outputs is enough.
func newlyRead(first, second *cache.Record) []string {
	known := map[string]cache.Digest{}
	for _, f := range first.Discovered {
		known[f.Path] = f.Digest
	}
	var out []string
	for _, f := range second.Discovered {
		inForms := slices.ContainsFunc(first.Forms, func(form cache.FileDigest) bool { return form.Path == f.Path })
		if d, ok := known[f.Path]; !ok || d != f.Digest && !inForms {
			out = append(out, f.Path)
		}
	}
	return out
}
