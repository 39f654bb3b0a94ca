package disk

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kbuild-dev/kbuild/cache"
)

// later moves the store's clock; files keep the real one.
func later(s *Store, d time.Duration) {
	s.now = func() time.Time { return time.Now().Add(d) }
}

func age(t *testing.T, name string, d time.Duration) {
	t.Helper()
	at := time.Now().Add(-d)
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestGCRemovesLeastRecentlyUsed(t *testing.T) {
	s := open(t, t.TempDir())
	big := noise(100_000)
	var made []*cache.Record
	for i := range 4 {
		r := put(t, s, fmt.Sprint(i), big+fmt.Sprint(i), "shared")
		age(t, s.record(r), time.Duration(10-i)*time.Hour)
		made = append(made, r)
	}
	s.Used(made[0])
	later(s, 2*time.Hour)
	res, err := s.GC(t.Context(), 250_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if res.Records != 2 || res.Blobs != 2 || res.Bytes > 250_000 || res.Freed < 200_000 {
		t.Errorf("%+v", res)
	}
	for i, keep := range []bool{true, false, false, true} {
		if got := exists(s.record(made[i])); got != keep {
			t.Errorf("record %d kept: %v", i, got)
		}
		if got := exists(blobOf(t, s, made[i].Outputs[0].Digest)); got != keep {
			t.Errorf("blob of %d kept: %v", i, got)
		}
	}
	if !exists(blobOf(t, s, digestOf("shared"))) {
		t.Error("a blob that other records name was removed")
	}
	if exists(s.shardDir(made[1].Command)) {
		t.Error("an empty folder stays")
	}
	if st, _ := s.Stats(t.Context()); st.Bytes != res.Bytes || st.Records != 2 || st.Blobs != 3 {
		t.Errorf("%+v", st)
	}
}

func TestGCByAge(t *testing.T) {
	s := open(t, t.TempDir())
	old, tooRecent := put(t, s, "old", "old"), put(t, s, "young", "young")
	age(t, s.record(old), 48*time.Hour)
	age(t, s.record(tooRecent), 2*time.Hour)
	age(t, blobOf(t, s, digestOf("old")), 48*time.Hour)
	if res, err := s.GC(t.Context(), 0, 24*time.Hour); err != nil || res.Records != 1 || exists(s.record(old)) {
		t.Error(res, err)
	}
	if res, err := s.GC(t.Context(), 0, 0); err != nil || res.Records != 0 || !exists(s.record(tooRecent)) {
		t.Error("without limits a record was removed", res, err)
	}
}

// Right after a build there is nothing that may go: a smaller limit costs no record, and is told to
// be missed. Later what was not used for longest goes, each record with its blob.
func TestGCDropsNoRecordInVain(t *testing.T) {
	s := open(t, t.TempDir())
	const n, each = 27, 20_000
	var made []*cache.Record
	for i := range n {
		r := put(t, s, fmt.Sprint(i), noise(each)+fmt.Sprint(i), "shared")
		age(t, s.record(r), time.Duration(n-i)*time.Minute)
		made = append(made, r)
	}
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{st.Bytes - 1, st.Bytes / 2, 1} {
		res, err := s.GC(t.Context(), limit, 0)
		if want := (GCResult{Bytes: st.Bytes, Over: st.Bytes - limit}); err != nil || res != want {
			t.Errorf("%+v %v, want %+v", res, err, want)
		}
	}
	if res, err := s.GC(t.Context(), st.Bytes, time.Minute); err != nil || res.Records+res.Blobs != 0 || res.Over != 0 {
		t.Errorf("by age: %+v %v", res, err)
	}
	for _, i := range []int{0, 5, 6, 20} { // of two whose blobs are old, the first is in use
		age(t, blobOf(t, s, made[i].Outputs[0].Digest), 2*time.Hour)
	}
	s.Used(made[0])
	res, err := s.GC(t.Context(), st.Bytes-2*each, 0)
	if err != nil || res.Records != 2 || res.Blobs != 2 || res.Over != 0 || exists(s.record(made[5])) || exists(s.record(made[6])) {
		t.Errorf("%+v %v", res, err)
	}
	later(s, 2*time.Hour)
	if res, err = s.GC(t.Context(), 1, 0); err != nil || res.Records != n-2 || res.Blobs != n-1 || res.Bytes != 0 {
		t.Errorf("in the end: %+v %v", res, err)
	}
}

func TestGCLeavesWhatIsYoung(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, "a", "x")
	os.Remove(s.record(r))
	write(t, s.path("tmp", "leftover"), "half a blob")
	blob := blobOf(t, s, digestOf("x"))
	if res, err := s.GC(t.Context(), 1, 0); err != nil || res.Blobs+res.Temps != 0 || !exists(blob) {
		t.Errorf("a blob whose record may be about to appear is gone: %+v %v", res, err)
	}
	later(s, grace+time.Minute)
	if res, err := s.GC(t.Context(), 0, 0); err != nil || res.Blobs != 1 || res.Temps != 1 || exists(blob) {
		t.Errorf("%+v %v", res, err)
	}
}

// Another build finds an old blob and is about to write a record that names it.
func TestGCLeavesABlobThatIsReused(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, "a", "x")
	os.Remove(s.record(r))
	blob := blobOf(t, s, digestOf("x"))
	age(t, blob, 5*time.Hour)
	c, err := s.scan(t.Context())
	if err != nil || len(c.blobs) != 1 {
		t.Fatal(err)
	}
	put(t, s, "b", "x") // between scan and sweep
	if err := c.sweep(t.Context()); err != nil || !exists(blob) {
		t.Error("the blob of a new record was removed", err)
	}
}

