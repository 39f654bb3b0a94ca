package probe

import (
	"context"
	"maps"
	"os"
	"slices"
)

// cover notes whose content is in an identity. A text of one may be another identity: the host compiler is part of the toolkit.
func (w *world) cover(id string, parts map[string]string, texts []string) {
	for _, file := range parts {
		if file != "" {
			w.covers[id] = append(w.covers[id], file)
		}
	}
	for _, t := range texts {
		w.covers[id] = append(w.covers[id], w.covers[t]...)
	}
}

// Covered are the files whose content is in the identities of tools, by identity, and the paths whose coming, or of a folder the coming of
// something in it, has the tools asked again. It asks them now, whatever is remembered.
func Covered(ctx context.Context, r Request) (files map[string][]string, asked []string) {
	w := newWorld(ctx, r)
	w.collect()
	asked = slices.Sorted(maps.Keys(w.absent))
	for _, name := range slices.Sorted(maps.Keys(w.read)) {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			asked = append(asked, name)
		}
	}
	return w.covers, asked
}
