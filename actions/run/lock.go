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
// ends.
type Lock struct{ f *os.File }

// AcquireLock takes the lock in the named file, or says who holds it.
func AcquireLock(name string) (*Lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("locking the build tree: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			holder, _ := os.ReadFile(name)
			return nil, fmt.Errorf("another kbuild works in this build tree (%s); wait for it, or use another --build-dir", strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("locking the build tree: %w", err)
	}
	host, _ := os.Hostname()
	f.Truncate(0)
	fmt.Fprintf(f, "process %d on %s, since %s\n", os.Getpid(), host, time.Now().Format(time.DateTime))
	return &Lock{f}, nil
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.f.Close() }
