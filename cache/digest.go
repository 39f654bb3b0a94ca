package cache

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Files knows the digests of files and remembers them by stat, within a run and, by what base
// knows, between runs. Forgetting costs time, never correctness.
//
// A remembered digest is trusted if device, inode, size, mode, mtime and ctime are all as they
// were: equality, never order. The mtime alone would not do: tools set it back (cp -p, tar, rsync),
// and then a file of the same size with other content looks untouched. The ctime cannot be set.
//
// Equal times prove nothing while the clock tick that they name still runs: a file can be written,
// hashed and written again within one tick, and all three have the same stat. That is git's "racy"
// problem, solved as git does: a digest is trusted only if both times lay a whole tick before the
// moment its hashing began. A younger one is hashed again when it is next asked for, and trusted
// from then on. The tick is 10 ms at most where a file system keeps nanoseconds (it stamps with the
// kernel's coarse clock, 100 to 1000 Hz) and up to 2 s where it keeps seconds (FAT, ext3, old NFS);
// which one it is shows in the ctime itself, see Stat.tick.
//
// Times in the future (a clock that was set back, a file server's that is ahead, touch -d) would be
// young for ever, and whatever reads such a file would never be up to date. A modification time in
// the future is left aside. A ctime in the future is held against the stat of an earlier look.
//
// Within one run a path is looked at once, since a build asks for the same headers once for each
// source. Forget makes the next Digest look again: call it for every path the build writes.
// Unchanged always looks.
//
// All methods may be called concurrently; files are hashed side by side, one path only once.
type Files struct {
	root   string
	base   func(path string) (Hashed, bool)
	now    func() time.Time
	slots  Shards[string, *slot] // by canonical path
	clocks sync.Map              // device -> bool: its files have fileClock's times
}

// Stat is the identity of a file's content by stat.
type Stat struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64 // ns since 1970
	Mode         uint32
}

// Hashed is a digest with the stat under which it was taken.
type Hashed struct {
	Stat   Stat
	Digest Digest
	At     int64 // ns since 1970: just before the first byte was read; while the times prove nothing, when it was first seen so
}

// LongAgo is the Hashed.At of a digest that was seen to belong to its stat when the stat was old
// enough.
const LongAgo = math.MaxInt64

// entry is what is known of a file in this run.
type entry struct {
	Hashed
	done int64 // ns since 1970: just after the last byte was read; 0 if that was in an earlier run
}

// slot is one path in this run.
type slot struct {
	known atomic.Pointer[entry] // settled in this run
	mu    sync.Mutex            // held while looking
	last  *entry                // latest digest of the path, perhaps outdated; nil if never hashed
}

// NewFiles knows nothing yet. Relative paths given to the methods are relative to root. base is
// asked for paths, spelled as Canonical gives them, that were not asked for before in this run; it
// may be nil.
func NewFiles(root string, base func(path string) (Hashed, bool)) *Files {
	return &Files{root: filepath.Clean(root), base: base, now: time.Now}
}

