package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cache"
)

// tree is a folder with a snapshot of it.
type tree struct {
	t    *testing.T
	root string
	file string
	s    *Snapshot
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// newTree has n files in each of three folders, one of them empty of x.h, and a path that is absent.
func newTree(t *testing.T, n int) *tree {
	t.Helper()
	tr := &tree{t: t, root: t.TempDir(), file: filepath.Join(t.TempDir(), "snapshot")}
	var entries []Entry
	file := func(name, text string) {
		write(t, filepath.Join(tr.root, name), text)
		d, err := cache.DigestFile(filepath.Join(tr.root, name))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Path: name, Digest: d, Stat: tr.stat(name)})
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
	entries = append(entries, Entry{Path: outside, Stat: tr.stat(outside)})
	os.MkdirAll(filepath.Join(tr.root, "inc"), 0o777)
	os.MkdirAll(filepath.Join(tr.root, "src"), 0o777)
	listing, _ := FolderDigest(filepath.Join(tr.root, "src"))
	entries = append(entries,
		Entry{Path: "gone/x.h", Kind: Absent},
		Entry{Path: "inc", Kind: Guard, Stat: tr.stat("inc"), Absent: []string{"x.h", "y.h"}},
		Entry{Path: "src", Kind: Folder, Stat: tr.stat("src"), Digest: listing})
	if err := Write(tr.file, [32]byte{1, 2, 3}, []byte("note"), entries); err != nil {
		t.Fatal(err)
	}
	tr.open()
	return tr
}

func (tr *tree) open() {
	tr.t.Helper()
	s, err := Open(tr.file)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.s = s
	tr.t.Cleanup(func() { s.Close() })
}

