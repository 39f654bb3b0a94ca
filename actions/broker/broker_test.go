package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// user is a client, as another process would be.
type user struct {
	*Client
	t *testing.T
	notes
}

// notes records the reports of a client.
type notes struct {
	unshared []string
	idle     int
}

func (n *notes) Unshared(err error) { n.unshared = append(n.unshared, err.Error()) }
func (n *notes) Idle()              { n.idle++ }

func newUser(t *testing.T, path string, processors int, memory int64) *user {
	u := &user{t: t}
	u.Client = New(path, Limits{processors, memory}, &u.notes)
	t.Cleanup(func() {
		if len(u.unshared) > 0 {
			t.Errorf("unshared: %q", u.unshared)
		}
	})
	return u
}

// try takes a lease if there is one now.
func (u *user) try(memory int64, label string) *Lease {
	u.t.Helper()
	l, err := u.open(Request{Memory: memory, Label: label})
	if err == nil {
		_, err = l.try(u.t.Context())
	}
	if err != nil {
		u.t.Fatal(err)
	}
	if l.row.State != running {
		l.Release()
		return nil
	}
	u.t.Cleanup(l.Release)
	return l
}

// has takes a lease that there must be.
func (u *user) has(memory int64, label string) *Lease {
	u.t.Helper()
	l := u.try(memory, label)
	if l == nil {
		u.t.Fatalf("there is no lease for %s", label)
	}
	return l
}

// hasNot tries in vain to take a lease.
func (u *user) hasNot(memory int64, label string) {
	u.t.Helper()
	if u.try(memory, label) != nil {
		u.t.Fatalf("there is a lease for %s", label)
	}
}

// asks waits for a lease, and returns when the request waits.
func (u *user) asks(ctx context.Context, memory int64, label string) <-chan *Lease {
	u.t.Helper()
	got := make(chan *Lease, 1)
	go func() {
		l, _ := u.Acquire(ctx, Request{Memory: memory, Label: label})
		got <- l
	}()
	for !slices.ContainsFunc(seen(u.t, u.path), func(line string) bool { return strings.HasPrefix(line, label+" waits") }) {
		time.Sleep(time.Millisecond)
	}
	return got
}

// soon takes a lease that must come without a tick.
func soon(t *testing.T, got <-chan *Lease) *Lease {
	t.Helper()
	select {
	case l := <-got:
		if l == nil {
			t.Fatal("there is no lease")
		}
		t.Cleanup(l.Release)
		return l
	case <-time.After(tick / 2):
		t.Fatal("a request was not woken")
	}
	return nil
}

// seen lists what there is: what runs, and what waits for what.
func seen(t *testing.T, path string) (lines []string) {
	t.Helper()
	list, err := List(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		line := e.Label
		if !e.Held {
			line += " waits for " + strings.Replace(string(e.Waits), "turn", "its turn", 1)
		}
		lines = append(lines, line)
	}
	return lines
}

func wantSeen(t *testing.T, path string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, seen(t, path), cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProcessorsAreShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b := newUser(t, path, 3, 1000), newUser(t, path, 3, 1000)
	one, two := a.has(1, "one"), b.has(1, "two")
	a.has(1, "three")
	b.hasNot(1, "four")
	got := b.asks(t.Context(), 1, "four")
	wantSeen(t, path, "one", "two", "three", "four waits for processors")
	one.Release()
	four := soon(t, got)
	wantSeen(t, path, "two", "three", "four")
	one.Release() // which is nothing any more
	a.hasNot(1, "five")
	two.Release()
	four.Release()
	a.has(1, "five")
	b.has(1, "six")
	b.hasNot(1, "seven")
}

func TestMemoryIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b := newUser(t, path, 9, 10), newUser(t, path, 9, 10)
	six := a.has(6, "six")
	got := b.asks(t.Context(), 20, "all")
	a.hasNot(1, "one") // it could not run beside the one that waits
	a.has(0, "none")
	wantSeen(t, path, "six", "none", "all waits for memory")
	six.Release()
	soon(t, got).Release()
	a.has(10, "ten")
}

