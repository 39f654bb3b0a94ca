package term

import (
	"fmt"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// forecast estimates the time left: the expected durations of what has not ended, spread over the
// jobs, but not less than the longest running action still needs. It is an upper guess while actions
// may yet turn out to be cached.
type forecast struct {
	expected func(*graph.Action) (time.Duration, bool)
	jobs     int
	pending  map[graph.ActionID]time.Duration // known, not ended
	unknown  map[graph.ActionID]bool          // without history, not ended
	ran      int                              // that were measured in this run
	spent    time.Duration                    // by those
}

func newForecast(o Options) *forecast {
	f := &forecast{expected: o.Expected, jobs: max(1, o.Jobs), pending: map[graph.ActionID]time.Duration{}, unknown: map[graph.ActionID]bool{}}
	for _, a := range o.Actions {
		if d, ok := f.expect(a); ok {
			f.pending[a.ID] = d
		} else {
			f.unknown[a.ID] = true
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
	}
}

// left is the estimate; ok is false while there is nothing to base it on: actions without history
// count with the mean of what ran so far.
func (f *forecast) left(now time.Time, running []runningAction) (left time.Duration, ok bool) {
	if len(f.pending)+len(f.unknown) == 0 || len(f.unknown) > 0 && f.ran == 0 {
		return 0, false
	}
	var work, longest time.Duration
	for _, d := range f.pending {
		work += d
	}
	if f.ran > 0 {
		work += time.Duration(len(f.unknown)) * (f.spent / time.Duration(f.ran))
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
