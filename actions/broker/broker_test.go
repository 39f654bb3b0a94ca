package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// user is a client, as another process would be, that says when a request of his waits.
type user struct {
	*Client
	t       *testing.T
	blocked chan struct{}
}

func newUser(t *testing.T, dir string, processors int, memory int64) *user {
	u := &user{Client: New(dir, Limits{processors, memory}, func(text string) { t.Errorf("warning: %s", text) }), t: t, blocked: make(chan struct{}, 1000)}
	u.ancestors = func() []uint32 { return nil }
	u.blocks = func() { u.blocked <- struct{}{} }
	t.Cleanup(u.Close)
	return u
}

// has takes a lease that there must be.
func (u *user) has(memory int64, label string) *Lease {
	u.t.Helper()
	l := u.TryAcquire(u.t.Context(), Request{Memory: memory, Label: label})
	if l == nil {
		u.t.Fatalf("there is no lease for %s", label)
	}
	return l
}

// hasNot tries in vain to take a lease.
func (u *user) hasNot(memory int64, label string) {
	u.t.Helper()
	if u.TryAcquire(u.t.Context(), Request{Memory: memory, Label: label}) != nil {
		u.t.Fatalf("there is a lease for %s", label)
	}
}

// asks waits for a lease, and returns when the request waits in the kernel.
func (u *user) asks(ctx context.Context, memory int64, label string) <-chan *Lease {
	u.t.Helper()
	got := make(chan *Lease, 1)
	go func() {
		l, _ := u.Acquire(ctx, Request{Memory: memory, Label: label})
		got <- l
	}()
	<-u.blocked
	return got
}

// seen lists what there is: what runs, and what waits for what.
func seen(t *testing.T, dir string) (lines []string) {
	t.Helper()
	list, err := List(t.Context(), dir)
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

func wantSeen(t *testing.T, dir string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, seen(t, dir), cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProcessorsAreShared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, b := newUser(t, dir, 3, 1000), newUser(t, dir, 3, 1000)
	one, two := a.has(1, "one"), b.has(1, "two")
	a.has(1, "three")
	b.hasNot(1, "four")
	got := b.asks(t.Context(), 1, "four")
	wantSeen(t, dir, "one", "two", "three", "four waits for processors")
	one.Release()
	four := <-got
	wantSeen(t, dir, "two", "three", "four")
	one.Release() // which is nothing any more
	a.hasNot(1, "five")
	two.Release()
	four.Release()
	a.has(1, "five")
	b.has(1, "six")
	b.hasNot(1, "seven")
}

func TestMemoryIsShared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, b := newUser(t, dir, 9, 10), newUser(t, dir, 9, 10)
	six := a.has(6, "six")
	got := b.asks(t.Context(), 20, "all")
	a.hasNot(1, "one") // it could not run beside the one that waits
	a.has(0, "none")
	wantSeen(t, dir, "six", "none", "all waits for memory")
	six.Release()
	(<-got).Release()
	a.has(10, "ten")
}

// Where a lease ends, the head gets what it waits for; those that may start beside it too, and only
// those.
func TestWhoWaitsIsServedInTurn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, b, c := newUser(t, dir, 9, 10), newUser(t, dir, 9, 10), newUser(t, dir, 9, 10)
	ten := a.has(10, "ten")
	five, six, four := b.asks(t.Context(), 5, "five"), c.asks(t.Context(), 6, "six"), b.asks(t.Context(), 4, "four")
	wantSeen(t, dir, "ten", "five waits for memory", "six waits for memory", "four waits for memory")
	ten.Release()
	l5, l4 := <-five, <-four // five first; four fits beside six, so it passes it
	wantSeen(t, dir, "five", "four", "six waits for memory")
	l5.Release()
	(<-six).Release()
	l4.Release()
	wantSeen(t, dir)
}

func TestCancelledRequestIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, b := newUser(t, dir, 9, 10), newUser(t, dir, 9, 10)
	a.has(5, "five")
	ctx, cancel := context.WithCancel(t.Context())
	ten := b.asks(ctx, 10, "ten")
	two := a.asks(t.Context(), 2, "two") // does not fit beside ten
	cancel()
	if l := <-ten; l != nil {
		t.Error("a cancelled request has a lease")
	}
	<-two
	wantSeen(t, dir, "five", "two")
	if _, err := b.Acquire(ctx, Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Who has nothing at all and must wait is told, once.
func TestOnIdle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, b := newUser(t, dir, 2, 10), newUser(t, dir, 2, 10)
	told := 0
	b.OnIdle(func() { told++ })
	one, two := a.has(1, "one"), b.has(1, "two")
	three := b.asks(t.Context(), 1, "three")
	if told != 0 {
		t.Error("told although it has a lease")
	}
	one.Release()
	for _, l := range []*Lease{two, <-three} {
		l.Release()
	}
	a.has(1, "four")
	for range 2 {
		five := a.has(1, "five")
		six := b.asks(t.Context(), 1, "six")
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
		five.Release()
		(<-six).Release()
	}
}

// A command that waits for what it calls does not keep it from running.
func TestInside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	build, called, other := newUser(t, dir, 1, 10), newUser(t, dir, 1, 10), newUser(t, dir, 1, 10)
	called.ancestors = func() []uint32 { return []uint32{77, uint32(os.Getpid())} }
	build.has(9, "script")
	other.hasNot(1, "other")
	called.has(9, "called")
	other.hasNot(1, "other")
	called.hasNot(9, "called as well")
}

func TestAncestors(t *testing.T) {
	want := []uint32{uint32(os.Getppid())}
	if got := ancestors("/proc", os.Getppid()); len(got) == 0 || got[0] != want[0] {
		t.Errorf("ancestors %v, want them to begin with %v", got, want)
	}
	proc := t.TempDir()
	for pid, stat := range map[string]string{"30": "30 (a) b) (c d) S 20 1 1", "20": "20 (sh) R 10 1", "10": "10 (init) S 1 1"} {
		os.Mkdir(filepath.Join(proc, pid), 0o700)
		os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(stat), 0o600)
	}
	if diff := cmp.Diff([]uint32{30, 20, 10}, ancestors(proc, 30)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// One that passes the head is watched by it, since what else changes may have made the head depend
// on its end.
func TestHeadLearnsOfThoseThatPass(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	build, other, called, head, small := newUser(t, dir, 9, 10), newUser(t, dir, 9, 10), newUser(t, dir, 9, 10), newUser(t, dir, 9, 10), newUser(t, dir, 9, 10)
	called.ancestors = func() []uint32 { return []uint32{uint32(os.Getpid())} }
	build.has(4, "script")
	other.has(3, "three")
	six := head.asks(t.Context(), 6, "six")
	two := small.has(2, "two")
	<-head.blocked // it has looked
	called.asks(t.Context(), 9, "called")
	wantSeen(t, dir, "script", "three", "two", "six waits for memory", "called waits for memory")
	two.Release()
	<-six
}

// The one behind one that has got its lease watches another from then on.
func TestNextLearnsThatItIsNext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, h, p, s := newUser(t, dir, 9, 10), newUser(t, dir, 9, 10), newUser(t, dir, 9, 10), newUser(t, dir, 9, 10)
	a.has(5, "five")
	four := a.has(4, "four")
	ctx, cancel := context.WithCancel(t.Context())
	h.asks(ctx, 7, "seven")
	two, three := p.asks(t.Context(), 2, "two"), s.asks(t.Context(), 3, "three")
	four.Release()
	<-two
	<-s.blocked
	wantSeen(t, dir, "five", "two", "seven waits for memory", "three waits for its turn")
	cancel()
	<-three
}

