package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// The folder of a compile has one name for all, and goes with it. One that a killed process left
// behind is removed by the next.
func TestPlace(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(placeDir+"/file", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "file")); err != nil {
		t.Error(err)
	}
	base := filepath.Dir(p.dir)
	if os.TempDir() != p.dir {
		t.Error("what compilers leave that are only asked stands elsewhere")
	}
	left := filepath.Join(base, "c-left")
	if err := os.MkdirAll(filepath.Join(left, "full"), 0o777); err != nil {
		t.Fatal(err)
	}
	sweep(base)
	if _, err := os.Stat(left); err == nil {
		t.Error("what nobody holds is left")
	}
	if _, err := os.Stat(p.dir); err != nil {
		t.Error("what somebody holds is swept away")
	}
	p.remove()
	if os.TempDir() != filepath.Dir(base) {
		t.Errorf("TMPDIR is %s afterwards", os.TempDir())
	}
	if entries, err := os.ReadDir(base); err == nil {
		t.Errorf("left behind: the folder of all, with %v", entries)
	}
}

// A folder that others can write to is not used.
func TestPlaceOfOthers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Dir(p.dir)
	p.remove()
	if err := os.Mkdir(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if p, err := newPlace(); err == nil {
		t.Errorf("%s is taken", p.dir)
	}
}
