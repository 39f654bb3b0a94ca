package run

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Lock is the right to change a build tree. The kernel releases it when the process ends, however it
// ends; commands do not inherit it.
type Lock struct{ f *os.File }

// AcquireLock takes the lock in the named file, which it creates, or says who holds it. The file
// stays when the lock is released: removing it would let two processes lock two files of one name.
func AcquireLock(name string) (*Lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("locking the build tree: %w", err)
	}
	if err := exclusive(f); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another kbuild works in this build tree%s; wait for it, or use another --build-dir", holder(name))
		}
		return nil, fmt.Errorf("locking the build tree: %s: %w; if its file system has no locks, use another --build-dir", name, err)
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().Format(time.DateTime))
	// The words are for people only. They are written before the rest of longer ones is cut off, so
	// that whoever reads meanwhile does not find nothing.
	f.WriteAt([]byte(text), 0)
	f.Truncate(int64(len(text)))
	return &Lock{f}, nil
}

// LookLock keeps others from changing a build tree for a moment, while its files are looked at; ok is false if somebody changes it now,
// or nobody ever has.
func LookLock(name string) (l *Lock, ok bool) {
	f, err := os.Open(name)
	if err != nil {
		return nil, false
	}
	if err := flock(f, syscall.LOCK_SH); err != nil {
		f.Close()
		return nil, false
	}
	return &Lock{f}, true
}

// exclusive waits for those who look. Where one more of them would be let in, nobody holds the lock to build.
func exclusive(f *os.File) error {
	for {
		err := flock(f, syscall.LOCK_EX)
		if !errors.Is(err, syscall.EWOULDBLOCK) || flock(f, syscall.LOCK_SH) != nil {
			return err
		}
		flock(f, syscall.LOCK_UN) // two who wait must not wait for each other
		time.Sleep(time.Millisecond)
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != syscall.EINTR {
			return err
		}
	}
}

// holder is who took the lock, in parentheses; nothing if that is not known.
func holder(name string) string {
	text, _ := os.ReadFile(name)
	first, _, _ := strings.Cut(string(text), "\n")
	if first == "" {
		return ""
	}
	return " (" + first + ")"
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.f.Close() }
