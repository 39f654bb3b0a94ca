package cache

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sampleRecord(i int) *Record {
	r := &Record{
		Command: digestOf(fmt.Sprint("command", i)),
		Fields:  []Field{{"arg", "-O2"}, {"input", fmt.Sprint("src/ä ", i, ".cu")}},
		Outputs: []Output{{fmt.Sprint("build/", i, ".o"), digestOf(fmt.Sprint(i)), int64(i), i%2 == 0, i%3 == 0}, {"build/x.d", digestOf("d"), 1 << 40, false, true}},
		Absent:  []string{"a/b.h"},
		Text:    "warning: ä\n",
		Elapsed: time.Second, CPU: 2 * time.Second, MaxRSS: 1 << 33,
		Made: time.Unix(1700000000, int64(i)).UTC(),
	}
	for f := range i % 3 {
		r.Functions = append(r.Functions, Function{fmt.Sprint("_Z1kv", f), "sm_80", f == 1, i, 2, 3, 4, 5, 6, 7 + f})
	}
	for h := range i % 5 {
		r.Discovered = append(r.Discovered, FileDigest{fmt.Sprint("inc/", h, ".h"), digestOf(fmt.Sprint("h", h))})
	}
	return r
}

func openJournal(t testing.TB, path string) *Journal {
	t.Helper()
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func appendAll(t testing.TB, j *Journal, records ...*Record) {
	t.Helper()
	for _, r := range records {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func same(t *testing.T, got, want *Record) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record differs (-want +got):\n%s", diff)
	}
}

func TestJournalRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "journal")
	j := openJournal(t, path)
	bare := &Record{Outputs: []Output{{Path: "bare"}}}
	appendAll(t, j, sampleRecord(1), sampleRecord(2), sampleRecord(9), bare)
	for _, j := range []*Journal{j, openJournal(t, path)} {
		same(t, j.Last("build/9.o"), sampleRecord(9))
		same(t, j.ByCommand(sampleRecord(2).Command), sampleRecord(2))
		same(t, j.Last("bare"), bare)
		if j.Last("build/x.d") != nil || j.ByCommand(Key{1}) != nil {
			t.Error("a record was found under a name it does not have")
		}
		all := j.All()
		if len(all) != 4 || all[0].Outputs[0].Path != "bare" || all[3].Outputs[0].Path != "build/9.o" {
			t.Errorf("%d records, or not sorted", len(all))
		}
	}
}

func TestJournalLastRunWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	second := sampleRecord(1)
	second.Command = digestOf("another command")
	appendAll(t, j, sampleRecord(1), second, sampleRecord(3))
	if err := j.Remove("build/3.o"); err != nil {
		t.Fatal(err)
	}
	for _, j := range []*Journal{j, openJournal(t, path)} {
		same(t, j.Last("build/1.o"), second)
		if j.ByCommand(sampleRecord(1).Command) != nil {
			t.Error("the older run is still found by its key")
		}
		if j.Last("build/3.o") != nil || j.ByCommand(sampleRecord(3).Command) != nil {
			t.Error("a removed record is found")
		}
	}
}

// A process killed in mid-write leaves a prefix of the file.
func TestJournalTornTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	appendAll(t, j, sampleRecord(1))
	whole := j.size
	appendAll(t, j, sampleRecord(2))
	b, _ := os.ReadFile(path)
	if int64(len(b)) != j.size {
		t.Fatalf("size is %d, file has %d", j.size, len(b))
	}
	for cut := range b {
		writeFile(t, path, string(b[:cut]))
		j := openJournal(t, path)
		if int64(cut) >= whole {
			same(t, j.Last("build/1.o"), sampleRecord(1))
		}
		if j.Last("build/2.o") != nil {
			t.Fatalf("cut to %d of %d bytes: the torn record is found", cut, len(b))
		}
		if cut%7 != 0 {
			continue
		}
		appendAll(t, j, sampleRecord(4)) // after which the file is whole again
		same(t, openJournal(t, path).Last("build/4.o"), sampleRecord(4))
	}
}

func TestJournalDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	appendAll(t, j, sampleRecord(1), sampleRecord(2))
	good, _ := os.ReadFile(path)
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x40
		writeFile(t, path, string(bad))
		for _, r := range openJournal(t, path).All() { // what is left must be right
			if want := sampleRecord(1); r.Outputs[0].Path == want.Outputs[0].Path {
				same(t, r, want)
			} else {
				same(t, r, sampleRecord(2))
			}
		}
		name := len(journalMagic) <= i && i < journalHead // which only tells journals apart
		if len(openJournal(t, path).All()) == 2 && !name {
			t.Fatalf("a flipped bit in byte %d is not noticed", i)
		}
	}
}

func TestOpenJournalWritesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	writeFile(t, path, "torn")
	openJournal(t, path).All()
	openJournal(t, filepath.Join(dir, "absent")).Last("x")
	b, _ := os.ReadFile(path)
	entries, _ := os.ReadDir(dir)
	if string(b) != "torn" || len(entries) != 1 {
		t.Error("a reader changed the tree that another process may be building")
	}
}

func TestJournalIsCompacted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for range 20 {
		appendAll(t, j, sampleRecord(1), sampleRecord(2))
	}
	before := j.size
	j = openJournal(t, path)
	appendAll(t, j, sampleRecord(3))
	if info, _ := os.Stat(path); info.Size() != j.size || j.size > before/3 {
		t.Errorf("%d bytes before, %d after (%d in the file)", before, j.size, info.Size())
	}
	j = openJournal(t, path)
	for i := 1; i <= 3; i++ {
		same(t, j.Last(sampleRecord(i).Outputs[0].Path), sampleRecord(i))
	}
}

// The file ends in the middle of an entry after a write that a full disk cut short.
func TestJournalRecoversFromFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	appendAll(t, j, sampleRecord(1))
	j.file.Write([]byte("half an ent"))
	j.file.Close() // every further write fails
	if j.Append(sampleRecord(2)) == nil {
		t.Fatal("the write did not fail")
	}
	appendAll(t, j, sampleRecord(3))
	j = openJournal(t, path)
	same(t, j.Last("build/1.o"), sampleRecord(1))
	same(t, j.Last("build/3.o"), sampleRecord(3))
}

