package term

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// heedSuspension clears the live lines when the user suspends kbuild (Ctrl-Z): the shell writes
// there, and what it wrote must not be overwritten when kbuild goes on.
func (p *Progress) heedSuspension(quit <-chan struct{}) {
	suspended := make(chan os.Signal, 1)
	signal.Notify(suspended, unix.SIGTSTP)
	go func() {
		defer signal.Stop(suspended)
		for {
			select {
			case <-quit:
				return
			case <-suspended:
				if !orphaned() {
					p.suspend(func() { unix.Kill(unix.Getpid(), unix.SIGSTOP) })
				}
			}
		}
	}()
}

// suspend clears the live lines and stops; they are drawn below what came meanwhile.
func (p *Progress) suspend(stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.draw(nil, nil, p.columns())
	stop()
}

// orphaned reports that no shell would have kbuild go on: the nearest ancestor in another process
// group is of another session, or there is none. The kernel spares such processes SIGTSTP, and Go
// cannot give that signal its default meaning back.
func orphaned() bool {
	group, err := unix.Getpgid(0)
	session, err2 := unix.Getsid(0)
	if err != nil || err2 != nil {
		return true
	}
	for pid := unix.Getppid(); pid > 0; pid = parentOf(pid) {
		if g, err := unix.Getpgid(pid); err != nil {
			return true
		} else if g != group {
			s, err := unix.Getsid(pid)
			return err != nil || s != session
		}
	}
	return true
}

// parentOf is the parent of a process; 0 if it is not known.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %s %d", new(string), &parent) // the name before it may hold anything
	return parent
}
