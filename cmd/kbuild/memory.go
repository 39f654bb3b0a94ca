package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/machine"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// sizeFlag is --mem: bytes, or a share of what there is. The zero sizeFlag is all there is.
type sizeFlag struct {
	bytes int64
	share float64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *sizeFlag) UnmarshalText(text []byte) error {
	s := string(text)
	percent, isShare := strings.CutSuffix(s, "%")
	if isShare {
		n, err := strconv.ParseFloat(percent, 64)
		*m = sizeFlag{share: n / 100}
		if err == nil && n > 0 && n <= 1000 {
			return nil
		}
	} else if n, err := manifest.ParseSize(s); err == nil && n > 0 {
		*m = sizeFlag{bytes: n}
		return nil
	}
	return fmt.Errorf(`%q is no size; write for example 8GiB, 512MiB, a number of bytes, or 50%% of what there is`, s)
}

// budget is in bytes; 0 is unknown.
func (m sizeFlag) budget(there int64) int64 {
	switch {
	case m.bytes > 0:
		return m.bytes
	case m.share > 0 && there > 0:
		return max(1, int64(m.share*float64(there)))
	}
	return there
}

func (c *cli) budget() int64 { return c.Mem.budget(machine.Memory("/")) }

// peaks expects the peak memory of actions, in bytes.
//
// It is what the action took the last time or what the manifest says, whichever is more: a record sees the largest process
// only, and is from before the edit that made a link outgrow the machine; a hint is forgotten as the code grows. An
// action that nothing is known of is taken for one of the larger of its kind here, or for what such actions usually take.
type peaks struct {
	tree   *tree
	byKind func() map[peakKind]int64
}

// peakKind is what has much the same peak: optimising a whole program takes more than linking it.
type peakKind struct {
	kind graph.Kind
	lto  bool
}

func kindOf(a *graph.Action) peakKind { return peakKind{a.Kind, a.Link != nil && a.Link.LTO} }

func (t *tree) peaks() *peaks {
	p := &peaks{tree: t}
	p.byKind = sync.OnceValue(p.learn)
	return p
}

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
	return usual(a)
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

// learn gives what nine of ten recorded actions of a kind do not exceed. A peak that was too small to be seen counts, or in a
// large project the few that were seen would stand for all; where it is the answer, the answer is what is usual.
func (p *peaks) learn() map[peakKind]int64 {
	seen := map[peakKind][]int64{}
	for _, a := range p.tree.runner.Graph.Actions {
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

// hint is what the manifest says. It is about the largest step of a target: not about preprocessing and packing.
func hint(a *graph.Action) int64 {
	if a.Kind.Info().Small {
		return 0
	}
	return a.Memory
}

// usual is what the table of kinds says.
func usual(a *graph.Action) int64 {
	info := a.Kind.Info()
	if kindOf(a).lto {
		return max(info.Memory, info.LTOMemory)
	}
	return info.Memory
}
