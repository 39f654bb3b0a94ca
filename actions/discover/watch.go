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

// Recorded is an action with its last record; nil if it has none.
type Recorded struct {
	Action *graph.Action
	Record *cache.Record
}

// Observed returns the paths that a null build observes besides files that it reads by content.
// Some must stay absent: a header that would shadow another, a file that an argument would name.
// Others must stay what they are: where PATH leads, a folder that an argument names, headers whose
// time stamps matter. No path below the folder except is returned. ok is false if an action has no
// record that lists its observations.
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
		equal, _ := EqualHeaders(rec)
		for _, f := range equal {
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

// Uses returns the paths that an action depends on besides the outputs of other actions: what it
// reads, what it names, what must stay absent. It omits the paths that must not appear in the
// folders that its compiler searches: see Searched and Shadows.
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
	if a.Kind.Info().Generates && len(a.Argv) > 0 {
		for _, p := range d.onPath(a.Argv[0]) {
			if real, err := filepath.EvalSymlinks(d.Abs(p)); err == nil {
				out = append(out, real)
			}
		}
	}
	return out
}

// Shadows returns the paths in the searched folders that must stay absent, or are folders that the
// compiler skipped.
func (d *Discovery) Shadows(rec *cache.Record) []string {
	set := map[string]bool{}
	d.watchShadows(rec, set, map[string]map[string]bool{})
	return slices.Collect(maps.Keys(set))
}

// Searched returns the folders that the compilers of some actions searched, sorted. A file that
// appears in one of them may be read instead of any header.
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
