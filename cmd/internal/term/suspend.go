package term

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// heedSuspension clears the live lines when the user suspends kbuild (Ctrl-Z). The shell then
// writes to the terminal, and kbuild must not overwrite that text when it continues.
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
					p.mu.Lock()
					p.hide()
					unix.Kill(unix.Getpid(), unix.SIGSTOP)
					p.mu.Unlock()
				}
			}
		}
	}()
}

// hide clears the live lines. They are drawn again below the newer text. p.mu must be locked.
func (p *Progress) hide() { p.live.draw(nil, nil, p.columns()) }

// orphaned reports whether no shell could resume kbuild. That is so if the nearest ancestor in
// another process group belongs to another session, or if there is none. The kernel does not stop
// such processes on SIGTSTP, but Go cannot restore the default action of that signal.
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

// parentOf returns the parent of a process. 0 means unknown.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %s %d", new(string), &parent) // the name may contain anything
	return parent
}
