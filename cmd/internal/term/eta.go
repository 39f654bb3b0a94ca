package term

import (
	"fmt"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// forecast estimates the time left: the expected durations of what has not ended, spread over the
// jobs, but not less than the longest running action still needs. It is an upper guess while
// actions may yet turn out to be cached.
type forecast struct {
	expected func(*graph.Action) (time.Duration, bool)
	jobs     int
	pending  map[graph.ActionID]time.Duration // known, not ended
	unknown  map[graph.ActionID]time.Duration // without history, not ended: what is usual
	ran      int                              // that were measured in this run
	spent    time.Duration                    // by those
	usual    time.Duration                    // what is usual for those
	all      int                              // actions
	end      time.Time                        // that was shown last
}

func newForecast(o Options) *forecast {
	f := &forecast{expected: o.Expected, jobs: max(1, o.Jobs), pending: map[graph.ActionID]time.Duration{}, unknown: map[graph.ActionID]time.Duration{}, all: len(o.Actions)}
	for _, a := range o.Actions {
		if d, ok := f.expect(a); ok {
			f.pending[a.ID] = d
		} else {
			f.unknown[a.ID] = usual(a)
		}
	}
	return f
}

func (f *forecast) expect(a *graph.Action) (time.Duration, bool) {
	if f.expected == nil {
		return 0, false
	}
	return f.expected(a)
}

func (f *forecast) finished(a *graph.Action, ran bool, elapsed time.Duration) {
	delete(f.pending, a.ID)
	delete(f.unknown, a.ID)
	if ran {
		f.ran++
		f.spent += elapsed
		f.usual += usual(a)
	}
}

// usual is what an action takes that never ran here.
func usual(a *graph.Action) time.Duration {
	cost := a.Kind.Info().Cost
	if a.Kind.Info().PerArch {
		cost *= time.Duration(max(1, len(a.Archs)))
	}
	return max(cost, time.Millisecond)
}

// pace is how what ran compares with what is usual. Short steps run first, and say little of those
// to come: at the beginning it is not below 1.
func (f *forecast) pace() float64 {
	pace := f.spent.Seconds() / f.usual.Seconds()
	if 4*f.ran < f.all {
		return max(1, pace)
	}
	return pace
}

// left is the estimate; ok is false while there is nothing to base it on. Actions without history
// count with what is usual, at the pace of what ran so far.
func (f *forecast) left(now time.Time, running []runningAction) (left time.Duration, ok bool) {
	if len(f.pending)+len(f.unknown) == 0 || len(f.unknown) > 0 && f.ran == 0 {
		return 0, false
	}
	var work, longest time.Duration
	for _, d := range f.pending {
		work += d
	}
	for _, d := range f.unknown {
		work += time.Duration(float64(d) * f.pace())
	}
	for _, r := range running {
		d, known := f.pending[r.action.ID]
		if !known {
			continue
		}
		gone := min(now.Sub(r.start), d)
		work -= gone
		longest = max(longest, d-gone)
	}
	jobs := min(f.jobs, len(f.pending)+len(f.unknown))
	return max(longest, work/time.Duration(jobs)), true
}

// shown is the estimate for people, which never grows: when the end comes no nearer, it stays for
// as long as it is wrong, and then nothing is said.
func (f *forecast) shown(now time.Time, running []runningAction) (left time.Duration, ok bool) {
	left, ok = f.left(now, running)
	if !ok {
		return 0, false
	}
	if end := now.Add(left); f.end.IsZero() || end.Before(f.end) {
		f.end = end
	}
	left = f.end.Sub(now)
	return left, left >= time.Second/2
}

// clock spells a duration as people read one: 0:12, 3:05, 1:02:03.
func clock(d time.Duration) string {
	s := int((d + time.Second/2) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// brief spells an elapsed time: 0.3s, 42.0s, 3:05.
func brief(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return clock(d)
}
