package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// Observer collects the observations of a run, one for each path. It takes the stats when an
// observation is added, after the run has read the path. So it compares: what changed since the run
// began, or not long before, is too recent, and its content decides from then on. If there is no
// content to compare, or if two observations of one path differ, the observations may not be what
// the run has read. Then List returns false.
type Observer struct {
	ForPlan bool // the observations added now belong to the plan

	root   string
	began  time.Time
	list   []cache.Observation
	index  map[string]int // in list, by path
	unsure bool
}

// NewObserver returns an Observer of a run that began to observe at a time. Relative paths are
// relative to root. It reserves room for size observations: a list that grows leaves as much
// garbage.
func NewObserver(root string, began time.Time, size int) *Observer {
	return &Observer{root: root, began: began, list: make([]cache.Observation, 0, size), index: make(map[string]int, size)}
}

// List returns the observations. ok is false if they may not be what the run has read.
func (l *Observer) List() (list []cache.Observation, ok bool) { return l.list, !l.unsure }

// Doubt makes List return false: the caller does not know what the run has read.
func (l *Observer) Doubt() { l.unsure = true }

// Has reports whether there is an observation of a path.
func (l *Observer) Has(path string) bool {
	_, ok := l.index[cache.Canonical(l.root, path)]
	return ok
}

// Files adds the files whose digests were queried.
func (l *Observer) Files(files *cache.Files) {
	files.Seen(func(path string, h *cache.Hashed) {
		if h != nil {
			l.add(cache.Observation{Path: path, Kind: cache.KindFile, Stat: h.Stat, Digest: h.Digest, Seen: h.At})
		}
	})
}

// Output adds an output. If it was digested, Files has a better observation.
func (l *Observer) Output(o cache.Output) {
	mode := uint32(sIFREG | 0o644)
	if o.Exec {
		mode |= 0o111
	}
	l.add(cache.Observation{Path: o.Path, Kind: cache.KindFile, Digest: o.Digest, MustBeRegular: true, Young: true, Stat: cache.Stat{Mode: mode}})
}

// Text adds a file with the digest of the text that was read, even if the file has changed since.
func (l *Observer) Text(path string, digest cache.Digest) {
	st, err := cache.StatFile(l.abs(path))
	l.unsure = l.unsure || err != nil
	l.add(cache.Observation{Path: path, Kind: cache.KindFile, Stat: st, Digest: digest})
}

// Observe adds an observation. If it has only a path and a kind, it gets the stat of now.
func (l *Observer) Observe(o cache.Observation) {
	switch {
	case o.Stat != cache.Stat{}, o.Kind == cache.KindGuard && len(o.Absent) > 0:
		l.add(o)
		return
	case o.Kind == cache.KindAbsent:
		l.absent(o.Path)
		return
	}
	st, err := cache.StatFile(l.abs(o.Path))
	switch {
	case err != nil, o.ByStat && !st.Before(l.began):
		l.unsure = true // its time may have been another one when the command read it
	case o.ByStat:
		l.add(cache.Observation{Path: o.Path, Kind: o.Kind, Stat: st, ByStat: true})
	case fs.FileMode(st.Mode)&sIFMT == sIFDIR:
		l.add(cache.Observation{Path: o.Path, Kind: cache.KindGuard, Stat: st})
	default:
		l.add(cache.Observation{Path: o.Path, Kind: cache.KindFile, Stat: st})
	}
}

// Folder adds a folder that was listed, if it has the names that the run has read: names is their
// NamesBut. The name in it that leads to the path except does not count.
func (l *Observer) Folder(dir string, names cache.Digest, except string) {
	st, err := cache.StatFile(l.abs(dir))
	now, err2 := os.ReadDir(l.abs(dir))
	again, err3 := cache.StatFile(l.abs(dir))
	if errors.Join(err, err2, err3) != nil || again != st || NamesBut(l.abs(dir), except, now) != names {
		l.unsure = true
		return
	}
	l.add(cache.Observation{Path: dir, Kind: cache.KindFolder, Stat: st, Digest: namesDigest(now)})
}

