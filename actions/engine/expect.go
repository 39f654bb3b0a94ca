package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// peaks estimates the peak memory of actions, in bytes.
//
// The estimate is the peak of the last run or the hint in the manifest, whichever is larger. A
// record covers the largest process only, and is older than the edit that made a link outgrow the
// machine. A hint becomes outdated as the code grows. An action without either is taken for one of
// the larger actions of its kind in this build tree. If there are too few of these, the estimate is
// the usual peak of the kind.
type peaks struct {
	tree   *Tree
	byKind func() map[peakKind]int64
}

// peakKind groups actions with similar peaks: optimising a whole program takes more than linking
// it.
type peakKind struct {
	kind graph.Kind
	lto  bool
}

func kindOf(a *graph.Action) peakKind { return peakKind{a.Kind, a.Link().LTO} }

func (t *Tree) peaks() *peaks {
	p := &peaks{tree: t}
	p.byKind = sync.OnceValue(p.learn)
	return p
}

// Cost and Memory implement remote.Estimates.
func (p *peaks) Cost(a *graph.Action) time.Duration { return p.tree.cost(a) }
func (p *peaks) Memory(a *graph.Action) int64       { return p.of(a) }

// of returns the expected peak of an action in bytes; 0 means none.
func (p *peaks) of(a *graph.Action) int64 {
	if a.Kind.InProcess() {
		return 0
	}
	if n := max(p.last(a), hint(a)); n > 0 {
		return n
	}
	if n := p.byKind()[kindOf(a)]; n > 0 {
		return n
	}
	return Usual(a)
}

// last returns the recorded peak; 0 means unknown.
func (p *peaks) last(a *graph.Action) int64 {
	if rec := p.tree.last(a); rec != nil {
		return rec.MaxRSS
	}
	return 0
}

// enough is how many records of a kind count for more than the usual peak.
const enough = 10

// learn returns, for each kind, the peak that nine of ten recorded actions do not exceed. A peak
// that was too small to be measured counts as well. Otherwise the few measured ones of a large
// project would stand for all. If the result is such a peak, of uses the usual peak.
func (p *peaks) learn() map[peakKind]int64 {
	seen := map[peakKind][]int64{}
	for _, a := range p.tree.Runner.Graph.Actions {
		if rec := p.tree.last(a); rec != nil {
			seen[kindOf(a)] = append(seen[kindOf(a)], rec.MaxRSS)
		}
	}
	most := map[peakKind]int64{}
	for k, list := range seen {
		if len(list) >= enough {
			slices.Sort(list)
			most[k] = list[len(list)*9/10]
		}
	}
	return most
}

// hint returns the memory that the manifest declares. It is about the largest step of a target, so
// it does not apply to preprocessing and packing.
func hint(a *graph.Action) int64 {
	if a.Kind.Info().Small {
		return 0
	}
	return a.Memory
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
	if rec := t.last(a); rec != nil && rec.Elapsed > 0 {
		return rec.Elapsed, true
	}
	return 0, false
}

// cost estimates how long an action takes: long ones start first.
func (t *Tree) cost(a *graph.Action) time.Duration {
	if d, ok := t.Expected(a); ok {
		return d
	}
	info := a.Kind.Info()
	if info.PerArch {
		return info.Cost * time.Duration(max(1, len(a.Archs)))
	}
	return info.Cost
}

// last returns the record of the last run, or nil.
func (t *Tree) last(a *graph.Action) *cache.Record {
	if len(a.Outputs) == 0 {
		return nil
	}
	return t.db.Last(a.Outputs[0])
}
