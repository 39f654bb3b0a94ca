package trace

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cache"
)

// folder is a folder with a trace of it.
type folder struct {
	t    *testing.T
	root string
	s    *Trace
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// newTree has n files in each of three folders, one of them empty of x.h, and a path that is
// absent.
func newTree(t *testing.T, n int) *folder {
	t.Helper()
	tr := &folder{t: t, root: t.TempDir()}
	var entries []cache.Observation
	file := func(name, text string) {
		write(t, filepath.Join(tr.root, name), text)
		d, err := cache.DigestFile(filepath.Join(tr.root, name))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, cache.Observation{Path: name, Digest: d, Stat: tr.stat(name)})
	}
	for i := range n {
		for _, d := range []string{"a/", "a/b/", ""} {
			file(fmt.Sprintf("%sf%d", d, i), fmt.Sprint(d, i))
		}
	}
	file("known by stat", "x")
	entries[len(entries)-1].Digest = cache.Digest{}
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "y")
	entries = append(entries, cache.Observation{Path: outside, Stat: tr.stat(outside)})
	os.MkdirAll(filepath.Join(tr.root, "inc"), 0o777)
	os.MkdirAll(filepath.Join(tr.root, "src"), 0o777)
	names, _ := os.ReadDir(filepath.Join(tr.root, "src"))
	entries = append(entries,
		cache.Observation{Path: "gone/x.h", Kind: cache.KindAbsent},
		cache.Observation{Path: "inc", Kind: cache.KindGuard, Stat: tr.stat("inc"), Absent: []string{"x.h", "y.h"}},
		cache.Observation{Path: "src", Kind: cache.KindFolder, Stat: tr.stat("src"), Digest: namesDigest(names)})
	tr.s = encoded(t, nil, "value", entries)
	return tr
}

// encoded returns the trace with the blob of old, if there is one, as base.
func encoded(t testing.TB, old *Trace, value string, list []cache.Observation) *Trace {
	t.Helper()
	var base, top []byte
	var err error
	if old == nil {
		base, err = Encode([]byte(value), list)
	} else if blob, isBase, e := old.Merge([]byte(value), list); isBase {
		base, err = blob, e
	} else {
		top, err = blob, e
		base, _ = Encode(old.base.value, old.base.without(nil, nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(base, top)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (tr *folder) stat(name string) cache.Stat {
	tr.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(tr.root, name)
	}
	st, err := cache.StatFile(name)
	if err != nil {
		tr.t.Fatal(err)
	}
	return st
}

// changed gives the paths that are not as they were: by stat, and of those by content.
func (tr *folder) changed() (byStat, byContent []string) {
	tr.t.Helper()
	ids, err := tr.s.Changed(tr.root)
	if err != nil {
		tr.t.Fatal(err)
	}
	slices.Sort(ids)
	for _, i := range ids {
		byStat = append(byStat, tr.s.At(i).Path)
		if _, ok := tr.s.Rehash(tr.root, i); !ok {
			byContent = append(byContent, tr.s.At(i).Path)
		}
	}
	return byStat, byContent
}

func TestChanged(t *testing.T) {
	inTree := func(f func(root string)) func(*folder) { return func(tr *folder) { f(tr.root) } }
	tests := []struct {
		name    string
		change  func(*folder)
		stat    string
		content string
	}{
		{name: "nothing", change: inTree(func(string) {})},
		{name: "touched", change: inTree(func(r string) { write(t, r+"/a/f3", "a/3") }), stat: "a/f3"},
		{name: "edited", change: inTree(func(r string) { write(t, r+"/a/b/f3", "a/b/4") }), stat: "a/b/f3", content: "a/b/f3"},
		{name: "removed", change: inTree(func(r string) { os.Remove(r + "/f3") }), stat: "f3", content: "f3"},
		{name: "replaced by its like", change: inTree(func(r string) { write(t, r+"/new", "3"); os.Rename(r+"/new", r+"/f3") }), stat: "f3"},
		{name: "another mode", change: inTree(func(r string) { os.Chmod(r+"/f3", 0o755) }), stat: "f3", content: "f3"},
		{name: "another mode that nobody asks for", change: inTree(func(r string) { os.Chmod(r+"/f3", 0o600) }), stat: "f3"},
		{name: "only stat can tell", change: inTree(func(r string) { write(t, r+"/known by stat", "x") }), stat: "known by stat", content: "known by stat"},
		{name: "a folder's name in its place", change: inTree(func(r string) { os.RemoveAll(r + "/a/b"); write(t, r+"/a/b", "") }),
			stat: "a/b/f0 a/b/f1 a/b/f2 a/b/f3 a/b/f4 a/b/f5 a/b/f6 a/b/f7", content: "a/b/f0 a/b/f1 a/b/f2 a/b/f3 a/b/f4 a/b/f5 a/b/f6 a/b/f7"},
		{name: "what must be absent", change: inTree(func(r string) { write(t, r+"/gone/x.h", "") }), stat: "gone/x.h", content: "gone/x.h"},
		{name: "its folder alone", change: inTree(func(r string) { os.Mkdir(r+"/gone", 0o777) })},
		{name: "another name in a guarded folder", change: inTree(func(r string) { write(t, r+"/inc/z.h", "") }), stat: "inc"},
		{name: "a guarded name", change: inTree(func(r string) { write(t, r+"/inc/y.h", "") }), stat: "inc", content: "inc"},
		{name: "a guarded name that leads nowhere", change: inTree(func(r string) { os.Symlink("nowhere", r+"/inc/y.h") }), stat: "inc", content: "inc"},
		{name: "no guarded folder", change: inTree(func(r string) { os.Remove(r + "/inc") }), stat: "inc", content: "inc"},
		{name: "a name in a listed folder", change: inTree(func(r string) { write(t, r+"/src/z.h", "") }), stat: "src", content: "src"},
		{name: "a name that came and went", change: inTree(func(r string) { write(t, r+"/src/z.h", ""); os.Remove(r + "/src/z.h") }), stat: "src"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(t, 8)
			tt.change(tr)
			stat, content := tr.changed()
			if strings.Join(stat, " ") != tt.stat || strings.Join(content, " ") != tt.content {
				t.Errorf("changed by stat %q, by content %q; want %q and %q", stat, content, tt.stat, tt.content)
			}
		})
	}
}

// Many files are looked at from several goroutines, in chunks that cut through folders.
// Other names that come and go in a folder do not matter to what must stay absent in it.
func TestBusyFolder(t *testing.T) {
	root := t.TempDir()
	guard := cache.Observation{Path: root, Kind: cache.KindGuard, Absent: []string{"x.h"}}
	tr := encoded(t, nil, "", []cache.Observation{guard})
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range 500 {
			name := filepath.Join(root, fmt.Sprint(i))
			os.Mkdir(name, 0o777)
			os.Remove(name)
		}
	}()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
		}
		if _, ok := tr.Rehash("", 0); !ok {
			t.Fatal("a busy folder counts as changed")
		}
	}
	write(t, filepath.Join(root, "x.h"), "")
	if _, ok := tr.Rehash("", 0); ok {
		t.Error("x.h is not noticed")
	}
}

