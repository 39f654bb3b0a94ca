package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Lock is the right to change a build tree. The kernel releases it when the process ends, in
// whatever way. Commands do not inherit it.
type Lock struct {
	f   *os.File
	was string
}

// Busy is the error if another process has the lock of a build tree.
type Busy struct {
	holder string // "process 12 on host, since ..."; "" if that is not known
}

func (b *Busy) Error() string {
	return "another kbuild works in this build tree" + b.Parenthesis() + "; wait for it, or use another --build-dir"
}

// Parenthesis returns the holder of the lock, in parentheses behind a blank, or "" if it is not
// known.
func (b *Busy) Parenthesis() string {
	if b.holder == "" {
		return ""
	}
	return " (" + b.holder + ")"
}

// AcquireLock takes the lock in the named file, which it creates. If another process has it and
// wait is nil, the error is a *Busy. If wait is not nil, it is called once, and AcquireLock waits
// for the lock until ctx is done. The file of a lock that is released stays, or two processes could
// lock two files of one name. Only a process that removes the whole tree removes it.
func AcquireLock(ctx context.Context, name string, wait func(*Busy)) (*Lock, error) {
	for told := false; ; {
		f, err := regular.Open(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("locking the build tree: %w", err)
		}
		looked, err := exclusive(f)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			busy := &Busy{}
			if !looked { // or the sign would be that of the last builder
				text, _ := regular.Read(name)
				busy.holder, _, _ = strings.Cut(string(text), "\n")
			}
			if wait == nil {
				f.Close()
				return nil, busy
			}
			if !told {
				wait(busy)
				told = true
			}
			if err = blocked(ctx, f); errors.Is(err, context.Canceled) {
				return nil, err
			}
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("locking the build tree: %s: %w; if its file system has no "+
				"locks, use another --build-dir", name, err)
		}
		l := &Lock{f, lastHolder(f)}
		if !l.removed(name) {
			l.sign()
			return l, nil
		}
		l.Release() // the holder removed the tree while we waited
	}
}

// blocked waits for the lock of f. flock cannot be cancelled: if the lock is not wanted any more, f
// is closed as soon as it has the lock.
func blocked(ctx context.Context, f *os.File) error {
	done := make(chan error, 1)
	go func() { done <- flock(f, syscall.LOCK_EX) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			<-done
			f.Close()
		}()
		return context.Canceled
	}
}

// sign writes into the file who has the lock: words for people, which no program parses. It writes
// before it cuts off the rest of longer words, so that a concurrent reader does not find an empty
// file.
func (l *Lock) sign() {
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().Format(time.DateTime))
	l.f.WriteAt([]byte(text), 0)
	l.f.Truncate(int64(len(text)))
}

// lastHolder returns a text that identifies the last holder of a lock: its words, and when they
// were written. The text is "" if no process ever had the lock.
func lastHolder(f *os.File) string {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return ""
	}
	words := make([]byte, 256)
	n, _ := f.ReadAt(words, 0)
	return fmt.Sprintf("%d %s", info.ModTime().UnixNano(), words[:n])
}

// Was identifies the last process that had the lock to change the tree. If two results are equal,
// no process had the lock in between. It is "" if no process ever had it.
func (l *Lock) Was() string { return l.was }

// removed reports whether the name belongs to another file by now, or to none.
func (l *Lock) removed(name string) bool {
	mine, err := l.f.Stat()
	now, err2 := os.Stat(name)
	return err == nil && (err2 != nil || !os.SameFile(mine, now))
}

// LookLock keeps other processes from changing a build tree for a moment, while its files are read.
// ok is false if a process changes the tree now, or if none ever has.
func LookLock(name string) (l *Lock, ok bool) {
	l, ok = TryLock(name, syscall.LOCK_SH)
	switch {
	case !ok:
	case l.removed(name):
		l.Release()
		return nil, false
	default:
		l.was = lastHolder(l.f)
	}
	return l, ok
}

// TryLock locks an existing file, without a sign in it. how is as of flock. ok is false if another
// process has the lock.
func TryLock(name string, how int) (l *Lock, ok bool) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, false
	}
	if flock(f, how|syscall.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return &Lock{f: f}, true
}

// exclusive takes the lock, and waits for readers, but not for ever: a reader may have been
// stopped. looked reports that only readers have the lock, since one more reader could take it.
func exclusive(f *os.File) (looked bool, err error) {
	for range patience {
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || flock(f, syscall.LOCK_SH|syscall.LOCK_NB) != nil {
			return false, err
		}
		flock(f, syscall.LOCK_UN) // two waiting processes must not wait for each other
		time.Sleep(time.Millisecond)
	}
	return true, err
}

// patience is the number of tries, a millisecond apart; a variable for tests.
var patience = 2000

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// Release releases the lock.
func (l *Lock) Release() error { return l.f.Close() }
