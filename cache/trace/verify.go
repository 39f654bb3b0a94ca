package trace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// Check compares all observations with the current state. broken holds those that are no longer
// valid, fresh the current stats of those that are valid although stat does not prove it.
func (t *Trace) Check(root string) (fresh map[int]cache.Stat, broken []int, err error) {
	doubts, err := t.Changed(root)
	fresh = map[int]cache.Stat{}
	for _, i := range doubts {
		if st, ok := t.Rehash(root, i); ok {
			fresh[i] = st
		} else {
			broken = append(broken, i)
		}
	}
	return fresh, broken, err
}

// Refreshed returns all observations, with the stats of fresh (see Check). A stat that is not older
// than began is too recent.
func (t *Trace) Refreshed(fresh map[int]cache.Stat, began time.Time) []cache.Observation {
	list := t.All()
	for i, st := range fresh {
		list[i].Stat, list[i].Young, list[i].Seen = st, list[i].Kind != cache.KindAbsent && !st.Before(began), 0
	}
	return list
}

// Rehash compares observation i with the current state by content. ok is true if the content is
// unchanged although the stat differs; st is the new stat.
func (t *Trace) Rehash(root string, i int) (st cache.Stat, ok bool) {
	s, i := t.layer(i)
	e := &s.entries[i]
	name := cache.Absolute(root, s.path(i))
	if e.kind == cache.KindAbsent {
		return cache.Stat{}, absent(name)
	}
	st, err := cache.StatFile(name)
	if err != nil || !sameKind(e.mode, st.Mode) || e.flags&flagOutput != 0 && isLink(name) || !s.same(e, i, name) {
		return st, false
	}
	if e.kind == cache.KindGuard {
		return st, true // other names come and go in a folder such as /tmp
	}
	again, err := cache.StatFile(name)
	return st, err == nil && st == again
}

// sameKind compares the parts of a mode that builds depend on: the file type and the executable
// bits. A mode of zero is unknown and matches any.
func sameKind(was, is uint32) bool {
	const types, owner, any = 0o170000, 0o100, 0o111
	return was == 0 || (was^is)&(types|owner) == 0 && (was&any == 0) == (is&any == 0)
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err != nil || info.Mode()&fs.ModeSymlink != 0
}

// same reports whether the content is unchanged.
func (s *layer) same(e *entry, i int, name string) bool {
	want := s.digest(i)
	for absent := range s.absent(e) {
		if link, target, ok := strings.Cut(absent, cache.LeadsTo); ok {
			if now, _ := os.Readlink(filepath.Join(name, link)); now != target {
				return false
			}
		} else if _, err := os.Lstat(filepath.Join(name, absent)); err == nil {
			return false // also a dangling link: its target may appear elsewhere
		}
	}
	switch {
	case e.kind == cache.KindGuard:
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	case want == cache.Digest{}:
		return false
	case e.kind == cache.KindFolder:
		entries, err := os.ReadDir(name)
		return err == nil && namesDigest(entries) == want
	}
	d, err := cache.DigestFile(name)
	return err == nil && d == want
}

// Broken returns the paths at which an observation that Rehash refused has changed. For a guard
// these are the names that exist now.
func (t *Trace) Broken(root string, i int) []string {
	e := t.At(i)
	var out []string
	for _, n := range e.Absent {
		name := filepath.Join(e.Path, n)
		if _, err := os.Lstat(cache.Absolute(root, name)); err == nil {
			out = append(out, name)
		}
	}
	if e.Kind == cache.KindFolder {
		out = append(out, e.Path)
	}
	if out == nil {
		return []string{e.Path}
	}
	return out
}

// Paths returns the paths at which broken observations have changed, see Broken.
func (t *Trace) Paths(root string, broken []int) (paths []string) {
	for _, i := range broken {
		paths = append(paths, t.Broken(root, i)...)
	}
	return paths
}

// absent reports whether path does not exist or is a dangling link.
func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
