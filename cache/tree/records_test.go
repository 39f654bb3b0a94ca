package tree

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
)

func digestOf(s string) cache.Digest { return sha256.Sum256([]byte(s)) }

func sampleRecord(i int) *cache.Record {
	r := &cache.Record{
		Command: digestOf(fmt.Sprint("command", i)),
		Fields:  []cache.Field{{Name: "arg", Value: "-O2"}, {Name: "input", Value: fmt.Sprint("src/ä ", i, ".cu")}},
		Outputs: []cache.Output{
			{Path: fmt.Sprint("build/", i, ".o"), Digest: digestOf(fmt.Sprint(i)), Size: int64(i), Exec: i%2 == 0, Unkept: i%3 == 0},
			{Path: "build/x.d", Digest: digestOf("d"), Size: 1 << 40, Unkept: true},
		},
		Absent:  []string{"a/b.h"},
		Text:    "warning: ä\n",
		Elapsed: time.Second, CPU: 2 * time.Second, MaxRSS: 1 << 33, Origin: "grpcs://cache",
		Made: time.Unix(1700000000, int64(i)).UTC(),
	}
	for f := range i % 3 {
		r.Functions = append(r.Functions, cache.Function{Name: fmt.Sprint("_Z1kv", f), Arch: "sm_80", Entry: f == 1, Registers: i,
			Barriers: 2, Shared: 3, Constant: 4, Stack: 5, SpillStores: 6, SpillLoads: 7 + f})
	}
	for h := range i % 5 {
		r.Discovered = append(r.Discovered, cache.FileDigest{Path: fmt.Sprint("inc/", h, ".h"), Digest: digestOf(fmt.Sprint("h", h))})
	}
	return r
}

// open opens a database that is closed at the end.
func open(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// reopen closes a database and opens it again.
func reopen(t testing.TB, db *DB) *DB {
	t.Helper()
	if err := errors.Join(db.Optimize(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return open(t, db.name)
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "tree.db") }

// eagerly makes small files worth an index and a compaction.
func eagerly(t testing.TB) {
	index, compacted, known := minIndexed, minCompacted, maxKnown
	t.Cleanup(func() { minIndexed, minCompacted, maxKnown = index, compacted, known })
	minIndexed, minCompacted = 1, 1
}

// setView stores a view with a plan.
func setView(t testing.TB, db *DB, key byte, note, plan string, list []cache.Observation) {
	t.Helper()
	if err := errors.Join(db.SetView([32]byte{key}, []byte(note), list), db.SetPlan([32]byte{key}, []byte(plan))); err != nil {
		t.Fatal(err)
	}
}

func appendAll(t testing.TB, j *DB, records ...*cache.Record) {
	t.Helper()
	for _, r := range records {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func same(t *testing.T, got, want *cache.Record) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record differs (-want +got):\n%s", diff)
	}
}

func TestRoundTrip(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "new", "tree.db"))
	bare := &cache.Record{Outputs: []cache.Output{{Path: "bare"}}}
	appendAll(t, db, sampleRecord(1), sampleRecord(2), sampleRecord(9), bare)
	for _, db := range []*DB{db, open(t, db.name)} {
		same(t, db.Last("build/9.o"), sampleRecord(9))
		same(t, db.Last("bare"), bare)
		if db.Last("build/x.d") != nil {
			t.Error("a record was found under a name it does not have")
		}
		all := slices.Collect(db.All())
		if len(all) != 4 || all[0].Outputs[0].Path != "bare" || all[3].Outputs[0].Path != "build/9.o" {
			t.Errorf("%d records, or not sorted", len(all))
		}
	}
}

// A process killed in mid-write leaves a prefix of what it wrote, and no root.
func TestTornTail(t *testing.T) {
	db := open(t, newPath(t))
	appendAll(t, db, sampleRecord(1))
	setView(t, db, 7, "note", "plan", nil)
	whole := db.size
	appendAll(t, db, sampleRecord(2))
	b, _ := os.ReadFile(db.name)
	for cut := int(whole); cut < len(b); cut++ {
		write(t, db.name, string(b[:cut]))
		torn := open(t, db.name)
		same(t, torn.Last("build/1.o"), sampleRecord(1))
		if torn.Last("build/2.o") != nil || torn.View([32]byte{7}) == nil {
			t.Fatalf("cut to %d of %d bytes: the torn record is found, or the view is not", cut, len(b))
		}
		if cut%7 == 0 {
			appendAll(t, torn, sampleRecord(4)) // after which the file is whole again
			same(t, open(t, db.name).Last("build/4.o"), sampleRecord(4))
		}
	}
}

