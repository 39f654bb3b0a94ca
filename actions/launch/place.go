package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A compile needs a folder of its own, and the names in it must be the same for each: compilers
// write the names of their files into outputs, and keys hold them. So the folder has a random name
// in TMPDIR. All processes refer to it by the number of a descriptor, which commands inherit.

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
// released their locks. It may also remove a folder that another process has just created and not
// locked yet, so that process creates another one.
func newPlace() (*place, error) {
	prefix := fmt.Sprintf("kbuild-cc-%d-", os.Getuid())
	entries, _ := os.ReadDir(os.TempDir())
	for _, e := range entries {
		dir := filepath.Join(os.TempDir(), e.Name())
		number, mine := strings.CutPrefix(e.Name(), prefix)
		if !mine || strings.Trim(number, "0123456789") != "" || !e.IsDir() {
			continue
		}
		if lock, err := lockFolder(dir, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
	p := &place{}
	if temp, ok := os.LookupEnv("TMPDIR"); ok {
		p.temp = &temp
	}
	for {
		var err error
		if p.dir, err = os.MkdirTemp("", prefix); err != nil {
			return nil, err
		}
		p.lock, err = lockFolder(p.dir, unix.LOCK_EX)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = unix.Dup3(int(p.lock.Fd()), placeFD, 0)
		}
		if err != nil {
			p.remove()
			return nil, fmt.Errorf("making a temporary folder: %w", err)
		}
		os.Setenv("TMPDIR", p.dir)
		return p, nil
	}
}

// lockFolder locks a folder of this user's. The error is fs.ErrNotExist if it was removed before.
func lockFolder(dir string, how int) (*os.File, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Flock(int(lock.Fd()), how)
	if err == nil {
		err = unix.Fstat(int(lock.Fd()), &st)
	}
	switch {
	case err != nil:
	case st.Nlink == 0:
		err = fs.ErrNotExist
	case int(st.Uid) != os.Getuid():
		err = fs.ErrPermission
	default:
		return lock, nil
	}
	lock.Close()
	return nil, err
}

func (p *place) remove() {
	os.Unsetenv("TMPDIR")
	if p.temp != nil {
		os.Setenv("TMPDIR", *p.temp)
	}
	os.RemoveAll(p.dir)
	unix.Close(placeFD)
	p.lock.Close() // it may be nil
}