// absent adds a path that must stay absent. A folder that did not change has no new names, so many
// such paths cost one stat.
func (l *Observer) absent(p string) {
	if _, err := os.Lstat(l.abs(p)); err == nil {
		if _, err := os.Stat(l.abs(p)); err == nil {
			l.unsure = true
			return
		}
		// a dangling link: its target may appear in another folder
		l.add(cache.Observation{Path: p, Kind: cache.KindAbsent})
		return
	}
	dir, base := filepath.Split(p)
	st, err := cache.StatFile(l.abs(dir))
	switch {
	// behind a link, ".." is another folder than the path says
	case dir != "" && filepath.Clean(dir)+"/" != dir:
		l.add(cache.Observation{Path: p, Kind: cache.KindAbsent})
	case err == nil && fs.FileMode(st.Mode)&sIFMT == sIFDIR:
		l.add(cache.Observation{Path: filepath.Clean(dir), Kind: cache.KindGuard, Stat: st, Absent: []string{base}})
	case errors.Is(err, fs.ErrNotExist) && strings.Trim(dir, "./") != "" && !strings.Contains(dir, ".."):
		l.absent(filepath.Clean(dir)) // then all paths in it are absent, too
	default:
		l.add(cache.Observation{Path: p, Kind: cache.KindAbsent})
	}
}

// add adds an observation, or merges it into that of the same path.
func (l *Observer) add(e cache.Observation) {
	e.Path = cache.Canonical(l.root, e.Path)
	e.Plan = e.Plan || l.ForPlan
	if e.Kind != cache.KindAbsent && e.Stat.Ino != 0 && !e.Stat.Before(l.began) {
		// it has no content to compare
		l.unsure = l.unsure || e.Digest == cache.Digest{} && e.Kind != cache.KindGuard
		e.Young = true
	}
	if !e.Young {
		e.Seen = 0
	}
	i, ok := l.index[e.Path]
	if !ok {
		l.index[e.Path] = len(l.list)
		l.list = append(l.list, e)
		return
	}
	old := &l.list[i]
	old.Plan = old.Plan || e.Plan
	switch {
	case old.Kind == cache.KindFile && e.Kind == cache.KindFile:
		l.unsure = l.unsure || old.Digest != e.Digest && old.Digest != cache.Digest{} && e.Digest != cache.Digest{}
		if old.Young && !e.Young || old.Stat.Ino == 0 {
			old.Stat, old.Young, old.Seen = e.Stat, e.Young, e.Seen
		}
		if old.Digest == (cache.Digest{}) {
			old.Digest = e.Digest
		}
		if old.ByStat = old.ByStat || e.ByStat; old.ByStat {
			l.unsure = l.unsure || e.Stat.Ino != 0 && e.Stat != old.Stat
			old.Digest = cache.Digest{}
		}
		old.MustBeRegular = old.MustBeRegular || e.MustBeRegular
	case old.Kind == e.Kind, old.Kind == cache.KindFolder && e.Kind == cache.KindGuard:
		l.unsure = l.unsure || old.Kind == e.Kind && old.Digest != e.Digest
		old.Absent = append(old.Absent, e.Absent...)
	case old.Kind == cache.KindGuard && e.Kind == cache.KindFolder:
		e.Plan, e.Absent = e.Plan || old.Plan, old.Absent
		*old = e
	default:
		l.unsure = true
	}
}

// Supersede merges old, an older observation of the same path, into e. broken reports that old is
// no longer valid. root is the base of relative paths.
func Supersede(root string, e *cache.Observation, old cache.Observation, broken bool) {
	e.Plan = e.Plan || old.Plan
	switch {
	case old.Kind == cache.KindFolder && e.Kind == cache.KindGuard:
		*e = old
	case old.Kind == cache.KindGuard && e.Kind == cache.KindGuard:
		for _, name := range old.Absent {
			if _, err := os.Stat(cache.Absolute(root, filepath.Join(e.Path, name))); broken && err == nil {
				continue // it appeared, and the actions that would read it have been checked
			}
			e.Absent = append(e.Absent, name)
		}
		slices.Sort(e.Absent)
		e.Absent = slices.Compact(e.Absent)
	case old.Kind == cache.KindFile && e.Kind == cache.KindFile && old.Digest == cache.Digest{}:
		e.Digest = cache.Digest{} // for another action its content was not enough, and is not now
	}
}

func (l *Observer) abs(p string) string { return cache.Absolute(l.root, p) }

// NamesBut returns a digest of the names in a folder and their types, without the name that leads
// to the path except.
func NamesBut(dir, except string, entries []fs.DirEntry) cache.Digest {
	if below, ok := strings.CutPrefix(except, filepath.Clean(dir)+"/"); ok {
		first, _, _ := strings.Cut(below, "/")
		entries = slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool { return e.Name() == first })
	}
	return namesDigest(entries)
}

// namesDigest returns a digest of the names and types (file, folder, link) of entries, which are
// sorted by name.
func namesDigest(entries []fs.DirEntry) cache.Digest {
	var b []byte
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint32(append(append(b, e.Name()...), 0), uint32(e.Type()))
	}
	return sha256.Sum256(b)
}

// Types of files in Stat.Mode.
const (
	sIFMT  = 0o170000
	sIFREG = 0o100000
	sIFDIR = 0o040000
)
