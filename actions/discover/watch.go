package discover

import (
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Recorded is an action with its last record; nil if there is none.
type Recorded struct {
	Action *graph.Action
	Record *cache.Record
}

// Observed are the paths that a run which found actions up to date looked at besides files whose
// content it asked for: those that must stay absent (a header that would shadow another, a file
// that an argument would name) and those that must stay what they are (where PATH leads, a folder
// that an argument names, headers whose time stamps matter). None is below the folder except. ok is
// false if an action has no record that says what it looked at.
func (d *Discovery) Observed(all iter.Seq[Recorded], except string) (observed []cache.Observation, ok bool) {
	set, byStat, done := map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	ok = true
	for of := range all {
		rec := of.Record
		if rec == nil || RunsEachTime(rec) != "" {
			ok = false
			continue
		}
		for _, p := range rec.Absent {
			set[strings.TrimSuffix(p, "/")] = true
		}
		for _, f := range EqualHeaders(rec) {
			byStat[f] = true
		}
		d.watchShadows(rec, set, done)
		_, missed := d.loaded(of.Action)
		for _, p := range slices.Concat(d.watchArguments(of.Action), missed, d.loader.pathsOf(rec)) {
			set[p] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(byStat)) {
		observed = append(observed, cache.Observation{Path: p, Kind: cache.KindFile, ByStat: true})
	}
	for _, p := range slices.Sorted(maps.Keys(set)) {
		switch {
		case strings.HasPrefix(p, except+"/"):
		case d.Listing.Exists(p):
			observed = append(observed, cache.Observation{Path: p, Kind: cache.KindFile})
		default:
			observed = append(observed, cache.Observation{Path: p, Kind: cache.KindAbsent})
		}
	}
	return observed, ok
}

// Uses are the paths that an action depends on besides the files that others of the graph write:
// what it reads, what it names, what must stay absent. What may not come to the folders that its
// compiler searches is not among them: see Searched and Shadows.
func (d *Discovery) Uses(of Recorded) []string {
	a, rec := of.Action, of.Record
	found, missed := d.loaded(a)
	out := slices.Concat(a.Reads(), d.Named(a), d.watchArguments(a), found, missed)
	if rec != nil {
		for _, f := range rec.Discovered {
			if !IsCondition(f.Path) {
				out = append(out, f.Path)
			}
		}
		for _, p := range rec.Absent {
			out = append(out, strings.TrimSuffix(p, "/"))
		}
		out = append(out, d.loader.pathsOf(rec)...)
	}
	if a.Kind == graph.Generate && len(a.Argv) > 0 {
		for _, p := range d.onPath(a.Argv[0]) {
			if real, err := filepath.EvalSymlinks(d.Abs(p)); err == nil {
				out = append(out, real)
			}
		}
	}
	return out
}

// Shadows are the paths in the folders that were searched which must be absent, or are there and
// were passed over.
func (d *Discovery) Shadows(rec *cache.Record) []string {
	set := map[string]bool{}
	d.watchShadows(rec, set, map[string]map[string]bool{})
	return slices.Collect(maps.Keys(set))
}

// Searched are the folders that the compilers of some actions searched, sorted. A file that comes
// to one of them may be read in place of any header.
func Searched(all iter.Seq[Recorded]) []string {
	lists, dirs := map[string]bool{}, map[string]bool{}
	for of := range all {
		if of.Record != nil {
			for _, list := range of.Record.Search {
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
