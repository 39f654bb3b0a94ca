package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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

const (
	chunk         = 256 // entries that a goroutine takes at once
	inline        = 512 // entries per worker; fewer are checked without another goroutine
	few           = 4   // entries of the same folder that must follow for opening it to pay off
	remoteWorkers = 32  // remote workers wait most of the time
)

// Changed returns the observations that stat does not prove unchanged, in no particular order. root
// is the base of relative paths.
func (t *Trace) Changed(root string) ([]int, error) {
	dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", root, err)
	}
	defer unix.Close(dir)
	n := len(t.base.entries)
	workers := min(runtime.GOMAXPROCS(0), (n+inline-1)/inline)
	remote := isRemote(dir)
	if remote {
		workers = remoteWorkers
	}
	var next atomic.Int64
	found := make([][]int, max(1, workers))
	look := func(w int) {
		for {
			to := int(next.Add(chunk))
			found[w] = t.base.scan(dir, to-chunk, min(to, n), remote, found[w])
			if to >= n {
				return
			}
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { look(w) })
	}
	look(0)
	wg.Wait()
	all := slices.DeleteFunc(slices.Concat(found...), func(i int) bool { return t.hidden[i] })
	if t.top != nil {
		for _, i := range t.top.scan(dir, 0, len(t.top.entries), remote, nil) {
			all = append(all, i+n)
		}
	}
	return all, nil
}

// scan checks the entries from..to-1. Walking a path costs the kernel more than the stat at its
// end. So scan opens a folder with several entries and looks its files up by name, which takes a
// quarter less time.
func (s *layer) scan(root, from, to int, remote bool, found []int) []int {
	dir, of := -1, uint32(0) // an open folder and its number
	for i := from; i < to; i++ {
		e := &s.entries[i]
		if dir >= 0 && e.dir != of {
			rawClose(dir)
			dir = -1
		}
		if dir < 0 && !remote && e.base > 1 && i+few < to && s.entries[i+few].dir == e.dir {
			dir, of = s.openDir(root, e), e.dir
		}
		same := false
		if dir >= 0 {
			same = e.unchanged(dir, &s.text[e.path+uint32(e.base)], remote)
		} else {
			same = e.unchanged(root, &s.text[e.path], remote)
		}
		if !same {
			found = append(found, i)
		}
	}
	if dir >= 0 {
		rawClose(dir)
	}
	return found
}

// unchanged checks one entry. It does not allocate: it runs for every file of the build.
func (e *entry) unchanged(dir int, path *byte, remote bool) bool {
	if e.flags&flagTooRecent != 0 {
		return false
	}
	var st unix.Stat_t
	errno := fstatat(dir, path, &st, remote)
	if e.kind == cache.KindAbsent {
		return errno == unix.ENOENT || errno == unix.ENOTDIR
	}
	return errno == 0 && st.Ino == e.ino && st.Size == e.size && st.Mode == e.mode && uint64(st.Dev) == e.dev &&
		st.Mtim.Nano() == e.mtime && st.Ctim.Nano() == e.ctime
}

// openDir opens the folder of an entry. It returns -1 on failure, for example if there is no
// folder.
func (s *layer) openDir(root int, e *entry) int {
	var buf [unix.PathMax]byte
	if int(e.base) > len(buf) {
		return -1
	}
	copy(buf[:], s.text[e.path:e.path+uint32(e.base)-1]) // less the slash, plus the zero
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(root), uintptr(unsafe.Pointer(&buf[0])), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return -1
	}
	return int(fd)
}

func rawClose(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// fstatat uses a raw system call, which bypasses the Go scheduler, unless the answer may take long.
// On a file system in memory the scheduler would cost a third of the time.
func fstatat(dir int, path *byte, st *unix.Stat_t, remote bool) (errno unix.Errno) {
	for {
		if remote {
			_, _, errno = unix.Syscall6(sysFstatat, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(st)), 0, 0, 0)
		} else {
			_, _, errno = unix.RawSyscall6(sysFstatat, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(st)), 0, 0, 0)
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// isRemote reports whether another machine or another process serves the file system.
func isRemote(dir int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(dir, &fs) != nil {
		return true
	}
	switch fs.Type {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		return true
	}
	return false
}