// What is available is measured when nobody holds a lease: a build that begins while another runs
// would count what that one takes twice.
func TestMeasuredMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	there := int64(10)
	measured := func() *user {
		u := newUser(t, dir, 9, 0)
		u.memory, u.most = func() int64 { return there }, func() int64 { return 0 }
		return u
	}
	four := measured().has(4, "four")
	there = 3
	late := measured()
	three := []*Lease{late.has(3, "three"), late.has(3, "three more")}
	late.hasNot(1, "one")
	for _, l := range three {
		l.Release()
	}
	caged := measured()
	caged.most = func() int64 { return 1 } // of its control group
	one := caged.has(1, "one")
	caged.hasNot(1, "two")
	one.Release()
	four.Release()
	measured().has(3, "three")
	measured().hasNot(1, "one")
}

// The end of a client ends what it has, and what of it waits.
func TestClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a, b := newUser(t, dir, 1, 100), newUser(t, dir, 1, 100)
	one := a.has(1, "one")
	two := b.asks(t.Context(), 1, "two")
	b.Close()
	(<-two).Release()
	b.Close()
	wantSeen(t, dir, "one")
	a.Close()
	wantSeen(t, dir)
	one.Release()
	b.has(5, "nothing is shared any more")
	wantSeen(t, dir)
}

// Slots of leases that have ended are used again, and the table does not grow.
func TestSlotsAreUsedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	for range 5 {
		u := newUser(t, dir, 4, 100)
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
		u.Close()
	}
	wantFiles(t, dir, 10)
	alone := filepath.Join(t.TempDir(), "alone")
	u := newUser(t, alone, 4, 100)
	for range 10 {
		u.has(1, "one by one").Release()
	}
	wantFiles(t, alone, 2)
}

func wantFiles(t *testing.T, dir string, most int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) > most {
		t.Errorf("%d files: %v, %v, want at most %d", len(names), names, err, most)
	}
}

func TestManyAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
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
		u := New(dir, Limits{3, 10}, func(text string) { t.Error(text) })
		u.ancestors = func() []uint32 { return nil }
		wg.Go(func() {
			defer u.Close()
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
	wantSeen(t, dir)
}

func TestWords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	u := newUser(t, dir, 4, 100)
	l := u.TryAcquire(t.Context(), Request{Memory: 7, Label: "a\x00b", Arch: "sm_90", Project: strings.Repeat("/long", 1000)})
	list, err := List(t.Context(), dir)
	if err != nil || len(list) != 1 || l == nil {
		t.Fatal(list, err)
	}
	e := list[0]
	if e.PID != os.Getpid() || e.Label != "ab" || e.Arch != "sm_90" || len(e.Project) != 500 || !strings.HasPrefix(e.Project, "...") || e.Memory != 7 || e.Limits != (Limits{4, 100}) {
		t.Errorf("%+v", e)
	}
}

func TestNothingToList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	if list, err := List(t.Context(), dir); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking has made the folder")
	}
}

// A table with anything in it is one of free slots.
func TestDamagedTable(t *testing.T) {
	for _, text := range []string{"x", strings.Repeat("\xff", 100), strings.Repeat("\xff", 10000), "\x03\x00\x00\x00", strings.Repeat("\x01", wordsAt)} {
		dir := filepath.Join(t.TempDir(), "broker")
		os.Mkdir(dir, 0o700)
		os.WriteFile(filepath.Join(dir, tableName), []byte(text), 0o600)
		u := newUser(t, dir, 2, 100)
		u.has(1, "one")
		u.has(1, "two")
		u.hasNot(1, "three")
		wantSeen(t, dir, "one", "two")
	}
}

