package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// Memory estimates the peak memory of an action, in bytes. 0 means none. It is part of
// remote.Estimates.
//
// The estimate is the peak of the last run or the hint in the manifest, whichever is larger. A
// record covers the largest process only, and is older than the edit that made a link outgrow the
// machine. A hint becomes outdated as the code grows. An action without either is taken for one of
// the larger actions of its kind in this build tree. If there are too few of these, the estimate is
// the usual peak of the kind.
func (t *Tree) Memory(a *graph.Action) int64 {
	if a.Kind.InProcess() {
		return 0
	}
	n := a.Memory
	if a.Kind.Info().Small {
		n = 0 // the manifest's is about the largest step of a target
	}
	if rec := t.db.Last(a.Outputs[0]); rec != nil {
		n = max(n, rec.MaxRSS)
	}
	if n > 0 {
		return n
	}
	t.peaks.once.Do(t.learnPeaks)
	if n := t.peaks.byKind[kindOf(a)]; n > 0 {
		return n
	}
	return Usual(a)
}

// peaks holds, for each kind, the peak that nine of ten recorded actions do not exceed.
type peaks struct {
	once   sync.Once
	byKind map[peakKind]int64
}

// peakKind groups actions with similar peaks: optimising a whole program takes more than linking
// it.
type peakKind struct {
	kind graph.Kind
	lto  bool
}

func kindOf(a *graph.Action) peakKind { return peakKind{a.Kind, a.Link().LTO} }

// enough is how many records of a kind count for more than the usual peak.
const enough = 10

// learnPeaks learns from the records. A peak that was too small to be measured counts as well.
// Otherwise the few measured ones of a large project would stand for all. If the result is such a
// peak, Memory uses the usual one.
func (t *Tree) learnPeaks() {
	seen := map[peakKind][]int64{}
	for _, a := range t.Runner.Graph.Actions {
		if rec := t.db.Last(a.Outputs[0]); rec != nil {
			seen[kindOf(a)] = append(seen[kindOf(a)], rec.MaxRSS)
		}
	}
	t.peaks.byKind = map[peakKind]int64{}
	for k, list := range seen {
		if len(list) >= enough {
			slices.Sort(list)
			t.peaks.byKind[k] = list[len(list)*9/10]
		}
	}
}

// Usual returns the peak in the table of kinds.
func Usual(a *graph.Action) int64 {
	info := a.Kind.Info()
	if kindOf(a).lto {
		return max(info.Memory, info.LTOMemory)
	}
	return info.Memory
}

// Expected returns how long an action took the last time.
func (t *Tree) Expected(a *graph.Action) (time.Duration, bool) {
	if rec := t.db.Last(a.Outputs[0]); rec != nil && rec.Elapsed > 0 {
		return rec.Elapsed, true
	}
	return 0, false
}

// Cost estimates how long an action takes: long ones start first. It is part of remote.Estimates.
func (t *Tree) Cost(a *graph.Action) time.Duration {
	if d, ok := t.Expected(a); ok {
		return d
	}
	info := a.Kind.Info()
	if info.PerArch {
		return info.Cost * time.Duration(max(1, len(a.Archs)))
	}
	return info.Cost
}
