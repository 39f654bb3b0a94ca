package disk

import (
	"archive/tar"
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/cache"
)

// entry is a record whose command is the key over its fields, as those of a build are.
func entry(t testing.TB, s *Store, name string, contents ...string) *cache.Record {
	t.Helper()
	r, file := action(t, name, contents...)
	r.Command = cache.KeyOf(r.Fields)
	r.Outputs = append(r.Outputs, cache.Output{Path: "build/text", Digest: digestOf(name), Size: 7, Unkept: true})
	if err := s.Put(t.Context(), r, file); err != nil {
		t.Fatal(err)
	}
	return r
}

func anyone(Manifest) error { return nil }

func bundle(t testing.TB, s *Store, records ...*cache.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	m := Manifest{Archs: []string{"sm_80"}}
	for _, r := range records {
		m.Entries = append(m.Entries, Entry(r.Outputs[0].Path, r), Entry("another with its key", r))
	}
	if _, err := s.Export(t.Context(), &b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(b []byte) []byte {
	d, _ := zstd.NewReader(nil)
	defer d.Close()
	out, _ := d.DecodeAll(b, nil)
	return out
}

func TestExportAndImport(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	a := entry(t, from, "a", "shared", strings.Repeat("shrinks ", 10_000))
	b := entry(t, from, "b", "shared", noise(100_000))
	entry(t, from, "c", "not exported")
	packed := bundle(t, from, a, b)
	if !bytes.Equal(packed, bundle(t, from, a, b)) {
		t.Error("two bundles of the same entries differ")
	}
	var seen Manifest
	res, err := to.Import(t.Context(), bytes.NewReader(packed), func(m Manifest) error { seen = m; return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := ImportResult{Records: 2, Blobs: 3, Bytes: 6 + 80_000 + 100_000}
	if diff := cmp.Diff(want, res); diff != "" {
		t.Error(diff)
	}
	if seen.Blobs != 3 || seen.Bytes != want.Bytes || len(seen.Entries) != 4 || seen.Records != 2 || seen.Archs[0] != "sm_80" {
		t.Errorf("%+v", seen)
	}
	for _, r := range []*cache.Record{a, b} {
		if diff := cmp.Diff([]*cache.Record{r}, lookedUp(t, to, r.Command)); diff != "" {
			t.Error(diff)
		}
		for _, o := range r.Outputs[:2] {
			if err := to.Restore(t.Context(), o, filepath.Join(t.TempDir(), "x")); err != nil {
				t.Error(err)
			}
		}
	}
	if res, err := to.Import(t.Context(), bytes.NewReader(packed), anyone); err != nil || res != (ImportResult{}) {
		t.Error("imported twice", res, err)
	}
	if v, _, err := to.Verify(t.Context(), false); err != nil || v.Problems > 0 || v.Records != 2 {
		t.Error(v, err)
	}
}

// Where records came from is known to one machine alone: no bundle has it, and what a bundle says
// of it does not count.
func TestOriginOfBundle(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	r := entry(t, from, "a", "x")
	packed := bundle(t, from, r)
	forged := *r
	forged.Origin = "grpcs://cache.example"
	if forged.ID() != r.ID() || !bytes.Equal(bundle(t, from, &forged), packed) {
		t.Error("another origin is another record")
	}
	content, err := EncodeRecord(&forged)
	if err != nil {
		t.Fatal(err)
	}
	m := Manifest{Format: bundleFormat, Entries: []BundleEntry{Entry("a", r)}}
	var packedForged bytes.Buffer
	z, _ := zstd.NewWriter(&packedForged)
	b := bundler{s: from, ctx: t.Context(), w: tar.NewWriter(z)}
	steps := m.count()
	b.json(bundleManifest, m)
	b.content(steps[0].contents[0])
	b.file("records/"+recordName(r.Command, r.ID()), content)
	if err := errors.Join(b.err, b.w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Import(t.Context(), &packedForged, anyone); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*cache.Record{r}, lookedUp(t, to, r.Command)); diff != "" {
		t.Error(diff)
	}
}

func TestImportRefused(t *testing.T) {
	s, no := open(t, t.TempDir()), errors.New("no")
	from := open(t, t.TempDir())
	packed := bundle(t, from, entry(t, from, "a", "x"))
	if _, err := s.Import(t.Context(), bytes.NewReader(packed), func(Manifest) error { return no }); err != no {
		t.Error(err)
	}
	if found := append(files(t, s.path("blobs")), files(t, s.path("records"))...); found != nil {
		t.Error(found)
	}
}

// A bundle that is cut, or has a wrong byte, is an error, and whatever got in is right.
func TestDamagedBundle(t *testing.T) {
	from := open(t, t.TempDir())
	packed := bundle(t, from, entry(t, from, "a", "x", noise(300)), entry(t, from, "b", "y"))
	try := func(what string, b []byte) {
		t.Helper()
		s := open(t, t.TempDir())
		_, err := s.Import(t.Context(), bytes.NewReader(b), anyone)
		if (err == nil || len(s.imported()) > 0) && !bytes.Equal(unpacked(b), unpacked(packed)) { // a bit of the frame means nothing
			t.Errorf("%s: no error", what)
		}
		if v, problems, err := s.Verify(t.Context(), false); err != nil || v.Problems > 0 {
			t.Errorf("%s: %v", what, problems)
			t.Error(what, err)
		}
		if left := files(t, s.path("tmp")); left != nil {
			t.Errorf("%s: left %v", what, left)
		}
	}
	for n := 0; n < len(packed)-1; n += 7 {
		try("cut", packed[:n])
	}
	for i := 0; i < len(packed); i += 5 {
		try("flipped", []byte(flip(string(packed), i)))
	}
}

// An entry must be what its name says, and whole.
func TestForgedBundle(t *testing.T) {
	from := open(t, t.TempDir())
	a := entry(t, from, "a", "x")
	forged := *a
	forged.Command = digestOf("another command")
	lacking := *a
	lacking.Outputs = append([]cache.Output{}, a.Outputs...)
	lacking.Outputs[1] = cache.Output{Path: "build/out1", Digest: digestOf("nowhere"), Size: 7}
	for what, r := range map[string]*cache.Record{"a key of another action": &forged, "content that is not there": &lacking} {
		var b bytes.Buffer
		from.Export(t.Context(), &b, Manifest{Entries: []BundleEntry{Entry("x", r)}})
		s := open(t, t.TempDir())
		if _, err := s.Import(t.Context(), bytes.NewReader(b.Bytes()), anyone); err == nil {
			t.Errorf("%s was imported", what)
		}
		if rs := lookedUp(t, s, r.Command); rs != nil {
			t.Errorf("%s is there", what)
		}
	}
}

func TestImported(t *testing.T) {
	s := open(t, t.TempDir())
	from := open(t, t.TempDir())
	old, tooRecent := entry(t, from, "old", "x"), entry(t, from, "young", "y")
	for _, r := range []*cache.Record{old, tooRecent} {
		for _, i := range s.imported() {
			age(t, i.name, time.Hour)
		}
		if _, err := s.Import(t.Context(), bytes.NewReader(bundle(t, from, r)), anyone); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Named(s.Imported()["build/out0"])
	if err != nil || r.Command != tooRecent.Command {
		t.Error(r, err)
	}
	if _, err := s.Named("../../etc/passwd"); err == nil {
		t.Error("a name that is none")
	}
	later(s, 2*grace)
	if _, err := s.GC(t.Context(), 1, 0); err != nil || len(s.imported()) != 0 {
		t.Error("the manifest of a bundle that has gone stays", err)
	}
}

func FuzzImport(f *testing.F) {
	from := open(f, f.TempDir())
	f.Add(bundle(f, from, entry(f, from, "a", "x", "y")))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		s := open(t, dir)
		s.Import(t.Context(), bytes.NewReader(b), anyone)
		if v, _, err := s.Verify(t.Context(), false); err != nil || v.Problems > 0 {
			t.Error(v, err)
		}
	})
}
