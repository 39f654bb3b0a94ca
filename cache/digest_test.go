package cache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func writeFile(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func digestOf(s string) Digest { return sha256.Sum256([]byte(s)) }

// memory is what is known of files between runs.
type memory map[string]Hashed

func (m memory) known(path string) (Hashed, bool) {
	h, ok := m[path]
	return h, ok
}

// save keeps what a run has learned.
func (m memory) save(f *Files) {
	f.Seen(func(path string, h *Hashed) {
		if h != nil {
			m[path] = *h
		}
	})
}

// openAt knows files at a moment of an imagined clock, so many seconds after now.
func openAt(m memory, root string, seconds int) *Files {
	f := NewFiles(root, m.known)
	at := time.Now().Add(time.Duration(seconds) * time.Second)
	f.now = func() time.Time { return at }
	return f
}

func mustDigest(t testing.TB, f *Files, path, content string) {
	t.Helper()
	d, err := f.Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	if d != digestOf(content) {
		t.Fatalf("%s does not have the digest of %q", path, content)
	}
}

// poison keeps what a run has learned with every digest replaced, so that using it shows.
func poison(m memory, f *Files) Digest {
	m.save(f)
	wrong := digestOf("wrong on purpose")
	for path, h := range m {
		h.Digest = wrong
		m[path] = h
	}
	return wrong
}

func TestMemoIsUsedBetweenRuns(t *testing.T) {
	root := t.TempDir()
	memo := memory{}
	writeFile(t, filepath.Join(root, "a.h"), "one")
	f := openAt(memo, root, 60)
	mustDigest(t, f, "a.h", "one")
	wrong := poison(memo, f)
	for _, path := range []string{"a.h", "./a.h", filepath.Join(root, "a.h")} {
		if d, err := openAt(memo, root, 61).Digest(path); err != nil || d != wrong {
			t.Errorf("%s was hashed though its stat is known (%v)", path, err)
		}
	}
}

func TestYoungFileIsHashedAgain(t *testing.T) {
	root := t.TempDir()
	memo := memory{}
	name := filepath.Join(root, "a.h")
	writeFile(t, name, "one")
	f := NewFiles(root, memo.known)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	s := stampOf(info)
	f.now = func() time.Time { return time.Unix(0, s.Ctime+s.tick()) } // one ns too early to be trusted
	mustDigest(t, f, "a.h", "one")
	poison(memo, f)
	f = openAt(memo, root, 60)
	mustDigest(t, f, "a.h", "one") // not the poisoned digest
	wrong := poison(memo, f)       // and trusted from now on
	if d, _ := openAt(memo, root, 61).Digest("a.h"); d != wrong {
		t.Error("a file hashed long after its last change is hashed again")
	}
}

func TestTickFollowsTheFileSystem(t *testing.T) {
	for _, c := range []struct {
		ctime int64
		want  int64
	}{
		{1700000000_000000000, coarseTick}, // seconds only
		{1700000000_120000000, coarseTick}, // exFAT keeps 10 ms
		{1700000000_123456789, fineTick},
	} {
		s := Stat{Ctime: c.ctime}
		if s.tick() != c.want {
			t.Errorf("tick of ctime %d is %d, want %d", c.ctime, s.tick(), c.want)
		}
	}
}

func TestFutureTimeIsNotTrusted(t *testing.T) {
	s := Stat{Mtime: 2000e9 + 1, Ctime: 1000e9 + 1}
	if s.before(1500e9) {
		t.Error("a file with an mtime in the future is trusted")
	}
}

// cp -p, tar and rsync -t set the mtime back; only the ctime tells.
func TestSameSizeAndMtimeWithNewContent(t *testing.T) {
	root := t.TempDir()
	memo, name := memory{}, filepath.Join(root, "a.h")
	past := time.Now().Add(-time.Hour)
	writeFile(t, name, "one")
	os.Chtimes(name, past, past)
	f := openAt(memo, root, 60)
	mustDigest(t, f, "a.h", "one")
	memo.save(f)
	before, _ := os.Stat(name)
	old := stampOf(before)
	for now, try := old, 0; now.Ctime == old.Ctime; try++ { // until the clock of the file system has moved
		if try == 20000 {
			t.Fatal("the ctime of the file does not change")
		}
		writeFile(t, name, "two")
		os.Chtimes(name, past, past)
		info, _ := os.Stat(name)
		now = stampOf(info)
		if now.Mtime != old.Mtime || now.Size != old.Size || now.Ino != old.Ino {
			t.Fatal("the test did not keep size, mtime and inode")
		}
	}
	mustDigest(t, openAt(memo, root, 120), "a.h", "two")
}

func TestDigestWithinOneRun(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "a.o")
	writeFile(t, name, "one")
	f := NewFiles(root, nil)
	mustDigest(t, f, "a.o", "one")
	writeFile(t, name, "three")
	mustDigest(t, f, "a.o", "one") // looked at once
	f.Forget(name)                 // the other spelling
	mustDigest(t, f, "a.o", "three")
	writeFile(t, name, "four")
	if f.Unchanged("a.o", digestOf("three"), Moment{}) {
		t.Error("an edit was not seen")
	}
	mustDigest(t, f, "a.o", "four") // Unchanged looked
}

