package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A compile needs a folder of its own, and the names in it must be the same for each: compilers
// write the names of their files into outputs, and keys hold them. So the folder has a random name
// in a folder of the user's. All processes refer to it by the number of a descriptor, which
// commands inherit.

// placeFD is the descriptor. If fewer are allowed, the compiler runs as it is.
const placeFD = 99

// placeDir is the name of the folder for this process and its children.
const placeDir = "/proc/self/fd/99"

// place is the folder of one compile. It is this process's TMPDIR, so that killed queries to
// compilers leave nothing behind.
type place struct {
	dir  string
	lock *os.File
	temp *string // the earlier TMPDIR; nil if it was not set
}

// newPlace creates a folder. It removes the folders of processes that were killed: the kernel has
// released their locks.
func newPlace() (*place, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("kbuild-cc-%d", os.Getuid()))
	// another process may remove the new folder before it is locked, or remove base as the last one
	// in it
	for range 100 {
		if err := os.Mkdir(base, 0o700); err != nil && !os.IsExist(err) {
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Lstat(base, &st); err == unix.ENOENT {
			continue
		} else if err != nil || int(st.Uid) != os.Getuid() || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o077 != 0 {
			return nil, fmt.Errorf("%s is not this user's own folder", base)
		}
		sweep(base)
		if p, err := takePlace(base); p != nil || err != nil {
			return p, err
		}
	}
	return nil, fmt.Errorf("no temporary folder can be made in %s", base)
}

// takePlace creates a folder and locks it. It returns nil if the folder, or base, was removed
// before that.
func takePlace(base string) (*place, error) {
	dir, err := os.MkdirTemp(base, "c-")
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	p := &place{dir: dir, lock: lock}
	if temp, ok := os.LookupEnv("TMPDIR"); ok {
		p.temp = &temp
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = unix.Fstat(int(lock.Fd()), &st)
	}
	if err == nil && st.Nlink == 0 {
		lock.Close()
		return nil, nil
	}
	if err == nil {
		err = unix.Dup3(int(lock.Fd()), placeFD, 0)
	}
	if err != nil {
		p.remove()
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	os.Setenv("TMPDIR", dir)
	return p, nil
}

// sweep removes folders whose owners are gone. It may also remove a folder that was just created
// and has no lock yet; takePlace notices that.
func sweep(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		f, err := os.Open(dir)
		if err != nil || !strings.HasPrefix(e.Name(), "c-") {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			// it is not empty, and no process fills it without a lock
			if err := os.Remove(dir); err != nil {
				os.RemoveAll(dir)
			}
		}
		f.Close()
	}
}

func (p *place) remove() {
	os.Unsetenv("TMPDIR")
	if p.temp != nil {
		os.Setenv("TMPDIR", *p.temp)
	}
	os.RemoveAll(p.dir)
	unix.Close(placeFD)
	if p.lock != nil {
		p.lock.Close()
	}
	unix.Rmdir(filepath.Dir(p.dir)) // fails if there is another folder in it
}
