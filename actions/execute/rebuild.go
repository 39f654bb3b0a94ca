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

// Rebuild implements sched.Runner. It brings a build tree up to date as Runner does, and runs each
// action again, beside the tree: what comes out must have the bytes that the record says. A
// difference means that the command does not always make the same of its inputs, or that it has an
// input that no key knows of. The tree stays as it was built.
type Rebuild struct {
	rerun
	kept string // folder for outputs that differ

	mu      sync.Mutex
	checked int
	differ  []Difference
}

// Difference is an action that made something else of the same key.
type Difference struct {
	Action  *graph.Action
	Outputs []string // that differ, as the action names them
	Kept    []string // where those of the second run are
	Read    []string // what the second run read and the record does not know, or knows with other content
}

// NewRebuild wraps r. Outputs that differ are kept in a folder.
func NewRebuild(r *Runner, folder string) *Rebuild {
	v := &Rebuild{kept: folder}
	v.rerun = rerun{r: r, compare: v.compare}
	return v
}

// Checked is how many actions were run again so far, and Differences are those that made something
// else.
func (v *Rebuild) Checked() (int, []Difference) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checked, slices.Clone(v.differ)
}

func sameContent(a, b *cache.Record) bool {
	return slices.EqualFunc(a.Outputs, b.Outputs, func(a, b cache.Output) bool { return a.Digest == b.Digest && a.Exec == b.Exec })
}

// compare holds a second record against the first, and keeps what is different.
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

// holdsTimes reports an output of a that differs from run to run because it says how long they
// took.
func holdsTimes(a *graph.Action, output string) bool {
	return compiler.IsTimeTrace(a, output) || nvcc.IsTimeFile(a, output)
}

// newlyRead are the files that the second run read, and the first did not, or not with this
// content. Of a header that may differ in comments from what the first read
// (discover.HoldsInTokens) the outputs tell.
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
