package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// peaks expects the peak memory of actions, in bytes.
//
// It is what the action took the last time or what the manifest says, whichever is more: a record
// sees the largest process only, and is from before the edit that made a link outgrow the machine;
// a hint is forgotten as the code grows. An action that nothing is known of is taken for one of the
// larger of its kind here, or for what such actions usually take.
type peaks struct {
	tree   *Tree
	byKind func() map[peakKind]int64
}

// peakKind is what has much the same peak: optimising a whole program takes more than linking it.
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

// of is the expected peak of an action in bytes; 0 is none.
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

// last is the peak that was recorded; 0 is unknown.
func (p *peaks) last(a *graph.Action) int64 {
	if rec := p.tree.last(a); rec != nil {
		return rec.MaxRSS
	}
	return 0
}

// enough is how many records of a kind say more than what is usual.
const enough = 10

// learn gives what nine of ten recorded actions of a kind do not exceed. A peak that was too small
// to be seen counts, or in a large project the few that were seen would stand for all; where it is
// the answer, the answer is what is usual.
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

// hint is what the manifest says. It is about the largest step of a target: not about preprocessing
// and packing.
func hint(a *graph.Action) int64 {
	if a.Kind.Info().Small {
		return 0
	}
	return a.Memory
}

// Usual is what the table of kinds says.
func Usual(a *graph.Action) int64 {
	info := a.Kind.Info()
	if kindOf(a).lto {
		return max(info.Memory, info.LTOMemory)
	}
	return info.Memory
}

// Expected is how long an action took the last time.
func (t *Tree) Expected(a *graph.Action) (time.Duration, bool) {
	if rec := t.last(a); rec != nil && rec.Elapsed > 0 {
		return rec.Elapsed, true
	}
	return 0, false
}

// cost is how long an action may take: long ones start first.
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

// last is the record of the last time; nil if there is none.
func (t *Tree) last(a *graph.Action) *cache.Record {
	if len(a.Outputs) == 0 {
		return nil
	}
	return t.db.Last(a.Outputs[0])
}
