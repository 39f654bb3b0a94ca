package cache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Files computes digests of files and remembers them by stat: within a run, and between runs by
// what base returns. Losing a remembered digest costs time, never correctness.
//
// A remembered digest is trusted if device, inode, size, mode, mtime and ctime are all equal; their
// order does not matter. The mtime alone is not enough. Tools set it back (cp -p, tar, rsync), and
// then a file of the same size with other content looks unchanged. The ctime cannot be set.
//
// Equal times prove nothing during the clock tick that they name. A file can be written, hashed and
// written again within one tick, all with the same stat. This is git's "racy" problem, with git's
// solution: a digest is trusted only if both times precede the start of hashing by a whole tick. A
// file that is too recent is hashed again at the next query, and trusted from then on. The tick is
// 10 ms at most where a file system keeps nanoseconds: it stamps with the kernel's coarse clock,
// 100 to 1000 Hz. It is up to 2 s where a file system keeps seconds (FAT, ext3, old NFS). The ctime
// itself shows which of the two applies, see Stat.tick.
//
// Times in the future (a clock that was set back, a file server that is ahead, touch -d) would be
// too recent forever. An action that reads such a file would never be up to date. A modification
// time in the future is ignored. With a ctime in the future, Unchanged relies on the time when this
// stat and content were first read.
//
// Within one run each path is read once, since a build queries the same headers once for each
// source. Forget makes the next Digest read the file again; call it for every path that the build
// writes. Unchanged always reads the stat.
//
// All methods may be called concurrently. Files are hashed in parallel, each path only once.
type Files struct {
	root   string
	base   func(path string) (Hashed, bool)
	now    func() time.Time
	slots  Shards[string, *slot] // by canonical path
	clocks sync.Map              // device -> bool: its files are stamped with fileClock
}

// Stat identifies a version of a file's content without reading it.
type Stat struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64 // ns since 1970
	Mode         uint32
}

// Hashed is a digest with the stat under which it was computed.
type Hashed struct {
	Stat   Stat
	Digest Digest
	// Just before the first byte was read, in ns since 1970. For a file that is too recent: when
	// this content was first read under this stat.
	At int64
}

// LongAgo is the Hashed.At of a digest that was verified when its stat was no longer too recent.
const LongAgo = math.MaxInt64

// entry is the digest of a file in this run.
type entry struct {
	Hashed
	done int64 // ns since 1970: just after the last byte was read; 0 if that was in an earlier run
}

// slot is the state of one path in this run.
type slot struct {
	known atomic.Pointer[entry] // valid for the rest of this run
	mu    sync.Mutex            // held while reading the file
	last  *entry                // latest digest of the path, perhaps outdated; nil if never hashed
}

// NewFiles returns a Files that knows nothing yet. Relative paths given to the methods are relative
// to root. base returns the digest that earlier runs recorded for a path; it may be nil. Files
// calls it at the first query of a path in this run, with the path as Canonical returns it.
func NewFiles(root string, base func(path string) (Hashed, bool)) *Files {
	return &Files{root: filepath.Clean(root), base: base, now: time.Now}
}

// Digest returns the digest of a regular file. The error for a path that does not exist is
// fs.ErrNotExist. Errors are not remembered.
func (f *Files) Digest(path string) (Digest, error) {
	name := f.canonical(path)
	s := f.slot(name)
	if e := s.known.Load(); e != nil {
		return e.Digest, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known.Load(); e != nil { // set by the previous holder of the lock
		return e.Digest, nil
	}
	e, err := f.look(name, s)
	if err != nil {
		return Digest{}, err
	}
	return e.Digest, nil
}

// Unchanged checks the file again. It reports whether the file has digest d and was not modified at
// or after since. With a zero since only the digest counts.
//
// A file last modified at least FileTick before since passes. A more recent time that still
// precedes since is not enough: a write may have set the time already and the bytes later. Such a
// file passes only if it was also read before since, with the same stat and content.
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

// keepsClock reports whether the file is stamped with fileClock. It checks each device once.
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
	s.mu.Lock() // a concurrent look must not store the state from before the change
	defer s.mu.Unlock()
	s.known.Store(nil)
}

// look updates the slot, by stat if that is enough and otherwise by content. The caller holds s.mu.
func (f *Files) look(name string, s *slot) (*entry, error) {
	s.known.Store(nil)
	last := s.last
	if last == nil && f.base != nil {
		if h, ok := f.base(name); ok {
			last = &entry{Hashed: h}
		}
	}
	if last != nil {
		now, err := statFile(f.abs(name))
		if err != nil {
			return nil, err
		}
		if now == last.Stat && f.before(last, last.At) {
			return s.settle(last), nil
		}
	}
	e, err := f.hash(f.abs(name))
	if err != nil {
		return nil, err
	}
	if last != nil && last.At < e.At && last.Stat == e.Stat && last.Digest == e.Digest && !f.before(e, e.At) {
		e.At = last.At // first read then, and unchanged since
	}
	return s.settle(e), nil
}

func (s *slot) settle(e *entry) *entry {
	s.last = e
	s.known.Store(e)
	return e
}

