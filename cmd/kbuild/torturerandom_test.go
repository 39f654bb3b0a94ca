package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// one picks.
func one[T any](h *torture, list ...T) T { return list[h.rng.IntN(len(list))] }

// chance is true n times of 100.
func (h *torture) chance(n int) bool { return h.rng.IntN(100) < n }

// present are the files of the project that match, as names in it.
func (h *torture) present(patterns ...string) (names []string) {
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(h.dir, p))
		for _, f := range found {
			rel, _ := filepath.Rel(h.dir, f)
			names = append(names, rel)
		}
	}
	return names
}

// presentTargets are the targets of the manifest, of some kinds.
func (h *torture) presentTargets(kinds ...string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(h.hcl)) {
		kind, _, _ := strings.Cut(name, ".")
		if h.hcl[name]["present"] != "" && slices.Contains(kinds, kind) {
			names = append(names, name)
		}
	}
	return names
}

// next is a step, which it takes. The more builds in a row have failed, the more likely it leaves
// what is wrong: it undoes one of the steps since a build ended well, or all.
func (h *torture) next() (s step) {
	if h.well.files != nil && h.chance(25*len(h.since)) {
		if h.chance(30) {
			s = h.back(one(h, h.since...))
		}
		if len(s) == 0 {
			s = h.back(nil)
		}
		for _, e := range s {
			h.apply(e)
		}
	}
	if len(s) > 0 {
		return s
	}
	for range 1 + h.rng.IntN(2) {
		s = append(s, h.random()) // which looks at the tree as the one before left it
		h.apply(s[len(s)-1])
	}
	if e, ok := h.editTwin(s[len(s)-1].name); ok && h.chance(20) {
		s = append(s, e)
		h.apply(e)
	}
	return s
}

// random is an edit.
func (h *torture) random() edit {
	makers := []func() (edit, bool){h.editSource, h.editSource, h.editSource, h.editHeader, h.editHeader, h.editHeader, h.editComments, h.editComments, h.editFile, h.editTarget, h.editTarget,
		h.editCode, h.editLibrary, h.editLibrary, h.editData, h.editEnv, h.editEnv, h.editOutput, h.editRun, h.editRun, h.editLayout}
	for {
		if e, ok := one(h, makers...)(); ok {
			return e
		}
	}
}
