package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	writeFile(t, name, strings.Repeat("left by a longer holder ", 20))
	l, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = AcquireLock(context.Background(), name, nil)
	host, _ := os.Hostname()
	want := fmt.Sprintf("another kbuild works in this build tree (process %d on %s, since 2", os.Getpid(), host)
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "); wait for it, or use another --build-dir") || strings.Contains(err.Error(), "longer holder") {
		t.Errorf("error %v, want %s...", err, want)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if l, err = AcquireLock(context.Background(), name, nil); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	l.Release()
}

// Who looks keeps out who builds, and the other way round; who builds waits for those who look.
func TestLookLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	if _, ok := LookLock(name); ok {
		t.Error("a lock where nobody has built")
	}
	builder, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := LookLock(name); ok {
		t.Error("looked while another builds")
	}
	builder.Release()
	var others sync.WaitGroup
	looks := make(chan struct{}, 30) // bounded, so that not always one of them has the lock
	for range 3 {
		others.Go(func() {
			for range looks {
				if l, ok := LookLock(name); ok {
					l.Release()
				}
			}
		})
	}
	for range 200 {
		for len(looks) < cap(looks) {
			looks <- struct{}{}
		}
		l, err := AcquireLock(context.Background(), name, nil)
		if err != nil {
			t.Error(err)
			break
		}
		l.Release()
	}
	close(looks)
	others.Wait()
}

// Who waits is told once for whom, and has the lock when it is given back.
func TestLockWait(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := AcquireLock(context.Background(), name, nil)
	if err != nil || first.Was() != "" {
		t.Fatal(err, first.Was())
	}
	waits := 0
	second, err := AcquireLock(context.Background(), name, func(b *Busy) {
		waits++
		if want := fmt.Sprintf("process %d on ", os.Getpid()); !strings.HasPrefix(b.holder, want) {
			t.Errorf("held by %q, want %s...", b.holder, want)
		}
		first.Release()
	})
	if err != nil || waits != 1 {
		t.Fatalf("error %v, waited %d times", err, waits)
	}
	defer second.Release()
	if !strings.Contains(second.Was(), fmt.Sprintf("process %d on ", os.Getpid())) {
		t.Errorf("the lock was %q", second.Was())
	}
}

// Waiting ends with its context, and what was waited for does not come later.
func TestLockWaitEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if _, err := AcquireLock(ctx, name, func(*Busy) { stop() }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	first.Release()
	third, err := AcquireLock(context.Background(), name, func(*Busy) {}) // the thread of the second may have it for a moment
	if err != nil {
		t.Fatal(err)
	}
	third.Release()
}

// Who removes the tree removes the lock file with it: the one who waited for it has a lock in the
// new file, or there would be two holders.
func TestLockOfRemovedTree(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := AcquireLock(context.Background(), name, func(*Busy) {
		os.Remove(name)
		first.Release()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	var busy *Busy
	if _, err := AcquireLock(context.Background(), name, nil); !errors.As(err, &busy) {
		t.Errorf("a second holder: %v", err)
	}
}

func TestLockOfUnknownHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	l, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	writeFile(t, name, "")
	if _, err = AcquireLock(context.Background(), name, nil); err == nil || !strings.HasPrefix(err.Error(), "another kbuild works in this build tree;") {
		t.Errorf("error %v", err)
	}
}

func TestLockInMissingFolder(t *testing.T) {
	if _, err := AcquireLock(context.Background(), filepath.Join(t.TempDir(), "no", "lock"), nil); err == nil || !strings.HasPrefix(err.Error(), "locking the build tree: ") {
		t.Errorf("error %v", err)
	}
}

// The kernel releases the lock of a killed process. The child is this test, told by the environment
// to hold the lock until it is killed.
func TestLockOfKilledProcess(t *testing.T) {
	if name := os.Getenv("RUN_TEST_HOLD_LOCK"); name != "" {
		_, err := AcquireLock(context.Background(), name, nil)
		fmt.Println("held:", err)
		io.Copy(io.Discard, os.Stdin) // never ends
	}
	name := filepath.Join(t.TempDir(), "lock")
	child := exec.Command(os.Args[0], "-test.run=^TestLockOfKilledProcess$")
	child.Env = append(os.Environ(), "RUN_TEST_HOLD_LOCK="+name)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_, err = AcquireLock(context.Background(), name, nil)
	if line != "held: <nil>\n" || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d on ", child.Process.Pid)) {
		t.Errorf("child says %q, error %v; want its id in it", line, err)
	}
	child.Process.Kill()
	child.Wait()
	l, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	l.Release()
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A file is locked for a moment, or it is not: nobody waits.
func TestTryLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if _, ok := TryLock(name, syscall.LOCK_EX); ok {
		t.Error("a file that is not there is locked")
	}
	if err := os.WriteFile(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	first, ok := TryLock(name, syscall.LOCK_EX)
	if !ok {
		t.Fatal("nobody has the lock")
	}
	if _, ok := TryLock(name, syscall.LOCK_EX); ok {
		t.Error("two have the lock")
	}
	first.Release()
	if _, ok := TryLock(name, syscall.LOCK_EX); !ok {
		t.Error("nobody has the lock any more")
	}
}

// One that looks and is stopped meanwhile keeps nobody waiting without a word.
func TestLockOfALookerThatIsStopped(t *testing.T) {
	defer func(n int) { patience = n }(patience)
	patience = 2
	name := filepath.Join(t.TempDir(), "lock")
	first, err := AcquireLock(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	stopped, ok := LookLock(name)
	if !ok {
		t.Fatal("nobody has the lock")
	}
	var busy *Busy
	if _, err := AcquireLock(context.Background(), name, nil); !errors.As(err, &busy) || busy.holder != "" {
		t.Errorf("it is not waited for, and the error is %v", err)
	}
	l, err := AcquireLock(context.Background(), name, func(*Busy) { stopped.Release() })
	if err != nil {
		t.Fatalf("when it goes on: %v", err)
	}
	l.Release()
}
