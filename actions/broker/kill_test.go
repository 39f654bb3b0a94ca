package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("BROKER_TEST_FILE"); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

const (
	sharedProcessors = 4
	sharedMemory     = 10
)

// child takes leases and releases them, some in parallel, and writes a byte for each. With 0
// rounds it takes one and passes it on to a program that ends with its standard input.
func child(path string) int {
	rounds, _ := strconv.Atoi(os.Getenv("BROKER_TEST_ROUNDS"))
	var n notes
	c := New(path, Limits{sharedProcessors, sharedMemory}, &n)
	if rounds == 0 {
		l, _ := c.Acquire(context.Background(), Request{Memory: sharedMemory, Label: "child"})
		l.Inherit()
		unix.Exec("/bin/sh", []string{"sh", "-c", "echo $KBUILD_BROKER; read x; :"}, os.Environ())
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range rounds {
				l, _ := c.Acquire(context.Background(), Request{Memory: rand.Int64N(sharedMemory + 2), Label: "child"})
				os.Stdout.Write([]byte{'.'})
				l.Release()
			}
		})
	}
	wg.Wait()
	fmt.Fprint(os.Stderr, strings.Join(n.unshared, "\n"))
	return len(n.unshared)
}

// process is a running child.
type process struct {
	*exec.Cmd
	out *bufio.Reader
	in  io.Closer
}

func startChild(t *testing.T, path string, rounds int) *process {
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^$")}
	p.Env = append(os.Environ(), "BROKER_TEST_FILE="+path, fmt.Sprint("BROKER_TEST_ROUNDS=", rounds))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err == nil {
		p.in, err = p.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	p.out = bufio.NewReader(out)
	return p
}

// Two hundred processes are killed while they take leases, wait and give them back. Others beside
// them, which are not killed, end, so nobody who waits is forgotten; and then everything is there.
func TestKilled(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 40
	}
	path := filepath.Join(t.TempDir(), "leases")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			p := startChild(t, path, 100)
			if p == nil {
				return
			}
			p.out.WriteTo(io.Discard)
			if err := p.Wait(); err != nil {
				t.Errorf("one that was not killed: %v", err)
			}
		})
	}
	at := make(chan struct{}, 16)
	for i := range kills {
		at <- struct{}{}
		wg.Go(func() {
			defer func() { <-at }()
			p := startChild(t, path, 1<<30)
			if p == nil {
				return
			}
			for range i % 13 {
				p.out.ReadByte()
			}
			p.Process.Kill()
			p.Wait()
		})
	}
	wg.Wait()
	wantSeen(t, path)
	u := newUser(t, path, sharedProcessors, sharedMemory)
	for range sharedProcessors - 1 {
		u.has(1, "one")
	}
	u.has(sharedMemory-(sharedProcessors-1), "rest")
	u.hasNot(0, "none")
}

// Nobody waits for a process that was stopped while it waited. When it goes on it is the next.
func TestStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	u := newUser(t, path, sharedProcessors, sharedMemory)
	five := u.has(5, "five")
	p := startChild(t, path, 0)
	wantSoon(t, path, "five", "child waits for memory")
	more := u.asks(t.Context(), 5, "five more")
	u.hasNot(4, "four")
	p.Process.Signal(unix.SIGSTOP)
	var status unix.WaitStatus
	if _, err := unix.Wait4(p.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(err, status)
	}
	fiveMore := <-more
	p.Process.Signal(unix.SIGCONT)
	five.Release()
	fiveMore.Release()
	p.out.ReadString('\n')
	wantSeen(t, path, "child")
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// A lease that a program inherits ends with it, and kbuild in it needs none. Those who wait learn
// of the end, however it comes.
func TestInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	u := newUser(t, path, sharedProcessors, sharedMemory)
	for _, killed := range []bool{false, true} {
		p := startChild(t, path, 0)
		if inside, _ := p.out.ReadString('\n'); inside != "0\n" {
			t.Errorf("KBUILD_BROKER is %q", inside)
		}
		one := u.asks(t.Context(), 1, "one")
		wantSeen(t, path, "child", "one waits for memory")
		if killed {
			p.Process.Kill()
		}
		p.in.Close()
		soon(t, one).Release()
		p.Wait()
	}
}

func wantSoon(t *testing.T, path string, want ...string) {
	t.Helper()
	for range 1000 {
		if slices.Equal(seen(t, path), want) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	wantSeen(t, path, want...)
}