// A file that was cut or changed anywhere says less, and nothing that is wrong; and it can be
// written.
func TestDamage(t *testing.T) {
	eagerly(t)
	path := newPath(t)
	db := open(t, path)
	appendAll(t, db, sampleRecord(1), sampleRecord(2))
	seen := []cache.Observation{{Path: "a", Digest: digestOf("a")}, {Path: "b", Kind: cache.KindGuard, Absent: []string{"c"}}}
	setView(t, db, 7, "note", "plan", seen)
	db.Optimize()
	db.Close()
	good, _ := os.ReadFile(path)
	noticed := 0
	for i := 0; i < len(good); i += 3 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if holdsOnly(t, path, bad, seen) {
			noticed++
		}
		if !holdsOnly(t, path, good[:i], seen) {
			t.Fatalf("%d of %d bytes are taken for all", i, len(good))
		}
	}
	if noticed < len(good)/6 { // the others are of roots that another has replaced, and padding
		t.Errorf("of %d bytes %d matter", len(good)/3, noticed)
	}
}

// holdsOnly reports that something of what TestDamage has written is missing in a file, and fails
// if anything else is there.
func holdsOnly(t *testing.T, path string, content []byte, seen []cache.Observation) (missing bool) {
	t.Helper()
	write(t, path, string(content))
	db := open(t, path)
	for _, i := range []int{1, 2} {
		if r := db.Last(sampleRecord(i).Outputs[0].Path); r != nil {
			same(t, r, sampleRecord(i))
		} else {
			missing = true
		}
	}
	v := db.View([32]byte{7})
	if v == nil || v.Plan() == nil {
		missing = true
	}
	if v != nil && (string(v.Value()) != "note" || v.Plan() != nil && string(v.Plan()) != "plan" || !cmp.Equal([]cache.Observation{v.At(0), v.At(1)}, seen)) {
		t.Fatalf("the view has the note %q, the plan %q and %v", v.Value(), v.Plan(), v.At(0))
	}
	if appendAll(t, db, sampleRecord(4)); len(content)%9 == 0 {
		same(t, reopen(t, db).Last("build/4.o"), sampleRecord(4))
	}
	db.Close()
	return missing
}

func TestReadersWriteNothing(t *testing.T) {
	path := newPath(t)
	write(t, path, "torn")
	for range open(t, path).All() {
		t.Error("a record")
	}
	open(t, path+"absent").Last("x")
	b, _ := os.ReadFile(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	if string(b) != "torn" || len(entries) != 1 {
		t.Error("a reader changed the tree that another process may be building")
	}
}

func TestCompacted(t *testing.T) {
	eagerly(t)
	db := open(t, newPath(t))
	setView(t, db, 7, "note", "plan", []cache.Observation{{Path: "a"}})
	for i := range 20 {
		appendAll(t, db, sampleRecord(1), sampleRecord(2))
		if i == 0 {
			db = reopen(t, db) // from here on, twice the size is too much
		}
	}
	before := db.size
	db = reopen(t, db)
	appendAll(t, db, sampleRecord(3))
	if info, _ := os.Stat(db.name); info.Size() != db.size || db.size > before/3 {
		t.Errorf("%d bytes before, %d after (%d in the file)", before, db.size, info.Size())
	}
	db = reopen(t, db)
	for i := 1; i <= 3; i++ {
		same(t, db.Last(sampleRecord(i).Outputs[0].Path), sampleRecord(i))
	}
	v := db.View([32]byte{7})
	if v == nil || string(v.Value()) != "note" || string(v.Plan()) != "plan" || v.At(0).Path != "a" {
		t.Error("the view is lost")
	}
}

// The file ends in the middle of an entry after a write that a full disk cut short.
func TestRecoversFromFailedWrite(t *testing.T) {
	db := open(t, newPath(t))
	appendAll(t, db, sampleRecord(1))
	db.file.WriteAt([]byte("half an ent"), db.size)
	db.file.Close() // every further write fails
	if db.Append(sampleRecord(2)) == nil {
		t.Fatal("the write did not fail")
	}
	appendAll(t, db, sampleRecord(3))
	db = reopen(t, db)
	same(t, db.Last("build/1.o"), sampleRecord(1))
	same(t, db.Last("build/3.o"), sampleRecord(3))
}

// Who has looked and writes later does not write over what another has written meanwhile.
func TestWrittenByAnother(t *testing.T) {
	first := open(t, newPath(t))
	appendAll(t, first, sampleRecord(1))
	second := open(t, first.name)
	same(t, second.Last("build/1.o"), sampleRecord(1))
	appendAll(t, first, sampleRecord(2))
	first.Optimize()
	first.Close()
	appendAll(t, second, sampleRecord(3))
	second = reopen(t, second)
	for i := 1; i <= 3; i++ {
		same(t, second.Last(sampleRecord(i).Outputs[0].Path), sampleRecord(i))
	}
}

// Against maps, through random appends, removals, views and reopenings, with and without an
// index.
func TestAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	indexed := 0
	eagerly(t)
	for range 8 {
		minIndexed, minCompacted, maxKnown = int64(rng.IntN(5000)), int64(rng.IntN(20000)), 1+rng.IntN(100)
		m := &model{t: t, rng: rng, db: open(t, newPath(t)), records: map[string]*cache.Record{}, views: map[byte]string{}}
		for range 80 {
			m.step()
			m.check()
			if m.db.records.outputs != nil {
				indexed++
			}
		}
	}
	if indexed < 100 {
		t.Errorf("%d of 640 steps had an index", indexed)
	}
}

