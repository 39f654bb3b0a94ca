package term

import (
	"fmt"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// forecast estimates the time left. It spreads the expected durations of unfinished actions over
// the jobs. The estimate is at least what the longest running action still needs. It is an upper
// bound while actions may still turn out to be cached.
type forecast struct {
	expected func(*graph.Action) (time.Duration, bool)
	jobs     int
	pending  map[graph.ActionID]time.Duration // unfinished, with history
	unknown  map[graph.ActionID]time.Duration // unfinished, without history: the usual duration
	ran      int                              // actions measured in this run
	spent    time.Duration                    // their measured time
	usual    time.Duration                    // their usual time
	all      int                              // number of actions
	end      time.Time                        // the last estimate shown
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

// usual returns the duration to assume for an action without history.
func usual(a *graph.Action) time.Duration {
	cost := a.Kind.Info().Cost
	if a.Kind.Info().PerArch {
		cost *= time.Duration(max(1, len(a.Archs)))
	}
	return max(cost, time.Millisecond)
}

// pace returns the ratio of measured to usual time. Short actions run first and are not
// representative, so early in a run the pace is at least 1.
func (f *forecast) pace() float64 {
	pace := f.spent.Seconds() / f.usual.Seconds()
	if 4*f.ran < f.all {
		return max(1, pace)
	}
	return pace
}

// left returns the estimate. ok is false while there is no data for one. Actions without history
// count with their usual duration, scaled by the pace of this run.
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

// shown returns an estimate that never grows. If the end does not come nearer, the shown time
// counts down anyway, and then ok is false.
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

// clock formats a duration: 0:12, 3:05, 1:02:03.
func clock(d time.Duration) string {
	s := int((d + time.Second/2) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// brief formats an elapsed time: 0.3s, 42.0s, 3:05.
func brief(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return clock(d)
}
