package build

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// Looked are the paths that a run which found the actions ids up to date looked at besides files whose content it asked for:
// those that must stay absent (a header that would shadow another, a file that an argument would name) and those that must stay
// what they are (where PATH leads, a folder that an argument names). Both are sorted. ok is false if an action has no record
// that says what it looked at.
func (r *Runner) Looked(ids []graph.ActionID) (absent, present []string, ok bool) {
	set, done := map[string]bool{}, map[string]map[string]bool{}
	ok = true
	for _, id := range ids {
		a := r.Graph.Actions[id]
		rec := r.Journal.Last(a.Outputs[0])
		if rec == nil || runsEachTime(rec) != "" {
			ok = false
			continue
		}
		for _, p := range rec.Absent {
			set[strings.TrimSuffix(p, "/")] = true
		}
		r.lookedAhead(rec, set, done)
		for _, p := range append(r.around(a), r.loaderPaths(rec)...) {
			set[p] = true
		}
	}
	own := path.Join(r.Graph.BuildDir, graph.PartsDir) + "/" // kbuild's own, and gone when a build ends
	for _, p := range slices.Sorted(maps.Keys(set)) {
		if strings.HasPrefix(p, own) {
			continue
		}
		if r.Listing.Exists(p) {
			present = append(present, p)
		} else {
			absent = append(absent, p)
		}
	}
	return absent, present, ok
}

// Uses are the paths that an action depends on besides the files that others of the graph write: what it reads, what it names,
// what must stay absent. What may not come to the folders that its compiler searches is not among them: see Searched.
func (r *Runner) Uses(a *graph.Action) []string {
	out := slices.Concat(a.Reads(), r.namedFiles(a), r.around(a))
	if rec := r.Journal.Last(a.Outputs[0]); rec != nil {
		for _, f := range rec.Discovered {
			if !isCondition(f.Path) {
				out = append(out, f.Path)
			}
		}
		for _, p := range rec.Absent {
			out = append(out, strings.TrimSuffix(p, "/"))
		}
		out = append(out, r.loaderPaths(rec)...)
	}
	if a.Kind == graph.Generate && len(a.Argv) > 0 {
		for _, p := range r.programs(a.Argv[0]) {
			if real, err := filepath.EvalSymlinks(r.abs(p)); err == nil {
				out = append(out, real)
			}
		}
	}
	return out
}

// Searched are the folders that the compilers of some actions searched, sorted. A file that comes to one of them may be read in place
// of any header.
func (r *Runner) Searched(ids []graph.ActionID) []string {
	lists, dirs := map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		if rec := r.Journal.Last(r.Graph.Actions[id].Outputs[0]); rec != nil {
			for _, list := range rec.Search {
				lists[list] = true
			}
		}
	}
	for list := range lists {
		for _, d := range strings.Split(list, "\n") {
			dirs[d] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// around are the paths whose appearance, or whose being something else, makes an argument mean a file or PATH lead elsewhere.
func (r *Runner) around(a *graph.Action) []string {
	var out []string
	if len(a.Argv) == 0 || len(a.Tools) == 0 && a.Kind != graph.Generate {
		return nil
	}
	for _, arg := range a.Argv[1:] {
		for _, p := range r.argument(arg).missed {
			if r.maker(p) == nil && !slices.Contains(a.Inputs, p) && !slices.Contains(a.Outputs, p) && p != a.Depfile {
				out = append(out, p)
			}
		}
	}
	if a.Kind == graph.Generate {
		out = append(out, r.programs(a.Argv[0])...)
	}
	for _, p := range r.profiles(a) {
		if !r.Listing.Exists(p) {
			out = append(out, p)
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
