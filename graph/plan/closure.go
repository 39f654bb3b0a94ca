package plan

import (
	"slices"
)

// What a target depends on, directly or through others. Each target with sources asks which folders
// and generated files come to it from there, so a chain of n libraries would be walked n times, to
// its end: with 16,000 of them 128 million steps, for nothing if none of them exports anything. So
// the walk for what is exported stops where nothing new can come.

// walker walks the graph of targets.
type walker struct {
	round int // number of the walk
}

// closure is everything t depends on, each once, users before what they use.
func (w *walker) closure(t *target) []*target {
	return w.walk(t, func(*target) bool { return true }, func(*target) bool { return false })
}

// exporters are those of closure that export something, less some that export only what a user of
// theirs, which stands before them, does.
func (w *walker) exporters(t *target) []*target {
	return w.walk(t, func(u *target) bool { return len(u.include)+len(u.headers) > 0 || u.Embed != nil }, isLast)
}

// walk gives those of closure for which take holds, less some that are only behind targets for
// which stop holds. The order is that of closure.
func (w *walker) walk(t *target, take, stop func(*target) bool) []*target {
	w.round++
	t.round = w.round
	var post []*target
	stopped := stops{round: w.round}
	var visit func(u *target)
	visit = func(u *target) {
		if u != t && stop(u) {
			stopped.add(u)
		} else {
			for i := len(u.deps) - 1; i >= 0; i-- {
				if d := u.deps[i]; d.round != w.round && !stopped.pass(d) {
					d.round = w.round
					visit(d)
				}
			}
		}
		if u != t && take(u) {
			post = append(post, u)
		}
	}
	visit(t)
	slices.Reverse(post)
	return post
}

// stops are the targets that a walk stopped at. What they depend on comes behind them in the
// closure. If the walk gets there by another way, it would come before them, so it is left out:
// they export it.
type stops struct {
	round int
	by    map[any][]*target // by each thing that they export
}

func (s *stops) add(u *target) {
	if len(u.deps) == 0 {
		return
	}
	if s.by == nil {
		s.by = map[any][]*target{}
	}
	u.exports(func(thing any) bool {
		s.by[thing] = append(s.by[thing], u)
		return true
	})
}

// pass reports that d, which was not visited, is to be passed over, as is all that is behind a
// target that the walk stopped at and that exports what d does.
func (s *stops) pass(d *target) bool {
	if s.by == nil {
		return false
	}
	d.exports(func(thing any) bool {
		s.by[thing] = slices.DeleteFunc(s.by[thing], func(u *target) bool {
			all := u.exportsAllOf(d)
			if all {
				s.leaveOut(u)
			}
			return all
		})
		return false // one is enough
	})
	return d.round == s.round
}

// leaveOut has what u depends on for visited.
func (s *stops) leaveOut(u *target) {
	if u.behind == s.round {
		return
	}
	u.behind = s.round
	for _, d := range u.deps {
		d.round = s.round
		s.leaveOut(d)
	}
}

// exports calls yield with each folder, header and symbol that t exports, until it returns false.
func (t *target) exports(yield func(thing any) bool) {
	for _, dir := range t.include {
		if !yield(dir) {
			return
		}
	}
	for _, h := range t.headers {
		if !yield(h) {
			return
		}
	}
	if t.Embed != nil {
		yield(*t.Embed)
	}
}

// isLast reports that what u depends on exports nothing but what u does itself. It may be asked
// once all that is planned.
func isLast(u *target) bool {
	if u.last == nil {
		last := !slices.ContainsFunc(u.deps, func(d *target) bool { return !isLast(d) || !u.exportsAllOf(d) })
		u.last = &last
	}
	return *u.last
}

// exportsAllOf reports that t exports what d does.
func (t *target) exportsAllOf(d *target) bool {
	if d.Embed != nil && (t.Embed == nil || *t.Embed != *d.Embed) {
		return false
	}
	return subset(d.include, t.include) && subset(d.headers, t.headers)
}

func subset(of, list []string) bool {
	return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(list, s) })
}