// Against a map, through random appends, removals and reopenings.
func TestJournalAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		path := filepath.Join(t.TempDir(), "journal")
		j, model := openJournal(t, path), map[string]*Record{}
		for range 60 {
			r := sampleRecord(rng.IntN(8))
			switch rng.IntN(4) {
			case 0:
				j.Close()
				j = openJournal(t, path)
			case 1:
				delete(model, r.Outputs[0].Path)
				if err := j.Remove(r.Outputs[0].Path); err != nil {
					t.Fatal(err)
				}
			default:
				r.Text = fmt.Sprint(rng.Int())
				model[r.Outputs[0].Path] = r
				appendAll(t, j, r)
			}
			got := map[string]*Record{}
			for _, r := range j.All() {
				got[r.Outputs[0].Path] = r
			}
			if diff := cmp.Diff(model, got); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

// A journal that is opened by its index answers as one that was read whole, however much was appended to it since, by
// whichever way it was opened.
func TestJournalIndex(t *testing.T) {
	defer func(n int) { minIndexed = n }(minIndexed)
	minIndexed = 1
	rng := rand.New(rand.NewPCG(5, 6))
	byIndex := 0
	for range 20 {
		path := filepath.Join(t.TempDir(), "journal")
		j, model := openJournal(t, path), map[string]*Record{}
		reopen := func() {
			j.Close()
			var err error
			if rng.IntN(3) == 0 {
				j, err = OpenJournal(path)
			} else if j, err = OpenJournalByIndex(path); err == nil && j.index != nil {
				byIndex++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 80 {
			r := sampleRecord(rng.IntN(12))
			switch rng.IntN(6) {
			case 0:
				reopen()
			case 1:
				if err := j.WriteIndex(); err != nil {
					t.Fatal(err)
				}
			case 2:
				delete(model, r.Outputs[0].Path)
				if err := j.Remove(r.Outputs[0].Path); err != nil {
					t.Fatal(err)
				}
			default:
				r.Text = fmt.Sprint(rng.Int())
				if rng.IntN(2) == 0 {
					r.Command = digestOf(r.Text)
				}
				model[r.Outputs[0].Path] = r
				appendAll(t, j, r)
			}
			for i := range 12 {
				output := sampleRecord(i).Outputs[0].Path
				want := model[output]
				same(t, j.Last(output), want)
				if want != nil {
					same(t, j.ByCommand(want.Command), want)
				}
				old := sampleRecord(i).Command
				if want == nil || want.Command != old {
					if got := j.ByCommand(old); got != nil {
						t.Fatalf("a record that does not count any more is found by its command: %v", got.Outputs[0])
					}
				}
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		j.Close()
	}
	if byIndex < 50 {
		t.Errorf("%d journals were opened by their index", byIndex)
	}
}

// A damaged index is none; a damaged journal under a good index loses records and makes none up.
func TestJournalIndexDamage(t *testing.T) {
	defer func(n int) { minIndexed = n }(minIndexed)
	minIndexed = 1
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	appendAll(t, j, sampleRecord(1), sampleRecord(2))
	if err := j.WriteIndex(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + "-index"} {
		good, _ := os.ReadFile(file)
		for i := 0; i < len(good); i += 3 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 0x40
			writeFile(t, file, string(bad))
			got, err := OpenJournalByIndex(path)
			if err != nil {
				t.Fatal(err)
			}
			if file != path && got.index != nil {
				t.Fatalf("byte %d of the index is another, and nobody noticed", i)
			}
			for k := 1; k <= 2; k++ {
				if r := got.Last(sampleRecord(k).Outputs[0].Path); r != nil {
					same(t, r, sampleRecord(k))
				}
			}
			got.Close()
		}
		writeFile(t, file, string(good))
	}
}

// An index that stands beside another journal is none, though every offset in it fits.
func TestJournalIndexOfAnother(t *testing.T) {
	defer func(n int) { minIndexed = n }(minIndexed)
	minIndexed = 1
	var paths []string
	for _, text := range []string{"one", "two"} {
		path := filepath.Join(t.TempDir(), "journal")
		j, r := openJournal(t, path), sampleRecord(1)
		r.Outputs[0].Path, r.Text = text, text
		appendAll(t, j, r)
		if err := j.WriteIndex(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	if err := os.Rename(paths[0]+"-index", paths[1]+"-index"); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournalByIndex(paths[1])
	if err != nil || j.index != nil || j.Last("two") == nil {
		t.Errorf("%v; the index was believed: %v", err, j.index != nil)
	}
	j.Close()
}

func TestJournalConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 25 {
				r := sampleRecord(g*25 + i)
				if err := j.Append(r); err != nil {
					t.Error(err)
				}
				j.ByCommand(r.Command)
				j.All()
			}
		})
	}
	wg.Wait()
	if n := len(openJournal(t, path).All()); n != 100 {
		t.Errorf("%d records", n)
	}
}

func FuzzJournal(f *testing.F) {
	w := &entries{j: &Journal{}}
	w.record(sampleRecord(9))
	w.removal("build/9.o")
	f.Add(w.b)
	f.Add([]byte{kindRecord})
	f.Fuzz(func(t *testing.T, b []byte) {
		j := &Journal{byOutput: map[string]*logged{}, byCommand: map[Key]*logged{}}
		j.load(append([]byte(journalMagic), b...))
		// Again with the sums put right, cut at every 64 bytes or where the lengths say.
		sealed := &entries{j: j}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 64)
			sealed.add(rest[:n])
			rest = rest[n:]
		}
		j.load(append([]byte(journalMagic), sealed.b...))
		j.parseRecord(b)
		for _, r := range j.All() {
			out := &Journal{byOutput: map[string]*logged{}, byCommand: map[Key]*logged{}}
			w := &entries{j: out, b: []byte(journalMagic)}
			w.record(r)
			out = &Journal{byOutput: map[string]*logged{}, byCommand: map[Key]*logged{}}
			out.load(w.b)
			if diff := cmp.Diff([]*Record{r}, out.All()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// A project of 2,000 sources that read 500 headers each, out of 1,500.
func bigJournal(b *testing.B) (path string, command []Key) {
	path = filepath.Join(b.TempDir(), "journal")
	j := openJournal(b, path)
	for i := range 2000 {
		r := sampleRecord(i)
		r.Discovered, r.Absent = nil, nil
		for h := range 500 {
			n := (h*3 + i%3) % 1500
			r.Discovered = append(r.Discovered, FileDigest{fmt.Sprintf("/usr/local/cuda/include/cub/block/header_%d.cuh", n), digestOf(fmt.Sprint(n))})
		}
		for a := range 200 {
			r.Absent = append(r.Absent, fmt.Sprintf("src/include/header_%d.cuh", a))
		}
		appendAll(b, j, r)
		command = append(command, r.Command)
	}
	b.ReportMetric(float64(j.size)/1e6, "MB")
	return path, command
}

func BenchmarkOpenJournal2000(b *testing.B) {
	path, _ := bigJournal(b)
	for b.Loop() {
		OpenJournal(path)
	}
}

func BenchmarkOpenAndDecodeJournal2000(b *testing.B) {
	path, commands := bigJournal(b)
	for b.Loop() {
		j, _ := OpenJournal(path)
		for _, c := range commands {
			if j.ByCommand(c) == nil {
				b.Fatal("missing")
			}
		}
	}
}