// model is what a database must hold.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	db      *DB
	records map[string]*cache.Record
	views   map[byte]string
	latest  []byte // keys of views
}

func (m *model) step() {
	r := sampleRecord(m.rng.IntN(12))
	var err error
	switch m.rng.IntN(8) {
	case 0, 1:
		m.db = reopen(m.t, m.db)
	case 2:
		m.db = open(m.t, m.db.name) // the other was killed
	case 3:
		delete(m.records, r.Outputs[0].Path)
		err = m.db.Remove(r.Outputs[0].Path)
	case 4:
		key, text := byte(m.rng.IntN(6)), fmt.Sprint(m.rng.Int())
		m.views[key] = text
		m.latest = append(m.latest, key)
		setView(m.t, m.db, key, text, text, []cache.Observation{{Path: text, Digest: digestOf(text), Stat: cache.Stat{Ino: 1}}})
	default:
		r.Text = fmt.Sprint(m.rng.Int())
		if m.rng.IntN(2) == 0 {
			r.Command = digestOf(r.Text)
		}
		m.records[r.Outputs[0].Path] = r
		err = m.db.Append(r)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) check() {
	m.t.Helper()
	for i := range 12 {
		old := sampleRecord(i)
		want := m.records[old.Outputs[0].Path]
		run := m.db.LastRun(old.Outputs[0].Path) // which must not be remembered as the whole
		same(m.t, m.db.Last(old.Outputs[0].Path), want)
		if want != nil {
			bare, without := *want, *run
			bare.Fields, without.Fields = nil, nil
			same(m.t, &without, &bare)
		}
	}
	if got := maps.Collect(byOutput(m.db)); !cmp.Equal(got, m.records) {
		m.t.Fatal(cmp.Diff(m.records, got))
	}
	m.checkViews()
}

func byOutput(db *DB) func(func(string, *cache.Record) bool) {
	return func(yield func(string, *cache.Record) bool) {
		for r := range db.All() {
			if !yield(r.Outputs[0].Path, r) {
				return
			}
		}
	}
}

// checkViews wants the latest views, and no others.
func (m *model) checkViews() {
	m.t.Helper()
	var kept []byte
	for _, key := range slices.Backward(m.latest) {
		if !slices.Contains(kept, key) {
			kept = append(kept, key)
		}
	}
	for i, key := range kept {
		v, text := m.db.View([32]byte{key}), m.views[key]
		if (v != nil) != (i < maxViews) {
			m.t.Fatalf("view %d of %d: %v", i, len(kept), v)
		}
		if v == nil {
			continue
		}
		if string(v.Value()) != text || string(v.Plan()) != text || v.At(0).Path != text {
			m.t.Fatalf("view %d has the note %q, want %q", i, v.Value(), text)
		}
		if h, ok := m.db.Known(text); !ok || h.Digest != digestOf(text) {
			m.t.Fatalf("the file of view %d is not known: %v", i, h)
		}
	}
}

func TestConcurrently(t *testing.T) {
	db := open(t, newPath(t))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 25 {
				r := sampleRecord(g*25 + i)
				if err := db.Append(r); err != nil {
					t.Error(err)
				}
				db.Last(r.Outputs[0].Path)
				for range db.All() {
				}
			}
		})
	}
	wg.Wait()
	if n := len(slices.Collect(open(t, db.name).All())); n != 100 {
		t.Errorf("%d records", n)
	}
}