// Where a lease ends, the head gets what it waits for; those that may start beside it too, and only
// those.
func TestWhoWaitsIsServedInTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b, c := newUser(t, path, 9, 10), newUser(t, path, 9, 10), newUser(t, path, 9, 10)
	ten := a.has(10, "ten")
	five, six, four := b.asks(t.Context(), 5, "five"), c.asks(t.Context(), 6, "six"), b.asks(t.Context(), 4, "four")
	wantSeen(t, path, "ten", "five waits for memory", "six waits for memory", "four waits for memory")
	ten.Release()
	l5, l4 := soon(t, five), soon(t, four) // five first; four fits beside six, so it passes it
	wantSeen(t, path, "five", "four", "six waits for memory")
	l5.Release()
	soon(t, six).Release()
	l4.Release()
	wantSeen(t, path)
}

func TestCancelledRequestIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b := newUser(t, path, 9, 10), newUser(t, path, 9, 10)
	a.has(5, "five")
	ctx, cancel := context.WithCancel(t.Context())
	ten := b.asks(ctx, 10, "ten")
	two := a.asks(t.Context(), 2, "two") // does not fit beside ten
	cancel()
	if l := <-ten; l != nil {
		t.Error("a cancelled request has a lease")
	}
	soon(t, two)
	wantSeen(t, path, "five", "two")
	if _, err := b.Acquire(ctx, Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A request that passes the head is woken when the head still does not fit.
func TestSmallOnesPass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b, c := newUser(t, path, 2, 10), newUser(t, path, 2, 10), newUser(t, path, 2, 10)
	a.has(6, "six")
	zero := a.has(0, "zero")
	seven, three := b.asks(t.Context(), 7, "seven"), c.asks(t.Context(), 3, "three")
	wantSeen(t, path, "six", "zero", "seven waits for processors", "three waits for processors")
	zero.Release()
	soon(t, three)
	wantSeen(t, path, "six", "three", "seven waits for processors")
	select {
	case <-seven:
		t.Error("seven has a lease")
	default:
	}
}

// A long line moves one by one, in its order.
func TestLongLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	one := newUser(t, path, 1, 10).has(1, "one")
	var line []<-chan *Lease
	for i := range 16 {
		line = append(line, newUser(t, path, 1, 10).asks(t.Context(), 1, fmt.Sprint("number ", i, ",")))
	}
	one.Release()
	for _, next := range line {
		soon(t, next).Release()
	}
	wantSeen(t, path)
}

// A request in a long line that is cancelled holds up nobody.
func TestCancelledInLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	one := newUser(t, path, 1, 10).has(1, "one")
	var line []<-chan *Lease
	var cancel []context.CancelFunc
	for i := range 16 {
		ctx, stop := context.WithCancel(t.Context())
		cancel = append(cancel, stop)
		line = append(line, newUser(t, path, 1, 10).asks(ctx, 1, fmt.Sprint("number ", i, ",")))
	}
	for i := range line {
		if i%3 != 0 {
			cancel[i]()
			if <-line[i] != nil {
				t.Error("a cancelled request has a lease")
			}
		}
	}
	one.Release()
	for i := 0; i < len(line); i += 3 {
		soon(t, line[i]).Release()
	}
	wantSeen(t, path)
}

// A client is told once that it waits, if it has no lease.
func TestIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b := newUser(t, path, 2, 10), newUser(t, path, 2, 10)
	one, two := a.has(1, "one"), b.has(1, "two")
	three := b.asks(t.Context(), 1, "three")
	one.Release()
	two.Release()
	soon(t, three).Release()
	if b.notes.idle != 0 {
		t.Error("told although it has a lease")
	}
	a.has(1, "four")
	for range 2 {
		five := a.has(1, "five")
		six := b.asks(t.Context(), 1, "six")
		five.Release()
		soon(t, six).Release()
		if b.notes.idle != 1 {
			t.Errorf("told %d times, want once", b.notes.idle)
		}
	}
}

