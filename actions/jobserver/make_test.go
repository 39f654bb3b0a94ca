package jobserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestMain makes the test binary a client that a Makefile runs, if the environment says so.
func TestMain(m *testing.M) {
	if dir := os.Getenv("JOBSERVER_TEST_DIR"); dir != "" {
		if err := work(dir, os.Args[1:]); err != nil {
			fmt.Println("worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work runs jobs as a build tool does: one on the free slot, the others with tokens. In a run with
// one client the first jobs wait until as many run as -j allows, which shows that the tokens are
// usable, and all jobs of the client ask before any ends, which would show one too many.
func work(dir string, args []string) error {
	jobs, err1 := strconv.Atoi(args[0])
	together, err2 := strconv.Atoi(args[1])
	if err1 != nil || err2 != nil {
		return fmt.Errorf("arguments %q", args)
	}
	c, err := FromEnviron(os.Getenv("MAKEFLAGS"))
	if err != nil || c == nil {
		return fmt.Errorf("%v, client %v", err, c != nil)
	}
	defer c.Close()
	free := make(chan struct{}, 1)
	free <- struct{}{}
	var wg sync.WaitGroup
	var asking, started atomic.Int32
	met := make(chan struct{})
	for range jobs {
		wg.Go(func() {
			asking.Add(1)
			release := slot(c, free)
			defer release()
			count(dir, +1)
			defer count(dir, -1)
			n := int(started.Add(1))
			if n == together {
				close(met)
			}
			for n <= together && int(asking.Load()) < jobs {
				runtime.Gosched()
			}
			<-met
			for range 20 {
				count(dir, 0)
			}
		})
	}
	wg.Wait()
	return nil
}

// slot waits for the free slot or for a token, whichever comes first.
func slot(c *Client, free chan struct{}) (release func()) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	token := make(chan byte, 1)
	go func() {
		defer close(token)
		if b, err := c.Acquire(ctx); err == nil {
			token <- b
		}
	}()
	select {
	case <-free:
		stop()
		if b, ok := <-token; ok {
			c.Release(b)
		}
		return func() { free <- struct{}{} }
	case b := <-token:
		return func() { c.Release(b) }
	}
}

// count adds to the number of running jobs in the file "count", under a lock, and keeps its peak
// and the number of all jobs there.
func count(dir string, add int) {
	f, err := os.OpenFile(filepath.Join(dir, "count"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
	var running, peak, total int
	fmt.Fscan(f, &running, &peak, &total)
	running += add
	total += max(0, add)
	f.WriteAt(fmt.Appendf(nil, "%5d %5d %5d\n", running, max(peak, running), total), 0)
}

// runMake runs a Makefile whose recipes run this binary as $(WORKER), and gives what make said and
// the counts.
func runMake(t *testing.T, makefile string) (out string, peak, total int) {
	t.Helper()
	tool, err := exec.LookPath("make")
	if err != nil {
		if os.Getenv("KBUILD_REQUIRE_TOOLS") != "" {
			t.Fatal("KBUILD_REQUIRE_TOOLS is set, and there is no make in PATH")
		}
		t.Skip("there is no make in PATH")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o666); err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "-j3", "WORKER="+self)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "JOBSERVER_TEST_DIR="+dir, "MAKEFLAGS=", "MAKELEVEL=", "MFLAGS=")
	text, _ := cmd.CombinedOutput()
	b, _ := os.ReadFile(filepath.Join(dir, "count"))
	var running int
	fmt.Sscan(string(b), &running, &peak, &total)
	if running != 0 {
		t.Errorf("%d jobs are still counted", running)
	}
	return string(text), peak, total
}

func TestUnderMake(t *testing.T) {
	out, peak, total := runMake(t, "all:\n\t+@$(WORKER) 8 3\n")
	if out != "" || peak != 3 || total != 8 {
		t.Errorf("%d jobs, %d at once, want 8 and 3; make says %q", total, peak, out)
	}
}

func TestThreeClientsUnderMake(t *testing.T) {
	out, peak, total := runMake(t, "all: a b c\na b c:\n\t+@$(WORKER) 6 1\n")
	// Make itself says INTERNAL: Exiting with ... tokens, if one is missing at the end.
	if out != "" || peak > 3 || peak < 1 || total != 18 {
		t.Errorf("%d jobs, %d at once, want 18 and at most 3; make says %q", total, peak, out)
	}
}

func TestRecipeWithoutPlus(t *testing.T) {
	out, _, total := runMake(t, "all:\n\t@$(WORKER) 1 1\n")
	if !strings.Contains(out, "worker:") {
		// make 4.4 names a fifo, which is open to everybody
		if total != 1 {
			t.Errorf("%d jobs, make says %q", total, out)
		}
		return
	}
	if !strings.Contains(out, errClosed.Error()) || total != 0 {
		t.Errorf("%d jobs, make says %q, want %q", total, out, errClosed)
	}
}