// Digest gives the digest of a regular file. The error for a path that does not exist is
// fs.ErrNotExist. Errors are not remembered.
func (f *Files) Digest(path string) (Digest, error) {
	name := f.canonical(path)
	s := f.slot(name)
	if e := s.known.Load(); e != nil {
		return e.Digest, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known.Load(); e != nil { // settled by whoever held the lock
		return e.Digest, nil
	}
	e, err := f.look(name, s)
	if err != nil {
		return Digest{}, err
	}
	return e.Digest, nil
}

// Unchanged looks at the file anew and reports whether it has digest d and was not modified at
// since or later. With a zero since only the digest counts.
//
// A file that was last modified FileTick before since or earlier was not. Of a younger one that
// would be true as well, if its time is before since at all, but for a write that had its time
// already and its bytes not yet: so it must also have been read before since, and be what it was
// then.
func (f *Files) Unchanged(path string, d Digest, since Moment) bool {
	name := f.canonical(path)
	s := f.slot(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	prev := s.last
	e, err := f.look(name, s)
	if err != nil || e.Digest != d {
		return false
	}
	if since == (Moment{}) || f.before(e, since.File.UnixNano()) || e.seenBefore(since.Time.UnixNano()) {
		return true
	}
	read := prev != nil && prev.Stat == e.Stat && prev.Digest == d && prev.done < since.Time.UnixNano()
	return read && e.Stat.modified() < since.File.UnixNano() && f.keepsClock(name, e)
}

// keepsClock reports that the times of a file are fileClock's. It is asked of a device once.
func (f *Files) keepsClock(name string, e *entry) bool {
	ok, known := f.clocks.Load(e.Stat.Dev)
	if !known {
		ok = keepsFileClock(f.abs(name))
		f.clocks.Store(e.Stat.Dev, ok)
	}
	return ok.(bool) && e.Stat.tick() == fineTick
}

// Forget makes the next Digest of path look at the file again.
func (f *Files) Forget(path string) {
	s := f.slot(f.canonical(path))
	s.mu.Lock() // a look under way must not settle what it saw before the change
	defer s.mu.Unlock()
	s.known.Store(nil)
}

// look settles the slot, whose lock is held, by stat if that is enough and else by content.
func (f *Files) look(name string, s *slot) (*entry, error) {
	s.known.Store(nil)
	last := s.last
	if last == nil && f.base != nil {
		if h, ok := f.base(name); ok {
			last = &entry{Hashed: h}
		}
	}
	if last != nil {
		info, err := statFile(f.abs(name))
		if err != nil {
			return nil, err
		}
		now, ok := stampOf(info)
		if ok && now == last.Stat && f.before(last, last.At) {
			return s.settle(last), nil
		}
	}
	e, err := f.hash(f.abs(name))
	if err != nil {
		return nil, err
	}
	if last != nil && last.At < e.At && last.Stat == e.Stat && last.Digest == e.Digest && !f.before(e, e.At) {
		e.At = last.At // so it was then
	}
	return s.settle(e), nil
}

func (s *slot) settle(e *entry) *entry {
	s.last = e
	s.known.Store(e)
	return e
}

// hashTries bounds how often a file that is being written is read before giving up.
const hashTries = 3

// hash reads the file until it holds still.
func (f *Files) hash(name string) (*entry, error) {
	for try := 1; ; try++ {
		e, err := f.hashOnce(name)
		if try == hashTries || !errors.Is(err, errMoved) {
			return e, err
		}
	}
}

// hashOnce reads the file between two equal stats, so that the digest belongs to them.
func (f *Files) hashOnce(name string) (*entry, error) {
	hashed := f.now().UnixNano()
	d, info, err := digestFile(name)
	if err != nil {
		return nil, err
	}
	again, err := statFile(name)
	if err != nil {
		return nil, err
	}
	before, _ := stampOf(info)
	if after, _ := stampOf(again); before != after {
		return nil, fmt.Errorf("hashing %s: %w", name, errMoved)
	}
	return &entry{Hashed{before, d, hashed}, time.Now().UnixNano()}, nil
}

const (
	fineTick   = int64(FileTick)
	coarseTick = int64(2 * time.Second) // FAT's
)

// tick is how long files written one after the other may get the same times here. A ctime without
// any digit below 10 ms tells of a file system that keeps no more (or, once in ten million files,
// of chance, which costs one hashing).
func (s *Stat) tick() int64 {
	if s.Ctime%int64(10*time.Millisecond) == 0 {
		return coarseTick
	}
	return fineTick
}

// before reports whether the file was last modified at least one tick before t.
func (s *Stat) before(t int64) bool { return s.modified()+s.tick() < t }

func (s *Stat) modified() int64 { return max(s.Mtime, s.Ctime) }

// before is Stat.before where a modification time that lies in the future tells nothing, since
// somebody has set it: the other time is that of the change, and of that one.
func (f *Files) before(e *entry, t int64) bool {
	st := e.Stat
	if st.Mtime > f.now().UnixNano()+coarseTick {
		st.Mtime = st.Ctime
	}
	return st.before(t)
}

// seenBefore reports whether the file had this stat and content long before t. A later change would
// have given it other times, whatever the clock is that gives them: it may have been set back
// since, or be another machine's.
func (e *entry) seenBefore(t int64) bool { return e.At != 0 && e.At < t-coarseTick }

// Before reports whether the file was last modified at least one tick of its clock before t:
// whoever read it since then has read what it holds.
func (s *Stat) Before(t time.Time) bool { return s.before(t.UnixNano()) }

// StatFile is the identity of what path leads to.
func StatFile(path string) (Stat, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stat{}, err
	}
	st, ok := stampOf(info)
	if !ok {
		return Stat{}, fmt.Errorf("the system says too little about %s", path)
	}
	return st, nil
}

// Seen gives the files that were asked for in this run and what is known of them, in no order. A
// nil h is a file that is to be looked at again, or could not be read.
func (f *Files) Seen(visit func(path string, h *Hashed)) {
	f.slots.Each(func(name string, s *slot) {
		var h *Hashed
		if e := s.known.Load(); e != nil {
			h = &e.Hashed
		}
		visit(name, h)
	})
}

// slot finds or makes the state of a canonical path.
func (f *Files) slot(name string) *slot {
	if s, ok := f.slots.Load(name); ok {
		return s
	}
	return f.slots.LoadOrStore(name, &slot{})
}

func (f *Files) canonical(path string) string { return Canonical(f.root, path) }

// Canonical gives paths under root relative to it, so that most spellings of one file are one. A
// path with ".." stays as it is: behind a symbolic link that leads elsewhere than the text says.
func Canonical(root, path string) string {
	if !slices.Contains(strings.Split(path, "/"), "..") {
		path = filepath.Clean(path)
	}
	if rest, ok := strings.CutPrefix(path, root); ok && len(rest) > 1 && rest[0] == filepath.Separator {
		return rest[1:]
	}
	return path
}

func (f *Files) abs(name string) string { return Absolute(f.root, name) }

// Absolute is the reverse of Canonical.
func Absolute(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return root + "/" + path // not Join, which would shorten "link/.."
}
