package regular

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What a killed process left is removed, and nothing that another may be writing.
func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	names := []string{".kbuild-0123abcd", ".kbuild-89efabcd", ".kbuild-mine", "a.o"}
	for _, name := range names {
		os.WriteFile(filepath.Join(dir, name), nil, 0o666)
	}
	os.Chtimes(filepath.Join(dir, names[1]), time.Time{}, time.Now().Add(-48*time.Hour))
	RemoveTemporary(dir, 24*time.Hour)
	for i, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != (i != 1) {
			t.Errorf("%s after a day: %v", name, err)
		}
	}
	RemoveTemporary(dir, 0)
	for i, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != (i > 1) {
			t.Errorf("%s at once: %v", name, err)
		}
	}
}

// What could not be written whole leaves the old file, and nothing else.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "sub", "file")
	if err := Replace(name, []byte("old")); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no more room")
	err := ReplaceFrom(name, func(f *os.File) error {
		f.WriteString("half")
		return failed
	})
	text, _ := os.ReadFile(name)
	left, _ := os.ReadDir(filepath.Dir(name))
	if err != failed || string(text) != "old" || len(left) != 1 {
		t.Errorf("%v: %q, %d files", err, text, len(left))
	}
	defer syscall.Umask(syscall.Umask(0o027))
	if err := Replace(name, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if text, _ := os.ReadFile(name); err != nil || string(text) != "new" || info.Mode() != 0o640 {
		t.Errorf("%q, %v, %v", text, info.Mode(), err)
	}
}
