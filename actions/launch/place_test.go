package launch

import (
	"fmt"
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
	if os.TempDir() != p.dir {
		t.Error("what compilers leave that are only asked stands elsewhere")
	}
	temp := filepath.Dir(p.dir)
	left := filepath.Join(temp, fmt.Sprintf("kbuild-cc-%d-4711", os.Getuid()))
	if err := os.MkdirAll(filepath.Join(left, "full"), 0o777); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(temp, fmt.Sprintf("kbuild-cc-%d-notes", os.Getuid()))
	if err := os.Mkdir(own, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	other, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	other.remove()
	if _, err := os.Stat(left); err == nil {
		t.Error("what nobody holds is left")
	}
	if _, err := os.Stat(p.dir); err != nil {
		t.Error("what somebody holds is swept away")
	}
	if err := os.Remove(own); err != nil {
		t.Error("a folder of the user is removed")
	}
	p.remove()
	if os.TempDir() != temp {
		t.Errorf("TMPDIR is %s afterwards", os.TempDir())
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
