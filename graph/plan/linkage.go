package plan

import (
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

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