// A build uses a record between gc's scan and its removal.
func TestGCLeavesARecordThatIsUsed(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, "a", "x")
	age(t, s.record(r), 5*time.Hour)
	c, err := s.scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Used(r)
	if err := c.drop(c.records[0]); err != nil || !exists(s.record(r)) {
		t.Error("a record in use was removed", err)
	}
}

func TestMaybeGC(t *testing.T) {
	s := open(t, t.TempDir())
	try := func(what string, want int) {
		t.Helper()
		write(t, s.path("tmp", "leftover"), "")
		age(t, s.path("tmp", "leftover"), 5*time.Hour)
		if res, err := s.MaybeGC(t.Context(), DefaultLimit); err != nil || res.Temps != want {
			t.Errorf("%s: %+v %v", what, res, err)
		}
	}
	try("a new store", 0)
	later(s, gcEvery+time.Minute)
	try("an hour later", 1)
	try("again at once", 0)
	if st, _ := s.Stats(t.Context()); st.LastGC.IsZero() {
		t.Error("stats do not know of it")
	}
}

func TestVerify(t *testing.T) {
	s := open(t, t.TempDir())
	for _, name := range []string{"good", "missing", "damaged", "short", "torn"} {
		put(t, s, name, "content of "+name)
	}
	blob := func(name string) string { return blobOf(t, s, digestOf("content of "+name)) }
	record := func(name string) string { return s.record(&cache.Record{Command: digestOf(name)}) }
	os.Remove(blob("missing"))
	write(t, blob("damaged"), "CONTENT OF damaged")
	write(t, blob("short"), "")
	b, _ := os.ReadFile(record("torn"))
	write(t, record("torn"), string(b[:len(b)/2]))

	want := map[string]error{
		record("missing"): fs.ErrNotExist,
		blob("damaged"):   cache.ErrCorrupt, record("damaged"): cache.ErrCorrupt,
		blob("short"): cache.ErrCorrupt, record("short"): cache.ErrCorrupt,
		record("torn"): cache.ErrCorrupt,
	}
	for _, repair := range []bool{false, true} {
		res, problems, err := s.Verify(t.Context(), repair)
		for _, p := range problems {
			if want[p.Path] == nil || !errors.Is(p.Err, want[p.Path]) {
				t.Errorf("unexpected: %+v", p)
			}
			if p.Repaired != repair || exists(p.Path) == repair {
				t.Errorf("repair %v: repaired %v, there %v", repair, p.Repaired, exists(p.Path))
			}
		}
		if err != nil || len(problems) != len(want) || res.Problems != len(want) || res.Records != 5 || res.Blobs != 4 {
			t.Errorf("%+v %v, %v", res, err, problems)
		}
	}
	if res, _, err := s.Verify(t.Context(), false); err != nil || res.Problems != 0 || res.Records != 1 {
		t.Errorf("after repair: %+v %v", res, err)
	}
}