func FuzzOpen(f *testing.F) {
	w := &writer{strings: newTable(), pairs: newTable(), at: headSize}
	w.record(sampleRecord(9))
	w.removal("build/9.o")
	blob, _ := trace.Encode([]byte("note"), []cache.Observation{{Path: "a/b", Kind: cache.KindGuard, Absent: []string{"c"}}})
	f.Add(appendEntry(w.b, append(blobHead(headSize+int64(len(w.b))), blob...)))
	f.Add([]byte{kindRecord})
	f.Fuzz(func(t *testing.T, b []byte) {
		path := newPath(t)
		head := append(append([]byte(magic), rootOffset(headSize)...), make([]byte, headSize-len(magic)-12)...)
		// Again with the sums put right, cut at every 64 bytes.
		var sealed []byte
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 64)
			sealed = appendEntry(sealed, rest[:n])
			rest = rest[n:]
		}
		for _, b := range [][]byte{b, sealed} {
			write(t, path, string(append(head, b...)))
			db := open(t, path)
			for r := range db.All() {
				again := open(t, newPath(t))
				appendAll(t, again, r)
				same(t, again.Last(r.Outputs[0].Path), r)
			}
			db.View([32]byte{})
			db.Known("a")
			appendAll(t, db, sampleRecord(1))
			same(t, reopen(t, db).Last("build/1.o"), sampleRecord(1))
		}
	})
}

// A project of 2,000 sources that read 500 headers each, out of 1,500.
func bigDB(b *testing.B) (path string, outputs []string) {
	db := open(b, newPath(b))
	for i := range 2000 {
		r := sampleRecord(i)
		r.Discovered, r.Absent = nil, nil
		for h := range 500 {
			n := (h*3 + i%3) % 1500
			r.Discovered = append(r.Discovered, cache.FileDigest{Path: fmt.Sprintf("/usr/local/cuda/include/cub/block/header_%d.cuh", n), Digest: digestOf(fmt.Sprint(n))})
		}
		for a := range 200 {
			r.Absent = append(r.Absent, fmt.Sprintf("src/include/header_%d.cuh", a))
		}
		appendAll(b, db, r)
		outputs = append(outputs, r.Outputs[0].Path)
	}
	b.ReportMetric(float64(db.size)/1e6, "MB")
	db.Optimize()
	db.Close()
	return db.name, outputs
}

func BenchmarkLookUpAll(b *testing.B) {
	path, outputs := bigDB(b)
	for b.Loop() {
		db := open(b, path)
		for _, o := range outputs {
			if db.Last(o) == nil {
				b.Fatal("a record is lost")
			}
		}
	}
}

func BenchmarkLookUpOne(b *testing.B) {
	path, outputs := bigDB(b)
	for b.Loop() {
		db := open(b, path)
		if db.Last(outputs[1000]) == nil {
			b.Fatal("a record is lost")
		}
		db.Close()
	}
}

func BenchmarkAppend(b *testing.B) {
	db := open(b, newPath(b))
	i := 0
	for b.Loop() {
		appendAll(b, db, sampleRecord(i))
		i++
	}
}

// Who has only looked holds no lock any more when it closes the database: nothing is written then.
func TestCloseWritesNothing(t *testing.T) {
	eagerly(t)
	db := open(t, newPath(t))
	for range 20 {
		appendAll(t, db, sampleRecord(1))
	}
	before, _ := os.ReadFile(db.name)
	db.Close()
	if after, _ := os.ReadFile(db.name); !bytes.Equal(before, after) {
		t.Errorf("%d bytes were written, now there are %d", len(before), len(after))
	}
}

// A process reads what it has written since it opened the file, whether the file is mapped or not.
func TestReadsWhatItWrote(t *testing.T) {
	for _, mapped := range []bool{true, false} {
		db := open(t, newPath(t))
		r := sampleRecord(1)
		appendAll(t, db, r)
		if !mapped {
			db.data, db.mapped = bytes.Clone(db.data), false
		}
		r.Text = string(make([]byte, 1<<19))
		for i := range 5 {
			r := *r
			r.Outputs = []cache.Output{{Path: fmt.Sprint("o", i)}}
			appendAll(t, db, &r)
			db.records.byOutput[r.Outputs[0].Path].rec = nil // decoded records are not kept for ever
			same(t, db.Last(r.Outputs[0].Path), &r)
		}
	}
}
