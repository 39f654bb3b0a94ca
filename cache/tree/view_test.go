package tree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestRefresh updates a view twice, so that it has a second layer, and then the stat of a touched
// file.
func TestRefresh(t *testing.T) {
	root, key := t.TempDir(), [32]byte{1, 2, 3}
	var list []cache.Observation
	for _, name := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		write(t, filepath.Join(root, name), name)
		st, _ := cache.StatFile(filepath.Join(root, name))
		d, _ := cache.DigestFile(filepath.Join(root, name))
		list = append(list, cache.Observation{Path: name, Digest: d, Stat: st})
	}
	db := open(t, newPath(t))
	if err := db.SetView(key, []byte("note"), list); err != nil {
		t.Fatal(err)
	}
	for _, touched := range []string{"1", "2", "1"} {
		db = reopen(t, db)
		write(t, filepath.Join(root, touched), touched)
		v := db.View(key)
		fresh, broken, err := v.Check(root)
		if err != nil || len(fresh) != 1 || len(broken) > 0 {
			t.Fatalf("%s was touched: %v differ, %v changed: %v", touched, fresh, broken, err)
		}
		if err := v.Refresh(fresh); err != nil {
			t.Fatal(err)
		}
		v = reopen(t, db).View(key)
		if fresh, broken, err := v.Check(root); err != nil || len(fresh)+len(broken) > 0 {
			t.Errorf("after the refresh %v differ, %v changed: %v", fresh, broken, err)
		}
		if string(v.Value()) != "note" {
			t.Error("the refresh lost the note")
		}
	}
}