func TestCounters(t *testing.T) {
	dir := t.TempDir()
	c := cache.Counters{Direct: 2, Stage: 1, Misses: 1, Bytes: 1 << 30, Saved: time.Minute}
	const n = 300
	var wg sync.WaitGroup
	for range 3 {
		s := open(t, dir)
		wg.Go(func() {
			for range n / 3 {
				if err := s.Count(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, dir)
	want := cache.Counters{Direct: 2 * n, Stage: n, Misses: n, Bytes: n << 30, Saved: n * time.Minute}
	check := func() {
		t.Helper()
		st, err := s.Stats(t.Context())
		if diff := cmp.Diff(want, st.Counters); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	}
	check()
	far := cache.Counters{Direct: 3, Remote: 2, Received: 1 << 20, Sent: 7}
	if err := s.Count(far); err != nil {
		t.Fatal(err)
	}
	want = want.Add(far)
	check()
	f, _ := os.OpenFile(s.path("counters"), os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString("\n7 7 7 7") // torn
	f.WriteString("\n7 7 7 7 1+")
	f.WriteString("\n7 7 7 7 7 7 7 7 1+\n7 7 7 7 7 7 7 7 7 7+")
	f.WriteString("\n2 0 0 0 0 2+") // of a version that knew no remote cache
	want.Direct += 2
	f.WriteString(strings.Repeat("\njunk", maxCounters/5))
	f.Close()
	check()
	if err := s.Count(c); err != nil { // folds the file
		t.Fatal(err)
	}
	want = want.Add(c)
	check()
	if info, _ := os.Stat(s.path("counters")); info.Size() > 200 {
		t.Errorf("the file has %d bytes", info.Size())
	}
}

func FuzzRecord(f *testing.F) {
	r := &cache.Record{Command: digestOf("x"), Outputs: []cache.Output{{Path: "a", Digest: digestOf("a")}}}
	b, err := EncodeRecord(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("json -1\n"))
	f.Add([]byte("json 2\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		head := append([]byte(recordMagic), b...)
		// The sum would keep the fuzzer out, so it is given one that is right.
		for _, b := range [][]byte{b, append(head, fmt.Sprintf("%s%s\n", sumPrefix, digestOf(string(head)))...)} {
			r, err := DecodeRecord(b)
			if err != nil {
				if !errors.Is(err, cache.ErrCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			again, err := EncodeRecord(r)
			if err != nil {
				continue // a year beyond 9999
			}
			if r2, err := DecodeRecord(again); err != nil || r2.ID() != r.ID() || r2.Command != r.Command {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkRestore1MB(b *testing.B) {
	s := open(b, b.TempDir())
	r := put(b, s, "a", strings.Repeat("x", 1<<20))
	name := b.TempDir() + "/x"
	b.SetBytes(1 << 20)
	for b.Loop() {
		if err := s.Restore(b.Context(), r.Outputs[0], name); err != nil {
			b.Fatal(err)
		}
		os.Remove(name)
	}
}

func BenchmarkRecords500Headers(b *testing.B) {
	s := open(b, b.TempDir())
	r, file := action(b, "a", "x")
	for i := range 500 {
		r.Discovered = append(r.Discovered, cache.FileDigest{Path: fmt.Sprintf("/usr/local/cuda/include/cub/block/header_%d.cuh", i), Digest: digestOf(fmt.Sprint(i))})
	}
	if err := s.Put(b.Context(), r, file); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if len(lookedUp(b, s, r.Command)) != 1 {
			b.Fatal("miss")
		}
	}
}

// Records that are whole and have another form, or a name that is made of other fields, are of
// another version of kbuild: verify leaves them to gc.
func TestVerifyLeavesOtherVersions(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, "now", "content")
	text, err := os.ReadFile(s.record(r))
	if err != nil {
		t.Fatal(err)
	}
	named := func(id string) string { return s.recordFile(r.Command, digestOf(id)) }
	sealedText := func(text string) string { return text + fmt.Sprintf("sha256 %x\n", sha256.Sum256([]byte(text))) }
	write(t, named("other fields"), string(text))
	write(t, named("other form"), sealedText("kbuild record 7\nwhatever\n"))
	write(t, named("damaged"), flip(string(text), 40))
	res, found, err := s.Verify(t.Context(), true)
	if err != nil || res.Others != 2 || res.Problems != 1 || len(found) != 1 || found[0].Path != named("damaged") {
		t.Errorf("%+v, %v, %v", res, err, found)
	}
	for name, want := range map[string]bool{s.record(r): true, named("other fields"): true, named("other form"): true, named("damaged"): false} {
		if exists(name) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
	later(s, 48*time.Hour)
	if res, err := s.GC(t.Context(), 1, 0); err != nil || res.Records != 3 {
		t.Errorf("gc: %+v, %v", res, err)
	}
}