// What is available is measured before there are leases: a build that begins while another runs
// would count twice what the other takes.
func TestMeasuredMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	measured := func(memory, limit int64) *user {
		u := newUser(t, path, 9, 0)
		u.host = &host{memory: memory, memoryLimit: limit}
		return u
	}
	four := measured(10, 0).has(4, "four")
	late := measured(3, 0)
	three := []*Lease{late.has(3, "three"), late.has(3, "three more")}
	late.hasNot(1, "one")
	for _, l := range three {
		l.Release()
	}
	caged := measured(1, 1)
	one := caged.has(1, "one")
	caged.hasNot(1, "two")
	one.Release()
	four.Release()
	late.has(10, "it knows more than what it has measured").Release()
	measured(3, 0).has(3, "three")
	measured(3, 0).hasNot(1, "one")
}

// Rows of requests that have ended are used again.
func TestRowsAreUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	for range 5 {
		u := newUser(t, path, 4, 100)
		var leases []*Lease
		for range 4 {
			leases = append(leases, u.has(1, "x"))
		}
		u.hasNot(1, "too many")
		for _, l := range leases {
			l.Release()
		}
		for range 100 {
			u.has(1, "one by one").Release()
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 5*rowSize {
		t.Error(info.Size(), err)
	}
}

func TestManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	var mu sync.Mutex
	running, memory := 0, int64(0)
	add := func(n int, m int64) {
		mu.Lock()
		defer mu.Unlock()
		if running, memory = running+n, memory+m; running > 3 || memory > 10 {
			t.Errorf("%d run, with %d", running, memory)
		}
	}
	var wg sync.WaitGroup
	for i := range 20 {
		u := newUser(t, path, 3, 10)
		wg.Go(func() {
			for k := range 20 {
				m := int64((i*7 + k*3) % 11)
				l, err := u.Acquire(t.Context(), Request{Memory: m})
				if err != nil {
					t.Error(err)
					return
				}
				add(1, m)
				add(-1, -m)
				l.Release()
			}
		})
	}
	wg.Wait()
	wantSeen(t, path)
}

func TestText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	l, err := newUser(t, path, 4, 100).Acquire(t.Context(), Request{Memory: 7, Label: "a\x00b", Arch: "sm_90", Project: strings.Repeat("/long", 1000)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	list, err := List(path)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	e := list[0]
	if e.PID != os.Getpid() || e.Label != "ab" || e.Arch != "sm_90" || len(e.Project) != 490 || !strings.HasPrefix(e.Project, "...") || e.Memory != 7 || e.Limits != (Limits{4, 100}) {
		t.Errorf("%+v", e)
	}
}

func TestNothingToList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	if list, err := List(path); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("List has made the file")
	}
}

// A file with anything in it is one of free rows.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"x", strings.Repeat("\xff", 100), strings.Repeat("\xff", 10000), "\x02\x00\x00\x00", strings.Repeat("\x02\x00\x00\x00", 1000)} {
		path := filepath.Join(t.TempDir(), "leases")
		os.WriteFile(path, []byte(text), 0o600)
		wantSeen(t, path)
		u := newUser(t, path, 2, 100)
		u.has(1, "one")
		u.has(1, "two")
		u.hasNot(1, "three")
		wantSeen(t, path, "one", "two")
	}
}

