package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

// powerless runs f so that permissions count, which they do not for root: the thread's file system
// user becomes nobody for the time.
func powerless(t *testing.T, f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Skip("running as root, and permissions cannot be dropped: ", err)
	}
	defer syscall.Setfsuid(0)
	f()
}

func TestReadOnlyStore(t *testing.T) {
	dir := t.TempDir()
	out := t.TempDir()
	s := open(t, dir)
	r := put(t, s, "a", "x")
	r2, file := action(t, "b", "y")
	os.Chmod(filepath.Dir(file(r2.Outputs[0])), 0o755)
	for _, d := range []string{filepath.Dir(dir), filepath.Dir(out), filepath.Dir(filepath.Dir(file(r2.Outputs[0])))} {
		os.Chmod(d, 0o755) // a way in for nobody
	}
	os.Chmod(out, 0o777)
	old := filepath.Join(dir, "old") // a store inside the folder, for its permissions
	os.Remove(open(t, old).path("tmp"))
	var folders []string
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			folders = append(folders, name)
		}
		return err
	})
	for _, name := range folders {
		os.Chmod(name, 0o555)
		defer os.Chmod(name, 0o755)
	}
	powerless(t, func() {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Put(t.Context(), r2, file)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), EnvDir) {
			t.Errorf("Put: %v", err)
		}
		rs, err := s.Records(t.Context(), r.Command)
		if err != nil || len(rs) != 1 {
			t.Error(rs, err)
		}
		s.Used(r)
		if err := s.Restore(t.Context(), r.Outputs[0], filepath.Join(out, "x")); err != nil {
			t.Error(err)
		}
		if err := s.Count(cache.Counters{Direct: 1}); err == nil {
			t.Error("Count wrote")
		}
		if _, err := s.MaybeGC(t.Context(), DefaultLimit); err != nil {
			t.Error(err)
		}
		if _, err := Open(old); err != nil {
			t.Errorf("Open of a store without tmp: %v", err)
		}
		if _, err := Open(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), EnvDir) {
			t.Errorf("Open where nothing can be made: %v", err)
		}
	})
}
