package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mountable runs the test again where it may mount file systems, in a namespace of its own, and
// reports whether this is there.
func mountable(t *testing.T) bool {
	t.Helper()
	if testing.Short() {
		t.Skip("fills file systems and builds dozens of times")
	}
	const inside = "KBUILD_TEST_MOUNTABLE"
	if os.Getenv(inside) != "" {
		return true
	}
	for _, flags := range []uintptr{syscall.CLONE_NEWNS, syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if cmd.Start() != nil {
			continue
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &out)
		}
		return false
	}
	t.Skip("needs the right to mount file systems in a namespace")
	return false
}

// mount puts a file system over a folder until the test ends.
func mount(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") // no one else is to see it
	if err := unix.Mount(source, dir, kind, flags, data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// pages of a file system that memory holds.
const page = 4096

// fill leaves a number of pages free.
func fill(t *testing.T, dir string, pages int) {
	t.Helper()
	name := filepath.Join(dir, "fill")
	os.Remove(name)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, max(0, int(st.Bavail)-pages)*page), 0o666); err != nil {
		t.Fatal(err)
	}
}

func free(dir string) { os.Remove(filepath.Join(dir, "fill")) }

// A cache that is full costs a warning and hits, and keeps nothing half-written.
func TestFullCache(t *testing.T) {
	if !mountable(t) {
		return
	}
	p := newStatesProject(t, 3, 1)
	mount(t, "none", p.cache, "tmpfs", 0, "size=512k")
	for _, pages := range []int{0, 2, 9} {
		p.right("preparing")
		os.RemoveAll(filepath.Join(p.cache, "v2"))
		p.turn(p.state ^ 2)
		fill(t, p.cache, pages)
		status, printed := p.build()
		if n := strings.Count(printed, "no space left for the cache in "+p.cache); status != 0 || n != 1 {
			t.Errorf("%d pages: kbuild ends with %d and warns %d times:\n%s", pages, status, n, printed)
		}
		if left, _ := filepath.Glob(filepath.Join(p.cache, "*/tmp/*")); len(left) > 0 {
			t.Errorf("%d pages: %q is left", pages, left)
		}
		p.survived(fmt.Sprintf("a cache with %d pages", pages))
		free(p.cache)
		os.RemoveAll(filepath.Join(p.dir, "build"))
		p.survived(fmt.Sprintf("a cache with %d pages, and then more", pages))
	}
}

// A build tree that is full is a failure that says so, or makes no difference. When there is space
// again, all is well.
func TestFullTree(t *testing.T) {
	if !mountable(t) {
		return
	}
	p := newStatesProject(t, 3, 1)
	build := filepath.Join(p.dir, "build")
	mount(t, "none", build, "tmpfs", 0, "size=16m")
	failures := 0
	for _, pages := range []int{0, 1, 3, 4, 6, 9, 12} {
		p.right("preparing")
		p.turn(p.state ^ 2)
		if pages%2 == 0 {
			removeOutputs(p.dir)
		}
		fill(t, build, pages)
		status, printed := p.build()
		if full := strings.Contains(printed, "no space left") || strings.Contains(printed, "the disk of the build tree is full"); status != 0 && !full {
			t.Errorf("%d pages: kbuild ends with %d and does not say why:\n%s", pages, status, printed)
		}
		if strings.Contains(printed, "damaged") {
			t.Errorf("%d pages: the cache is blamed:\n%s", pages, printed)
		}
		if status != 0 {
			failures++
		}
		free(build)
		p.survived(fmt.Sprintf("a build tree with %d pages", pages))
	}
	if failures < 3 {
		t.Errorf("%d failures prove little", failures)
	}
}

// A cache that cannot be written serves hits, and costs a warning where something is built.
func TestReadOnlyCache(t *testing.T) {
	if !mountable(t) {
		return
	}
	p := newStatesProject(t, 3, 1)
	p.right("preparing")
	mount(t, p.cache, p.cache, "", unix.MS_BIND, "")
	mount(t, p.cache, p.cache, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	os.RemoveAll(filepath.Join(p.dir, "build"))
	if status, printed := p.build(); status != 0 || strings.Contains(printed, "warning: the cache") || !strings.Contains(printed, "cached") || strings.Contains(printed, " ran") {
		t.Errorf("kbuild ends with %d:\n%s", status, printed)
	}
	p.turn(0)
	status, printed := p.build()
	if n := strings.Count(printed, "cannot be written, building goes on without"); status != 0 || n != 1 {
		t.Errorf("kbuild ends with %d and warns %d times:\n%s", status, n, printed)
	}
	p.survived("a build beside a read-only cache")
	if status := Main([]string{"-C", p.dir, "cache", "gc"}, io.Discard, io.Discard); status != 0 {
		t.Errorf("gc ends with %d", status)
	}
}