// A client that cannot use the file grants everything, and says so once.
func TestWithoutBroker(t *testing.T) {
	tests := map[string]struct {
		set  func(t *testing.T, path string) error
		want string
	}{
		"a folder":      {func(t *testing.T, path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
		"a FIFO":        {func(t *testing.T, path string) error { return unix.Mkfifo(path, 0o600) }, "is not a regular file"},
		"no permission": {func(t *testing.T, path string) error { return os.Chmod(filepath.Dir(path), 0o500) }, "permission denied"},
		"a link":        {func(t *testing.T, path string) error { return os.Symlink("/etc/passwd", path) }, "symbolic links"},
		"a network": {func(t *testing.T, path string) error {
			var fs unix.Statfs_t
			err := unix.Statfs(filepath.Dir(path), &fs)
			network[uint32(fs.Type)] = true
			t.Cleanup(func() { delete(network, uint32(fs.Type)) })
			return err
		}, "network file system"},
		"another's": {func(t *testing.T, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 1, 1))
		}, "belongs to another user"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if root := os.Geteuid() == 0; name == "no permission" && root || name == "another's" && !root {
				t.Skip("of another user")
			}
			path := filepath.Join(t.TempDir(), "leases")
			if err := test.set(t, path); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(filepath.Dir(path), 0o700)
			var n notes
			c := New(path, Limits{1, 1}, &n)
			for range 3 {
				if l, err := c.Acquire(t.Context(), Request{Memory: 5}); l == nil || err != nil {
					t.Error(l, err)
				}
			}
			if len(n.unshared) != 1 || !strings.Contains(n.unshared[0], test.want) {
				t.Errorf("unshared %q, want %q", n.unshared, test.want)
			}
		})
	}
	var none *Client
	l, err := none.Acquire(t.Context(), Request{})
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	l.Release()
}

// A process that was stopped while it has the guard is waited for, but not longer than the caller's
// context.
func TestGuardIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	f, err := openFile(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		t.Fatal(err)
	}
	f.lock(t.Context())
	u := newUser(t, path, 1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := u.Acquire(ctx, Request{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	got := make(chan *Lease, 1)
	go func() {
		l, _ := u.Acquire(t.Context(), Request{})
		got <- l
	}()
	time.Sleep(10 * time.Millisecond)
	f.close()
	soon(t, got).Release()
	u.has(0, "one").Release()
}

func TestPath(t *testing.T) {
	mine := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", mine)
	if got, want := Path(), filepath.Join(mine, "kbuild-leases.1"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	t.Setenv("TMPDIR", mine)
	for _, dir := range []string{mine + "/none", "relative", ""} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		if got := Path(); filepath.Dir(got) != mine || !strings.HasSuffix(got, fmt.Sprint("-", os.Geteuid())) {
			t.Errorf("%s, want it in %s", got, mine)
		}
	}
	t.Setenv("KBUILD_BROKER", "0")
	if FromEnviron(Limits{}, nil) != nil {
		t.Error("KBUILD_BROKER=0 returns a client")
	}
}

// A file that is removed is made again. Requests that wait in the old one get their leases there.
func TestFileIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a, b := newUser(t, path, 1, 100), newUser(t, path, 1, 100)
	one := a.has(1, "one")
	var line []<-chan *Lease
	for i := range 8 {
		line = append(line, b.asks(t.Context(), 1, fmt.Sprint("number ", i, ",")))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.has(1, "another one")
	one.Release()
	for _, next := range line {
		soon(t, next).Release()
	}
	wantSeen(t, path, "another one")
}

// A file that is truncated has lost leases; nobody fails.
func TestFileIsTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	a := newUser(t, path, 1, 100)
	one := a.has(1, "one")
	two := a.asks(t.Context(), 1, "two")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	one.Release()
	soon(t, two).Release()
	wantSeen(t, path)
}

func BenchmarkLease(b *testing.B) { benchmark(b, 0) }

func BenchmarkLeaseBesideOthers(b *testing.B) { benchmark(b, 15) }

func benchmark(b *testing.B, others int) {
	path := filepath.Join(b.TempDir(), "leases")
	c := New(path, Limits{16, 1 << 30}, nil)
	for range others {
		l, _ := c.Acquire(b.Context(), Request{Memory: 1})
		defer l.Release()
	}
	for b.Loop() {
		l, _ := c.Acquire(b.Context(), Request{Memory: 1, Label: "compile a.cu", Project: "/home/me/project"})
		l.Release()
	}
}