func TestManyFiles(t *testing.T) {
	tr := newTree(t, 700)
	if stat, _ := tr.changed(); stat != nil {
		t.Errorf("changed: %q", stat)
	}
	var want []string
	for i := 0; i < 700; i += 7 {
		for _, d := range []string{"", "a/", "a/b/"} {
			name := fmt.Sprintf("%sf%d", d, i)
			write(t, filepath.Join(tr.root, name), "z")
			want = append(want, name)
		}
	}
	_, got := tr.changed()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d files changed, want %d", len(got), len(want))
	}
}

// TestMerge makes random merges and holds what is read back to a map.
func TestMerge(t *testing.T) {
	tr := newTree(t, 40)
	want := map[string]cache.Observation{}
	for _, e := range tr.all() {
		want[e.Path] = e
	}
	layers := 0
	for round := range 30 {
		var entries []cache.Observation
		for k := range 1 + round%3 {
			e := cache.Observation{Path: fmt.Sprintf("a/f%d", (7*round+k)%60), Kind: cache.Kind(round % 2 * int(cache.KindGuard)), Stat: cache.Stat{Size: int64(round + 1)}}
			if e.Kind == cache.KindGuard {
				e.Absent = []string{"x", fmt.Sprint(round)}
			}
			entries = append(entries, e)
			want[e.Path] = e
		}
		tr.s = encoded(t, tr.s, fmt.Sprint("value", round), entries)
		got := map[string]cache.Observation{}
		for i, e := range tr.all() {
			if _, twice := got[e.Path]; twice {
				t.Fatalf("round %d: %s stands twice", round, e.Path)
			}
			got[e.Path] = e
			if k, ok := tr.s.Find(e.Path); !ok || k != i {
				t.Fatalf("round %d: %s is found at %d, %v; want %d", round, e.Path, k, ok, i)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d (-want +got):\n%s", round, diff)
		}
		if string(tr.s.Value()) != fmt.Sprint("value", round) {
			t.Fatalf("round %d: value %q", round, tr.s.Value())
		}
		if tr.s.top != nil {
			layers++
		}
	}
	if layers == 0 || layers == 30 {
		t.Errorf("%d of 30 snapshots have a second layer", layers)
	}
	if _, ok := tr.s.Find("a/b"); ok {
		t.Error("a path without an entry is found")
	}
}

// all gives the observations of the view.
func (tr *folder) all() iter.Seq2[int, cache.Observation] {
	return func(yield func(int, cache.Observation) bool) {
		for i := range tr.s.base.entries {
			if !tr.s.hidden[i] && !yield(i, tr.s.At(i)) {
				return
			}
		}
		if tr.s.top == nil {
			return
		}
		for k := range tr.s.top.entries {
			if i := k + len(tr.s.base.entries); !yield(i, tr.s.At(i)) {
				return
			}
		}
	}
}

// What a second layer says of a path is what counts, whatever the first says.
func TestChangedInTwoLayers(t *testing.T) {
	tr := newTree(t, 40)
	write(t, filepath.Join(tr.root, "f1"), "new")
	d, _ := cache.DigestFile(filepath.Join(tr.root, "f1"))
	tr.s = encoded(t, tr.s, "", []cache.Observation{{Path: "f1", Digest: d}, {Path: "f2", Digest: d, Stat: tr.stat("f2")}})
	if tr.s.top == nil {
		t.Fatal("no second layer")
	}
	if all := tr.s.All(); all[len(tr.s.base.entries)].Digest != d {
		t.Errorf("all are %d, and the second layer is not among them", len(all))
	}
	stat, content := tr.changed()
	if strings.Join(stat, " ") != "f1" || content != nil {
		t.Errorf("changed by stat %q, by content %q", stat, content)
	}
	write(t, filepath.Join(tr.root, "f2"), "other")
	if _, content := tr.changed(); strings.Join(content, " ") != "f2" {
		t.Errorf("changed by content %q", content)
	}
}

// Looking makes no garbage: what is allocated does not grow with the files.
func TestLookingAllocatesNothing(t *testing.T) {
	tr := newTree(t, 300)
	allocs := testing.AllocsPerRun(5, func() {
		if ids, err := tr.s.Changed(tr.root); err != nil || len(ids) > 0 {
			t.Errorf("changed: %d entries, %v", len(ids), err)
		}
	})
	if allocs > 40 {
		t.Errorf("%.0f allocations", allocs)
	}
}

func BenchmarkChanged(b *testing.B) {
	root := b.TempDir()
	var entries []cache.Observation
	for i := range 3000 {
		name := fmt.Sprintf("d%d/f%d", i/100, i)
		os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777)
		os.WriteFile(filepath.Join(root, name), nil, 0o666)
		st, err := cache.StatFile(filepath.Join(root, name))
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, cache.Observation{Path: name, Stat: st})
	}
	s := encoded(b, nil, "", entries)
	b.ReportAllocs()
	for b.Loop() {
		if ids, err := s.Changed(root); err != nil || len(ids) > 0 {
			b.Fatal(len(ids), err)
		}
	}
}

