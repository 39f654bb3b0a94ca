package broker

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("BROKER_TEST_DIR"); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

const (
	sharedProcessors = 4
	sharedMemory     = 10
)

// child takes leases and gives them back, some in parallel, and writes a byte for each.
func child(dir string) int {
	rounds, _ := strconv.Atoi(os.Getenv("BROKER_TEST_ROUNDS"))
	status := 0
	c := New(dir, Limits{sharedProcessors, sharedMemory}, func(text string) {
		fmt.Fprintln(os.Stderr, text)
		status = 1
	})
	c.ancestors = func() []uint32 { return nil }
	if rounds == 0 { // one that says when it waits
		c.blocks = func() { os.Stdout.Write([]byte{'-'}) }
		c.Acquire(context.Background(), Request{Memory: sharedMemory, Label: "child"})
		os.Stdout.Write([]byte{'+'})
		return status
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range rounds {
				l, err := c.Acquire(context.Background(), Request{Memory: rand.Int64N(sharedMemory + 2), Label: "child"})
				if err != nil {
					status = 1
				}
				os.Stdout.Write([]byte{'.'})
				l.Release()
			}
		})
	}
	wg.Wait()
	return status
}

func startChild(t *testing.T, dir string, rounds int) (*exec.Cmd, *bufio.Reader) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "BROKER_TEST_DIR="+dir, fmt.Sprint("BROKER_TEST_ROUNDS=", rounds))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	return cmd, bufio.NewReader(out)
}

// Two hundred processes are killed while they take leases, wait and give them back. Others beside
// them, which are not killed, end, so nobody who waits is forgotten; and then everything is there.
func TestKilled(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 40
	}
	dir := filepath.Join(t.TempDir(), "broker")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			cmd, out := startChild(t, dir, 100)
			if cmd == nil {
				return
			}
			out.WriteTo(discard{})
			if err := cmd.Wait(); err != nil {
				t.Errorf("one that was not killed: %v", err)
			}
		})
	}
	at := make(chan struct{}, 16)
	for i := range kills {
		at <- struct{}{}
		wg.Go(func() {
			defer func() { <-at }()
			cmd, out := startChild(t, dir, 1<<30)
			if cmd == nil {
				return
			}
			for range i % 13 {
				out.ReadByte()
			}
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	wg.Wait()
	wantSeen(t, dir)
	u := newUser(t, dir, sharedProcessors, sharedMemory)
	for range sharedProcessors - 1 {
		u.has(1, "one")
	}
	u.has(sharedMemory-(sharedProcessors-1), "rest")
	u.hasNot(0, "none")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Nobody waits for one that was stopped while it waited. When it goes on it is the next.
func TestStopped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	u := newUser(t, dir, sharedProcessors, sharedMemory)
	five := u.has(5, "five")
	cmd, out := startChild(t, dir, 0)
	defer cmd.Process.Kill()
	out.ReadByte()
	u.hasNot(5, "five more")
	cmd.Process.Signal(unix.SIGSTOP)
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(err, status)
	}
	more := u.has(5, "five more")
	cmd.Process.Signal(unix.SIGCONT)
	out.ReadByte() // it has been told of the lease that it did not see, and has looked
	five.Release()
	more.Release()
	for b := byte('-'); b == '-'; {
		b, _ = out.ReadByte()
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