func TestUnchanged(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "a.cu")
	writeFile(t, name, "one")
	info, _ := os.Stat(name)
	s := stampOf(info)
	changed := time.Unix(0, s.modified())
	tick := time.Duration(s.tick())
	at := func(t time.Time) Moment { return Moment{t, t} }
	read := func(content string, after time.Duration) *entry {
		return &entry{Hashed{Stat: s, Digest: digestOf(content)}, changed.Add(after).UnixNano()}
	}
	for _, c := range []struct {
		what  string
		path  string
		d     Digest
		since Moment
		last  *entry // what is known of it
		clock bool   // its times are fileClock's
		want  bool
	}{
		{"no time", "a.cu", digestOf("one"), Moment{}, nil, true, true},
		{"modified long before", "a.cu", digestOf("one"), at(changed.Add(time.Hour)), nil, true, true},
		{"modified after", "a.cu", digestOf("one"), at(changed.Add(-time.Hour)), nil, true, false},
		{"modified at that moment", "a.cu", digestOf("one"), at(changed), read("one", -1), true, false},
		{"modified within a tick before", "a.cu", digestOf("one"), at(changed.Add(tick)), nil, true, false},
		{"modified a tick before", "a.cu", digestOf("one"), at(changed.Add(tick + 1)), nil, true, true},
		{"and read in between", "a.cu", digestOf("one"), at(changed.Add(2)), read("one", 1), true, tick == FileTick},
		{"and read at that moment", "a.cu", digestOf("one"), at(changed.Add(2)), read("one", 2), true, false},
		{"and another when it was read", "a.cu", digestOf("one"), at(changed.Add(2)), read("two", 1), true, false},
		{"and read, by another clock", "a.cu", digestOf("one"), at(changed.Add(2)), read("one", 1), false, false},
		{"other content", "a.cu", digestOf("two"), Moment{}, nil, true, false},
		{"missing", "b.cu", digestOf("one"), Moment{}, nil, true, false},
	} {
		f := NewFiles(root, nil)
		f.clocks.Store(s.Dev, c.clock)
		f.slot(c.path).last = c.last
		if got := f.Unchanged(c.path, c.d, c.since); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// What fileClock promises, held against this machine's kernel and file system: a file that is
// changed has its time or a later one, also where somebody looked at it in between, and one that
// was changed before the clock moved on has an earlier one.
func TestFileClock(t *testing.T) {
	root := t.TempDir()
	if !keepsFileClock(root) {
		t.Skip("the file system of temporary files is not known to have the kernel's clock")
	}
	for i := range 50 {
		f := NewFiles(root, nil)
		began := Now()
		content := fmt.Sprint(i)
		writeFile(t, filepath.Join(root, "a.h"), content)
		written := time.Now()
		mustDigest(t, f, "a.h", content)
		if f.Unchanged("a.h", digestOf(content), began) {
			t.Fatalf("a file that was changed after %v looks older", began)
		}
		now := Now()
		for !now.File.After(written) {
			now = Now()
		}
		if e := f.slot("a.h").last; e.Stat.modified() > written.UnixNano() || !f.Unchanged("a.h", digestOf(content), now) {
			t.Fatalf("a file that was changed before %v looks younger", now)
		}
	}
}

func TestDigestErrors(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "dir", "a.h"), "one")
	f := NewFiles(root, nil)
	for path, missing := range map[string]bool{"no.h": true, "dir/a.h/b.h": true, "dir": false, "/dev/null": false} {
		_, err := f.Digest(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) != missing {
			t.Errorf("%s: %v; fs.ErrNotExist should be %v", path, err, missing)
		}
	}
	writeFile(t, filepath.Join(root, "no.h"), "now") // an error is not remembered
	mustDigest(t, f, "no.h", "now")
}

