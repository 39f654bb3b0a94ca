package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Transitive dependencies of targets. Each target with sources collects the include folders and
// generated files that its dependencies export. A chain of n libraries would therefore be walked to
// its end n times. With 16,000 libraries that is 128 million steps, for nothing if none of them
// exports anything. So the walk for exports stops where nothing new can follow.

type walker struct {
	round int // number of the current walk
}

// closure returns the transitive dependencies of t, each once, dependents before their
// dependencies.
func (w *walker) closure(t *target) []*target { return w.walk(t, false) }

// exporters returns the members of closure that export something. It omits some that export only
// what an earlier dependent of theirs exports.
func (w *walker) exporters(t *target) []*target { return w.walk(t, true) }

// walk returns closure or exporters, in the order of closure.
func (w *walker) walk(t *target, exporting bool) []*target {
	w.round++
	t.round = w.round
	var post []*target
	stopped := stops{round: w.round}
	var visit func(u *target)
	visit = func(u *target) {
		if u != t && exporting && isLast(u) {
			stopped.add(u)
		} else {
			for i := len(u.deps) - 1; i >= 0; i-- {
				if d := u.deps[i]; d.round != w.round && !stopped.pass(d) {
					d.round = w.round
					visit(d)
				}
			}
		}
		if u != t && (!exporting || len(u.include)+len(u.headers) > 0 || u.Embed != nil) {
			post = append(post, u)
		}
	}
	visit(t)
	slices.Reverse(post)
	return post
}

// stops holds the targets at which a walk stopped. Their dependencies come after them in the
// closure. If the walk reaches such a dependency by another path, it would come before them. It is
// omitted instead, because the stopped target exports the same.
type stops struct {
	round int
	by    map[any][]*target // by exported folder, header or symbol
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

// pass reports whether to skip d, which was not visited. It skips the dependencies of every stopped
// target that exports all that d does.
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
		return false // one export is enough to find them
	})
	return d.round == s.round
}

// leaveOut marks the transitive dependencies of u as visited.
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

// exports calls yield with each folder, header and symbol that t exports, until yield returns
// false.
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

// isLast reports whether the transitive dependencies of u export only what u exports itself. It is
// valid once they are planned.
func isLast(u *target) bool {
	if u.last == nil {
		last := !slices.ContainsFunc(u.deps, func(d *target) bool { return !isLast(d) || !u.exportsAllOf(d) })
		u.last = &last
	}
	return *u.last
}

// exportsAllOf reports whether t exports everything that d exports.
func (t *target) exportsAllOf(d *target) bool {
	if d.Embed != nil && (t.Embed == nil || *t.Embed != *d.Embed) {
		return false
	}
	return subset(d.include, t.include) && subset(d.headers, t.headers)
}

func subset(of, list []string) bool {
	return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(list, s) })
}

// linkage holds what a link of t takes from its dependencies. A static library brings its own
// dependencies. A shared library is closed: it keeps what it links to itself.
type linkage struct {
	statics []*target // static libraries, dependents before their dependencies
	pre     []*target // prebuilt archives
	shared  []*target // shared libraries and prebuilt shared files
	embeds  []string  // objects of embedded modules
	libs    []string
	libDirs []string
}

func (w *walker) linkage(t *target) linkage {
	var l linkage
	var libs, libDirs []string
	for _, d := range w.reached(t) {
		switch {
		case d.Kind == manifest.Module:
			l.embeds = append(l.embeds, d.embeds...)
		case d.Shared || d.SharedFile != "":
			l.shared = append(l.shared, d)
		case d.Kind == manifest.Prebuilt:
			l.pre = append(l.pre, d)
		case d.Kind == manifest.Library && !d.HeaderOnly():
			l.statics = append(l.statics, d)
		}
		if d.Kind == manifest.Prebuilt || d.Kind == manifest.Library && !d.Shared {
			libs, libDirs = append(libs, d.Libs...), append(libDirs, d.LibDirs...)
		}
	}
	l.libs = appendNew(append([]string(nil), t.Libs...), libs...)
	l.libDirs = appendNew(append([]string(nil), t.LibDirs...), libDirs...)
	return l
}

// reached returns the closure of t for linking, which excludes the dependencies of shared
// libraries.
func (w *walker) reached(t *target) []*target {
	behind := func(u *target) bool { return u != t && (u.Shared || u.SharedFile != "") }
	ok := map[*target]bool{}
	var walk func(u *target)
	walk = func(u *target) {
		if ok[u] {
			return
		}
		ok[u] = true
		if !behind(u) {
			for _, d := range u.deps {
				walk(d)
			}
		}
	}
	walk(t)
	var out []*target
	for _, d := range w.closure(t) {
		if ok[d] {
			out = append(out, d)
		}
	}
	return out
}

// appendNew appends the strings of more that list does not contain yet.
func appendNew(list []string, more ...string) []string {
	if len(more) == 0 {
		return list
	}
	have := make(map[string]bool, len(list)+len(more))
	for _, s := range list {
		have[s] = true
	}
	for _, s := range more {
		if !have[s] {
			have[s] = true
			list = append(list, s)
		}
	}
	return list
}
