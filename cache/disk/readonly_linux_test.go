package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
)

// powerless runs f so that permissions count, which they do not for root: the thread gives up that
// power for the time. It stays root, who has a way to the folder wherever it is.
func powerless(t *testing.T, f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	if err := unix.Capget(&header, &all[0]); err != nil {
		t.Skip("running as root, and it cannot be asked what that is: ", err)
	}
	few := all
	few[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&header, &few[0]); err != nil {
		t.Skip("running as root, and permissions cannot be dropped: ", err)
	}
	defer unix.Capset(&header, &all[0])
	f()
}

func TestReadOnlyStore(t *testing.T) {
	dir := t.TempDir()
	out := t.TempDir()
	s := open(t, dir)
	r := put(t, s, "a", "x")
	r2, file := action(t, "b", "y")
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