func TestDigestOfOnePathIsComputedOnce(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.h"), strings.Repeat("x", 1<<20))
	f := NewFiles(root, nil)
	var mu sync.Mutex
	hashed := 0
	f.now = func() time.Time { mu.Lock(); hashed++; mu.Unlock(); return time.Now() }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { f.Digest("a.h"); f.Digest("./a.h") })
	}
	wg.Wait()
	if hashed != 1 {
		t.Errorf("hashed %d times", hashed)
	}
}

func TestFilesConcurrently(t *testing.T) {
	root := t.TempDir()
	f := NewFiles(root, nil)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				name := fmt.Sprint("f", i%10)
				switch (g + i) % 4 {
				case 0:
					writeFile(t, filepath.Join(root, name), "x")
					f.Forget(name)
				case 1:
					f.Unchanged(name, digestOf("x"), Now())
				case 2:
					f.Seen(func(string, *Hashed) {})
				default:
					f.Digest(name)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkDigestKnown(b *testing.B) {
	root := b.TempDir()
	writeFile(b, filepath.Join(root, "a.h"), "one")
	f := NewFiles(root, nil)
	for b.Loop() {
		f.Digest("a.h")
	}
}

func BenchmarkDigestByStat(b *testing.B) {
	root := b.TempDir()
	writeFile(b, filepath.Join(root, "a.h"), "one")
	f := openAt(nil, root, 60)
	f.Digest("a.h")
	for b.Loop() {
		f.Forget("a.h")
		f.Digest("a.h")
	}
}

// A modification time in the future is as good as none: the ctime tells when the file was last
// written, and when its time was set.
func TestFutureMtime(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "x.h")
	writeFile(t, name, "x")
	future := time.Now().Add(365 * 24 * time.Hour)
	if err := os.Chtimes(name, future, future); err != nil {
		t.Fatal(err)
	}
	f := openAt(nil, root, 10)
	if !f.Unchanged("x.h", digestOf("x"), at(f.now().Add(-time.Second))) {
		t.Error("a header with a time in the future was modified since")
	}
	if f.Unchanged("x.h", digestOf("x"), at(time.Now().Add(-time.Minute))) {
		t.Error("the header was not modified since a minute ago")
	}
	writeFile(t, name, "y")
	os.Chtimes(name, future, future)
	if f.Unchanged("x.h", digestOf("x"), at(f.now().Add(-time.Second))) || f.Unchanged("x.h", digestOf("y"), at(time.Now().Add(-time.Second))) {
		t.Error("an edit under the same time in the future is not seen")
	}
}

// The clock was set back by an hour, or a file server's is ahead: a file looks as if it were of the
// future as long as that lasts. From the second look on it is known that nobody has written to it,
// and whoever does is seen.
func TestFutureCtime(t *testing.T) {
	root, memo := t.TempDir(), memory{}
	writeFile(t, filepath.Join(root, "x.h"), "x")
	look := func(seconds int, content string) bool {
		f := openAt(memo, root, seconds)
		mustDigest(t, f, "x.h", content)
		ok := f.Unchanged("x.h", digestOf(content), at(f.now()))
		memo.save(f)
		return ok
	}
	for i, want := range []bool{false, true, true} {
		if got := look(-3600+60*i, "x"); got != want {
			t.Errorf("look %d: unchanged %v, want %v", i+1, got, want)
		}
	}
	writeFile(t, filepath.Join(root, "x.h"), "y")
	if look(-3000, "y") {
		t.Error("a file that was written since is unchanged")
	}
	if !look(-2900, "y") {
		t.Error("a file that was written long ago is changed")
	}
}

// at is a moment of both clocks.
func at(t time.Time) Moment { return Moment{Time: t, File: t} }
