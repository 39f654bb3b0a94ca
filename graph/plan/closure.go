package plan

import "slices"

// What a target depends on, directly or through others. Each target with sources asks which folders and generated files come to it from
// there, so a chain of n libraries would be walked n times, to its end: with 16,000 of them 128 million steps, for nothing if none of
// them exports anything. So the walk for what is exported stops where nothing new can come.

// closure is everything t depends on, each once, users before what they use.
func (b *builder) closure(t *target) []*target {
	return b.walk(t, func(*target) bool { return true }, func(*target) bool { return false })
}

// exporters are those of closure that export something, less some that export only what a user of theirs, which stands before them, does.
func (b *builder) exporters(t *target) []*target {
	return b.walk(t, func(u *target) bool { return len(u.include)+len(u.headers) > 0 || u.Embed != nil }, isLast)
}

// walk gives those of closure for which take holds, less some that are only behind targets for which stop holds. The order is that of
// closure.
func (b *builder) walk(t *target, take, stop func(*target) bool) []*target {
	b.round++
	t.round = b.round
	var post []*target
	var visit func(u *target)
	visit = func(u *target) {
		if u == t || !stop(u) {
			for i := len(u.deps) - 1; i >= 0; i-- {
				if d := u.deps[i]; d.round != b.round {
					d.round = b.round
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

// isLast reports that what u depends on exports nothing but what u does itself. It may be asked once all that is planned.
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