func (tr *tree) stat(name string) cache.Stat {
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
func (tr *tree) changed() (byStat, byContent []string) {
	tr.t.Helper()
	ids, err := tr.s.Changed(tr.root)
	if err != nil {
		tr.t.Fatal(err)
	}
	slices.Sort(ids)
	for _, i := range ids {
		byStat = append(byStat, tr.s.Path(i))
		if _, ok := tr.s.Settle(tr.root, i); !ok {
			byContent = append(byContent, tr.s.Path(i))
		}
	}
	return byStat, byContent
}

func TestChanged(t *testing.T) {
	inTree := func(f func(root string)) func(*tree) { return func(tr *tree) { f(tr.root) } }
	tests := []struct {
		name    string
		change  func(*tree)
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

func TestRefresh(t *testing.T) {
	tr := newTree(t, 3)
	write(t, filepath.Join(tr.root, "f1"), "1")
	ids, _ := tr.s.Changed(tr.root)
	if len(ids) != 1 {
		t.Fatalf("%d entries changed", len(ids))
	}
	st, ok := tr.s.Settle(tr.root, ids[0])
	if !ok {
		t.Fatal("equal content is a change")
	}
	if err := tr.s.Refresh(tr.file, map[int]cache.Stat{ids[0]: st}); err != nil {
		t.Fatal(err)
	}
	tr.open()
	if stat, _ := tr.changed(); stat != nil {
		t.Errorf("after the refresh changed: %q", stat)
	}
	if tr.s.Key() != [32]byte{1, 2, 3} || string(tr.s.Note()) != "note" {
		t.Error("the refresh lost the key or the note")
	}
}

// TestUpdate makes random updates and holds what is read back to a map.
func TestUpdate(t *testing.T) {
	tr := newTree(t, 40)
	want := map[string]Entry{}
	for _, e := range tr.s.All() {
		want[e.Path] = e
	}
	layers := 0
	for round := range 30 {
		var entries []Entry
		for k := range 1 + round%3 {
			e := Entry{Path: fmt.Sprintf("a/f%d", (7*round+k)%60), Kind: Kind(round % 2 * int(Guard)), Stat: cache.Stat{Size: int64(round + 1)}}
			if e.Kind == Guard {
				e.Absent = []string{"x", fmt.Sprint(round)}
			}
			entries = append(entries, e)
			want[e.Path] = e
		}
		if err := tr.s.Update(tr.file, []byte(fmt.Sprint("note", round)), entries); err != nil {
			t.Fatal(err)
		}
		tr.open()
		got := map[string]Entry{}
		for i, e := range tr.s.All() {
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
		if string(tr.s.Note()) != fmt.Sprint("note", round) || tr.s.Key() != [32]byte{1, 2, 3} {
			t.Fatalf("round %d: note %q", round, tr.s.Note())
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
	// A second layer of another file, or a damaged one, is none.
	before := len(got(tr.s))
	os.WriteFile(tr.file+topSuffix, []byte("garbage"), 0o666)
	tr.open()
	if tr.s.top != nil || len(got(tr.s)) == 0 || len(got(tr.s)) > before {
		t.Errorf("%d entries beside garbage, %d before", len(got(tr.s)), before)
	}
	Write(tr.file+topSuffix, [32]byte{9}, nil, []Entry{{Path: "other"}})
	tr.open()
	if _, ok := tr.s.Find("other"); ok {
		t.Error("the second layer of another file is read")
	}
}

func got(s *Snapshot) map[string]Entry {
	m := map[string]Entry{}
	for _, e := range s.All() {
		m[e.Path] = e
	}
	return m
}

// What a second layer says of a path is what counts, whatever the first says.
func TestChangedInTwoLayers(t *testing.T) {
	tr := newTree(t, 40)
	write(t, filepath.Join(tr.root, "f1"), "new")
	d, _ := cache.DigestFile(filepath.Join(tr.root, "f1"))
	if err := tr.s.Update(tr.file, nil, []Entry{{Path: "f1", Digest: d}, {Path: "f2", Digest: d, Stat: tr.stat("f2")}}); err != nil {
		t.Fatal(err)
	}
	tr.open()
	if tr.s.top == nil {
		t.Fatal("no second layer")
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

// TestDamage cuts the file at every length and turns a bit of every byte.
func TestDamage(t *testing.T) {
	tr := newTree(t, 2)
	good, err := os.ReadFile(tr.file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if _, err := parse(slices.Clone(good[:n])); err == nil {
			t.Fatalf("%d of %d bytes are taken for a snapshot", n, len(good))
		}
		bad := slices.Clone(good)
		bad[n] ^= 0x10
		if _, err := parse(bad); err == nil {
			t.Fatalf("byte %d of %d is another, and nobody noticed", n, len(good))
		}
	}
	if _, err := parse(append(slices.Clone(good), 0)); err == nil {
		t.Error("a longer file is taken for a snapshot")
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
	var entries []Entry
	for i := range 3000 {
		name := fmt.Sprintf("d%d/f%d", i/100, i)
		os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777)
		os.WriteFile(filepath.Join(root, name), nil, 0o666)
		st, err := cache.StatFile(filepath.Join(root, name))
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, Entry{Path: name, Stat: st})
	}
	file := filepath.Join(root, "snapshot")
	if err := Write(file, [32]byte{}, nil, entries); err != nil {
		b.Fatal(err)
	}
	s, err := Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if ids, err := s.Changed(root); err != nil || len(ids) > 0 {
			b.Fatal(len(ids), err)
		}
	}
}

// FuzzParse gives parse bytes with a good sum: what it accepts can be walked.
func FuzzParse(f *testing.F) {
	b, err := encode([32]byte{}, []byte("n"), []Entry{{Path: "a/b"}, {Path: "c", Kind: Guard, Absent: []string{"d"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clone(b)
		if len(b) >= headSize {
			copy(b, magic)
			seal(b)
		}
		s, err := parse(b)
		if err != nil {
			return
		}
		for i := range s.entries {
			s.Path(i)
			e := &s.entries[i]
			for _, off := range s.names[e.names : e.names+e.nameCount] {
				s.str(off)
			}
		}
	})
}