// hashTries bounds how often a file that is being written is read.
const hashTries = 3

// hash reads the file until its stat is the same before and after.
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
	d, before, err := digestFile(name)
	if err != nil {
		return nil, err
	}
	after, err := statFile(name)
	if err != nil {
		return nil, err
	}
	if before != after {
		return nil, fmt.Errorf("hashing %s: %w", name, errMoved)
	}
	return &entry{Hashed{before, d, hashed}, time.Now().UnixNano()}, nil
}

const (
	fineTick   = int64(FileTick)
	coarseTick = int64(2 * time.Second) // of FAT
)

// tick returns how long successive writes to files may get equal times on this file system. A ctime
// without any digit below 10 ms indicates a file system that keeps no more. Once in ten million
// files it is chance, which costs one hashing.
func (s *Stat) tick() int64 {
	if s.Ctime%int64(10*time.Millisecond) == 0 {
		return coarseTick
	}
	return fineTick
}

// before reports whether the file was last modified at least one tick before t.
func (s *Stat) before(t int64) bool { return s.modified()+s.tick() < t }

func (s *Stat) modified() int64 { return max(s.Mtime, s.Ctime) }

// before is Stat.before, but ignores a modification time in the future. A tool has set such a time,
// and setting it updated the ctime.
func (f *Files) before(e *entry, t int64) bool {
	st := e.Stat
	if st.Mtime > f.now().UnixNano()+coarseTick {
		st.Mtime = st.Ctime
	}
	return st.before(t)
}

// seenBefore reports whether the file had this stat and content long before t. A later change would
// have given it other times. This is true for any clock, even one that was set back since, or that
// of a file server.
func (e *entry) seenBefore(t int64) bool { return e.At != 0 && e.At < t-coarseTick }

// Before reports whether the file was last modified at least one tick of its clock before t. A
// process that read the file after t has then read its current content.
func (s *Stat) Before(t time.Time) bool { return s.before(t.UnixNano()) }

// StatFile returns the Stat of the file that path leads to.
func StatFile(path string) (Stat, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stat{}, err
	}
	return stampOf(info), nil
}

// Seen visits the files that were queried in this run, in no particular order. h is nil if the file
// must be read again or could not be read.
func (f *Files) Seen(visit func(path string, h *Hashed)) {
	f.slots.Each(func(name string, s *slot) {
		var h *Hashed
		if e := s.known.Load(); e != nil {
			h = &e.Hashed
		}
		visit(name, h)
	})
}

// slot returns the state of a canonical path, and creates it if necessary.
func (f *Files) slot(name string) *slot {
	if s, ok := f.slots.Load(name); ok {
		return s
	}
	return f.slots.LoadOrStore(name, &slot{})
}

func (f *Files) canonical(path string) string { return Canonical(f.root, path) }

// Canonical returns a path under root relative to root, so that most spellings of a file are equal.
// It keeps ".." elements: after a symbolic link they lead to another folder than the text suggests.
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

// Exists reports whether a path leads to a file or folder.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Absolute is the reverse of Canonical.
func Absolute(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return root + "/" + path // not Join, which would shorten "link/.."
}

// stampOf returns the Stat of a file that package os has looked at.
func stampOf(info fs.FileInfo) Stat {
	st := info.Sys().(*syscall.Stat_t)
	return Stat{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mode: st.Mode, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

// bufferSize is the size above which reads no longer speed up SHA-256 of a cached file.
const bufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// DigestReader hashes all of r and returns the digest and the number of bytes.
func DigestReader(r io.Reader) (Digest, int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	// Hide all methods but Read and Write from CopyBuffer: an *os.File would use its own buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{r}, *buf)
	return Digest(h.Sum(nil)), n, err
}

// DigestFile hashes a regular file and follows links. The error for a missing file is
// fs.ErrNotExist; the error for a folder or a device is not.
func DigestFile(name string) (Digest, error) {
	d, _, err := digestFile(name)
	return d, err
}

// digestFile also returns the stat of the opened file, taken before the first byte was read.
func digestFile(name string) (Digest, Stat, error) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return Digest{}, Stat{}, notExist(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Digest{}, Stat{}, err
	}
	d, n, err := DigestReader(f)
	if err != nil {
		return Digest{}, Stat{}, fmt.Errorf("hashing %s: %w", name, err)
	}
	if n != info.Size() {
		return Digest{}, Stat{}, fmt.Errorf("hashing %s: %w", name, errMoved)
	}
	return d, stampOf(info), nil
}

// errMoved reports that a file was written while it was being hashed.
var errMoved = errors.New("the file changed while it was being read")

// statFile is StatFile restricted to files that can be hashed.
func statFile(name string) (Stat, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return Stat{}, notExist(name, err)
	case info.IsDir():
		return Stat{}, &fs.PathError{Op: "hash", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return Stat{}, &fs.PathError{Op: "hash", Path: name, Err: errors.New("is no regular file")}
	}
	return stampOf(info), nil
}

// notExist treats "a/b where a is a file" as a missing file: for the caller, a/b is absent.
func notExist(name string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return err
}
