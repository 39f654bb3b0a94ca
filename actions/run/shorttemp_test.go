package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A folder of any length has a short name that nobody else can enter, and what was started with it
// is found.
func TestShortTemp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50), "tmp")
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	short, again := ShortTemp(dir), ShortTemp(dir)
	if short == "" || short == again || len(short) > 45 {
		t.Fatalf("short names %q and %q", short, again)
	}
	private := filepath.Dir(again)
	if info, err := os.Lstat(private); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", private, info, err)
	}
	if _, err := os.Stat(short + "/folder"); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + again + "/folder"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := EndOrphans(dir); err != nil {
		t.Error(err)
	}
	<-ended
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by %v", s.Signal())
	}
	RemoveTemp(dir, "")
	for _, gone := range []string{dir, private} {
		if _, err := os.Lstat(gone); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", gone, err)
		}
	}
	os.Remove(short)
	os.Remove(filepath.Dir(short))
}

// The note of a folder may say anything: nothing but what ShortTemp makes is removed.
func TestRemoveTempOfOthers(t *testing.T) {
	base := t.TempDir()
	open, mine := filepath.Join(base, "kb-1"), filepath.Join(base, "kb-2")
	os.Mkdir(open, 0o755)
	os.Symlink("x", open+"/t")
	os.Mkdir(mine, 0o700)
	os.WriteFile(mine+"/t", nil, 0o600) // no link
	for _, note := range []string{open, mine, base, "kb-3", "", "/kb-"} {
		dir := filepath.Join(base, "tmp")
		os.Mkdir(dir, 0o777)
		os.WriteFile(filepath.Join(dir, shortNote), []byte(note), 0o666)
		RemoveTemp(dir, note+"/t")
		for _, stays := range []string{open + "/t", mine + "/t"} {
			if _, err := os.Lstat(stays); err != nil {
				t.Errorf("%q: %v", note, err)
			}
		}
	}
}

// TMPDIR may be any folder; tools are given one that a shell leaves alone, wherever they run.
func TestShortTempOfOddFolders(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "k") // short enough to be taken
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	t.Chdir(base)
	for _, name := range []string{"$HOME", "`id`", "a b", "%", "'"} {
		os.Mkdir(name, 0o777)
	}
	dir := t.TempDir()
	for _, odd := range []string{".", "$HOME", base + "/$HOME", base + "/`id`", base + "/a b", base + "/%", base + "/'", base + "/none", ""} {
		t.Setenv("TMPDIR", odd)
		short := ShortTemp(dir)
		if !isShort(filepath.Dir(short)) || filepath.Dir(filepath.Dir(short)) != "/tmp" {
			t.Errorf("TMPDIR=%s: %q", odd, short)
		}
		os.Remove(filepath.Join(dir, shortNote)) // as if the user had removed the folder
		if RemoveTemp(dir, short); exists(filepath.Dir(short)) {
			t.Errorf("%s stays", short)
		}
		os.Mkdir(dir, 0o777)
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
