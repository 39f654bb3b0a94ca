package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A compile needs a folder of its own, and the names in it must be the same for each: compilers
// write names of files that they are given into what they make, and keys hold them. So the folder
// has a name of chance in a folder of the user's, and everybody calls it by the number of a
// descriptor, which commands inherit.

// placeFD is the descriptor. Where fewer are allowed the compiler runs as it is.
const placeFD = 99

// placeDir is the folder for this process and for all that it starts.
const placeDir = "/proc/self/fd/99"

// place is the folder of one compile. It is this process's TMPDIR, so that nothing stays of
// compilers which are asked something and are killed.
type place struct {
	dir  string
	lock *os.File
	temp *string // TMPDIR as it was; nil is none
}

// newPlace makes a folder, and removes those that processes have left behind which were killed: the
// kernel takes their locks.
func newPlace() (*place, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("kbuild-cc-%d", os.Getuid()))
	for range 100 { // somebody who sweeps may be faster than the lock, and the last one out takes the folder of all with him
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

// takePlace makes a folder and locks it; nil if it, or the one that it is to be in, was taken away
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

// sweep removes folders whose owners are gone. One that was just made and has no lock yet is left
// alone for as long as it is empty.
func sweep(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		f, err := os.Open(dir)
		if err != nil || !strings.HasPrefix(e.Name(), "c-") {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err := os.Remove(dir); err != nil { // it is not empty: nobody fills it without a lock
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
	unix.Rmdir(filepath.Dir(p.dir)) // unless there is another in it
}