func TestFile(t *testing.T) {
	name, key := filepath.Join(t.TempDir(), "trace"), cache.Key{1, 2, 3}
	list := []cache.Observation{{Path: "a/b", Stat: cache.Stat{Size: 3}}, {Path: "c", Kind: cache.KindAbsent}}
	b, err := EncodeFile(key, []byte("value"), list)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(b))
	s := ReadFile(name, key)
	if s == nil || string(s.Value()) != "value" {
		t.Fatal("the trace is not read back")
	}
	if diff := gocmp.Diff(list, s.All()); diff != "" {
		t.Error(diff)
	}
	if ReadFile(name, cache.Key{}) != nil || ReadFile(name+"x", key) != nil {
		t.Error("a trace of another key, or of no file")
	}
	for i := range b {
		damaged := slices.Clone(b)
		damaged[i] ^= 4
		write(t, name, string(damaged))
		if s := ReadFile(name, key); s != nil {
			t.Errorf("byte %d is damaged, and the trace is read", i)
		}
		write(t, name, string(b[:i]))
		if s := ReadFile(name, key); s != nil {
			t.Errorf("%d bytes are read as a trace", i)
		}
	}
}

func FuzzOpen(f *testing.F) {
	blob, _ := Encode([]byte("value"), []cache.Observation{{Path: "a/b", Kind: cache.KindGuard, Absent: []string{"c"}}})
	f.Add(blob, blob)
	f.Fuzz(func(t *testing.T, base, top []byte) {
		if s, err := Open(aligned(base), aligned(top)); err == nil {
			s.All()
			s.Find("a")
		}
	})
}

func aligned(b []byte) []byte { return append(make([]byte, 0, len(b)+16), b...) }
