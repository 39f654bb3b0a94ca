// Package trace remembers a value together with everything that was observed while it was worked
// out, and decides whether the value is still valid: a verifying trace, as "Build Systems à la
// Carte" calls it. It knows files and folders; it knows nothing of builds, tools or databases.
//
// # The problem
//
// A run of kbuild, a probe of the host and a launched command are functions of a command line, an
// environment and what they observe: files, folders, and paths that do not exist. The command line
// and the environment are the key of a trace. The rest are observations (cache.Observation), each
// with its stat and a digest. If none has changed, another run would have the same result.
//
// # When an observation is valid
//
// An observation is valid if device, inode, mode, size, mtime and ctime are all equal to the
// recorded ones; their order does not matter. If they differ, the content decides (Rehash): a file
// that was touched, or replaced by an equal one, is unchanged.
//
// Equal times prove nothing during the tick of the clock that they name. A file can be written,
// read and written again within one tick. So a file is too recent (Observation.Young) if it changed
// in the tick of its observation, or later: see cache.Stat.Before, which is the one rule for all
// traces. Its content decides, whatever its stat.
//
// # What may go wrong
//
// A trace is only a memo. Without it, or if it is damaged, its value is worked out again. An
// Observer that cannot know what was read returns no trace.
package trace

import (
	"slices"
	"sort"

	"github.com/kbuild-dev/kbuild/cache"
)

// Trace is a value with its observations, in the memory of its blobs.
//
// Rewriting many observations after a small change would cost more than checking all files. So a
// trace may have a second blob, the top. An observation in the top replaces the one with the same
// path in the base.
type Trace struct {
	base   *layer
	top    *layer       // or nil
	hidden map[int]bool // observations of base that one in top replaces
}

// Open opens a trace without copying it. top is nil if there is only one blob. The blobs must not
// change and must start at a multiple of 8.
func Open(base, top []byte) (t *Trace, err error) {
	t = &Trace{}
	if t.base, err = parse(base); err != nil || top == nil {
		return t, err
	}
	if t.top, err = parse(top); err != nil {
		return nil, err
	}
	t.hidden = map[int]bool{}
	for i := range t.top.entries {
		if k, ok := sort.Find(len(t.base.entries), func(k int) int { return compare(t.top.path(i), t.base.path(k)) }); ok {
			t.hidden[k] = true
		}
	}
	return t, nil
}

// Merge returns a blob in which the observations of list replace those with the same paths. It is
// the new top; if isBase, it is a new base, since the top has grown too large.
func (t *Trace) Merge(value []byte, list []cache.Observation) (blob []byte, isBase bool, err error) {
	given := map[string]bool{}
	for _, o := range list {
		given[o.Path] = true
	}
	merged := slices.Clone(list)
	if t.top != nil {
		merged = t.top.without(given, merged)
	}
	if isBase = len(merged) > len(t.base.entries)/8; isBase {
		for _, o := range merged {
			given[o.Path] = true
		}
		merged = t.base.without(given, merged)
	}
	blob, err = Encode(value, merged)
	return blob, isBase, err
}

// without appends the observations whose paths are not in given.
func (s *layer) without(given map[string]bool, list []cache.Observation) []cache.Observation {
	for i := range s.entries {
		if !given[s.path(i)] {
			list = append(list, s.at(i))
		}
	}
	return list
}

// At returns observation i, without ByStat.
func (t *Trace) At(i int) cache.Observation {
	s, i := t.layer(i)
	return s.at(i)
}

// All returns the observations as they were written, indexed by number. It includes those that
// Merge has replaced.
func (t *Trace) All() (list []cache.Observation) {
	for i := range t.base.entries {
		list = append(list, t.base.at(i))
	}
	if t.top != nil {
		for i := range t.top.entries {
			list = append(list, t.top.at(i))
		}
	}
	return list
}

// layer returns the blob of an observation and its number there.
func (t *Trace) layer(i int) (*layer, int) {
	if i >= len(t.base.entries) {
		return t.top, i - len(t.base.entries)
	}
	return t.base, i
}

// Find returns the number of the observation of a path.
func (t *Trace) Find(path string) (i int, ok bool) {
	if t.top != nil {
		if i, ok := t.top.find(path); ok {
			return i + len(t.base.entries), true
		}
	}
	return t.base.find(path)
}

// Value returns the value of the last write.
func (t *Trace) Value() []byte {
	if t.top != nil {
		return t.top.value
	}
	return t.base.value
}
