package build

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// Looked are the paths that a run which found the actions ids up to date looked at besides files whose content it asked for: those
// that must stay absent (a header that would shadow another, a file that an argument would name) and those that must stay
// what they are (where PATH leads). Both are sorted.
func (r *Runner) Looked(ids []graph.ActionID) (absent, present []string) {
	set := map[string]bool{}
	for _, id := range ids {
		a := r.Graph.Actions[id]
		if rec := r.Journal.Last(a.Outputs[0]); rec != nil {
			for _, p := range rec.Absent {
				set[p] = true
			}
		}
		if a.Kind == graph.Generate && len(a.Argv) > 0 {
			for _, p := range r.programs(a.Argv[0]) {
				set[p] = true
			}
		}
	}
	r.mu.Lock()
	for _, p := range r.missed {
		set[p] = true
	}
	r.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(set)) {
		if r.Listing.Exists(p) {
			present = append(present, p)
		} else {
			absent = append(absent, p)
		}
	}
	return absent, present
}

// Uses are the paths that an action depends on besides the files that others of the graph write: what it reads, what it names,
// what must stay absent.
func (r *Runner) Uses(a *graph.Action) []string {
	out := slices.Concat(a.Inputs, a.Weak, r.namedFiles(a))
	if rec := r.Journal.Last(a.Outputs[0]); rec != nil {
		for _, f := range rec.Discovered {
			out = append(out, f.Path) // "-DNAME" too, which is no path and does no harm
		}
		out = append(out, rec.Absent...)
	}
	if a.Kind == graph.Generate && len(a.Argv) > 0 {
		for _, p := range r.programs(a.Argv[0]) {
			out = append(out, p)
			if real, err := filepath.EvalSymlinks(r.abs(p)); err == nil {
				out = append(out, real)
			}
		}
	}
	return out
}

// programs are the paths at which a command's program may be found.
func (r *Runner) programs(name string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var out []string
	for _, e := range r.Env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for _, dir := range filepath.SplitList(list) {
				out = append(out, filepath.Join(dir, name))
			}
		}
	}
	return out
}