// Who cannot use the folder runs without, and says so once.
func TestWithoutBroker(t *testing.T) {
	tests := map[string]struct {
		set  func(dir string) error
		want string
	}{
		"a file":        {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "no folder"},
		"no permission": {func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o500) }, "permission denied"},
		"a link":        {func(dir string) error { return os.Symlink("/", dir) }, "no folder"},
		"no FIFO": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(dir, "0"), 0o700))
		}, "is a directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if name == "no permission" && os.Geteuid() == 0 {
				t.Skip("root may do everything")
			}
			dir := filepath.Join(t.TempDir(), "broker")
			if err := test.set(dir); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(filepath.Dir(dir), 0o700)
			var warned []string
			c := New(dir, Limits{1, 1}, func(text string) { warned = append(warned, text) })
			for range 3 {
				if l, err := c.Acquire(t.Context(), Request{Memory: 5}); l == nil || err != nil {
					t.Error(l, err)
				}
			}
			c.Close()
			if len(warned) != 1 || !strings.Contains(warned[0], test.want) {
				t.Errorf("warned %q, want %q", warned, test.want)
			}
		})
	}
	var none *Client
	if l, err := none.Acquire(t.Context(), Request{}); l == nil || err != nil {
		t.Error(l, err)
	}
	none.Close()
}

func TestFolder(t *testing.T) {
	mine := t.TempDir()
	env := map[string]string{"XDG_RUNTIME_DIR": mine}
	if got, want := Dir(func(n string) string { return env[n] }), filepath.Join(mine, "kbuild-broker"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	env = map[string]string{"XDG_RUNTIME_DIR": mine + "/none", "TMPDIR": mine}
	if got := Dir(func(n string) string { return env[n] }); filepath.Dir(got) != mine || !strings.HasPrefix(filepath.Base(got), "kbuild-") {
		t.Errorf("%s, want it in %s", got, mine)
	}
	open := filepath.Join(mine, "open")
	os.Mkdir(open, 0o777)
	os.Chmod(open, 0o777)
	if err := private(open); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(open); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	if os.Geteuid() != 0 {
		if err := private("/usr"); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("another's folder: %v", err)
		}
	}
	if FromEnviron(func(n string) string { return map[string]string{"KBUILD_BROKER": "0"}[n] }, Limits{}, nil) != nil {
		t.Error("KBUILD_BROKER=0 gives a client")
	}
}

// A folder that is removed is made again. Who waits goes without: nobody could wake it.
func TestFolderIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	a := newUser(t, dir, 1, 100)
	one := a.has(1, "one")
	b := newUser(t, dir, 1, 100)
	warned := ""
	b.warn = func(text string) { warned = text }
	two := b.asks(t.Context(), 1, "two")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	a.has(1, "another one")
	one.Release()
	if l := <-two; l == nil || !strings.Contains(warned, "removed") {
		t.Errorf("lease %v, warning %q", l, warned)
	}
	wantSeen(t, dir, "another one")
}

// A null row in the middle of writing, and the order of entries.
func TestRows(t *testing.T) {
	r := row{held, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	b := r.encode()
	if len(b) != rowSize || decode(b) != r {
		t.Errorf("%+v becomes %+v, in %d bytes", r, decode(b), len(b))
	}
	for i := range b {
		broken := slices.Clone(b)
		broken[i] ^= 1
		if decode(broken) != (row{}) {
			t.Errorf("with byte %d changed it is %+v", i, decode(broken))
		}
	}
}

func BenchmarkLease(b *testing.B) {
	c := New(filepath.Join(b.TempDir(), "broker"), Limits{4, 1 << 30}, nil)
	defer c.Close()
	for b.Loop() {
		l, _ := c.Acquire(b.Context(), Request{Memory: 1, Label: "compile a.cu", Project: "/home/me/project"})
		l.Release()
	}
}

func BenchmarkLeaseBesideOthers(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "broker")
	for range 15 {
		o := New(dir, Limits{16, 1 << 30}, nil)
		defer o.Close()
		o.Acquire(b.Context(), Request{Memory: 1})
	}
	c := New(dir, Limits{16, 1 << 30}, nil)
	defer c.Close()
	for b.Loop() {
		l, _ := c.Acquire(b.Context(), Request{Memory: 1, Label: "compile a.cu", Project: "/home/me/project"})
		l.Release()
	}
}
