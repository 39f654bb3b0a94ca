package toolkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// project is a manifest that pins CUDA 13.5.0, with the pip of testdata.
func project(t *testing.T) (p *Pin, printed func() string) {
	t.Helper()
	script, err := filepath.Abs("testdata/pip")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvPip, fmt.Sprintf("sh %q", script))
	dir := filepath.Join(t.TempDir(), "a b")
	var mu sync.Mutex
	var lines []string
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	p = &Pin{Manifest: "kernels.hcl", LockFile: filepath.Join(dir, "kernels.lock"), Dir: filepath.Join(dir, "toolkits"), Common: dir, Version: "13.5.0", Say: say}
	return p, func() string { return strings.Join(lines, "\n") }
}

// locked is project with a lock file.
func locked(t *testing.T) (p *Pin, printed func() string) {
	t.Helper()
	p, printed = project(t)
	if err := p.Lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.read(t)
	return p, printed
}

func (p *Pin) read(t *testing.T) {
	t.Helper()
	var err error
	if p.Text, err = os.ReadFile(p.LockFile); err != nil {
		t.Fatal(err)
	}
}

func TestLock(t *testing.T) {
	p, printed := locked(t)
	first := string(p.Text)
	if lines := strings.Split(first, "\n"); len(lines) != 3+12+1 || !strings.HasPrefix(lines[3], "x86_64 cuda-toolkit==13.5.0 sha256:") ||
		!strings.HasPrefix(lines[9], "aarch64 cuda-toolkit==13.5.0 sha256:") || strings.Contains(first, "example") {
		t.Errorf("the lock file is\n%s", first)
	}
	if err := p.Lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	if p.read(t); string(p.Text) != first {
		t.Error("the same wheels make another file")
	}
	if !strings.Contains(printed(), "CUDA 13.5.0, 12 wheels") {
		t.Error(printed())
	}
}

func TestLockThatCannotBe(t *testing.T) {
	for fault, says := range map[string]string{
		"mixed": "nvidia-nvvm 99.1.37, which is not of CUDA 13.5", "old": "needs pip 22.2", "extra": "does not provide the extra 'nosuch'",
	} {
		t.Run(fault, func(t *testing.T) {
			p, _ := project(t)
			t.Setenv("FAKE_PIP", fault)
			if err := p.Lock(context.Background()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v; want %q", err, says)
			}
			if _, err := os.Stat(p.LockFile); err == nil {
				t.Error("there is a lock file")
			}
		})
	}
}

func TestLockForOneMachine(t *testing.T) {
	if thisMachine() != "x86_64" {
		t.Skip("the fake index has wheels for x86_64")
	}
	p, printed := project(t)
	t.Setenv("FAKE_PIP", "x86")
	if err := p.Lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(printed(), "warning: the lock is not for aarch64") {
		t.Error(printed())
	}
}

func TestNotReady(t *testing.T) {
	p, _ := locked(t)
	_, err := p.Root()
	if want := "CUDA 13.5.0 of kernels.lock is not installed. Run: kbuild toolkit install"; err == nil || err.Error() != want {
		t.Errorf("the error is %v; want %s", err, want)
	}
	p.Parts = []string{"cublas"}
	if _, err = p.Root(); err == nil || !strings.Contains(err.Error(), "wants cuda-toolkit[cccl,crt,cublas,cudart,nvcc,nvvm]==13.5.0. Run: kbuild toolkit lock") {
		t.Errorf("of a lock file for other parts: %v", err)
	}
	p.File = "the other.hcl"
	p.Text = nil
	if _, err := p.Install(context.Background()); !errors.As(err, new(NotReady)) || !strings.Contains(err.Error(), "there is no kernels.lock") ||
		!strings.HasSuffix(err.Error(), "Run: kbuild toolkit lock -f 'the other.hcl'") {
		t.Errorf("without a lock file: %v", err)
	}
}

func TestInstall(t *testing.T) {
	p, printed := locked(t)
	root, err := p.Install(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"lib64": "lib", "lib/libcudart.so": "libcudart.so.13", "lib/libnvvm.so": "libnvvm.so.4"} {
		if got, _ := os.Readlink(filepath.Join(root, name)); got != to {
			t.Errorf("%s leads to %q; want %s", name, got, to)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "nvvm/lib64/libnvvm.so")); string(text) != "nvvm\n" {
		t.Errorf("nvlink finds %q, %v", text, err)
	}
	if again, err := p.Install(context.Background()); err != nil || again != root || !strings.HasSuffix(printed(), "CUDA 13.5.0 is installed") {
		t.Errorf("the second time it is %s, %v:\n%s", again, err, printed())
	}
	list, err := p.List()
	if err != nil || len(list) != 1 || list[0].Root != root || list[0].Requirement != "cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]==13.5.0" {
		t.Errorf("the list is %v, %v", list, err)
	}
	if err := p.Remove(context.Background(), list[0].Name[:6]); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(p.Dir); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

func TestOtherWheelIsNotInstalled(t *testing.T) {
	p, _ := locked(t)
	p.Text = regexp.MustCompile(`(nvidia-nvvm==13.5.37 sha256:)....`).ReplaceAll(p.Text, []byte("${1}0000"))
	if _, err := p.Install(context.Background()); err == nil || !strings.Contains(err.Error(), "DO NOT MATCH THE HASHES") {
		t.Errorf("the error is %v", err)
	}
	if left, _ := os.ReadDir(p.Dir); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

// What a kbuild that was killed has left goes, with the pip that it ran: that one would go on
// writing.
func TestKilledInstallation(t *testing.T) {
	p, _ := locked(t)
	left := filepath.Join(p.Dir, temporary+"123")
	if err := os.MkdirAll(filepath.Join(left, "toolkit/nvidia"), 0o777); err != nil {
		t.Fatal(err)
	}
	orphan := exec.Command("sleep", "1000")
	orphan.Env = []string{"TMPDIR=" + left}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := orphan.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the other pip ended with %v", err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the unfinished folder is left")
	}
}

func TestInterruptedInstallation(t *testing.T) {
	p, _ := locked(t)
	started := filepath.Join(t.TempDir(), "started")
	t.Setenv("FAKE_PIP", "hangs")
	t.Setenv("PIP_STARTED", started)
	if err := syscall.Mkfifo(started, 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, end := context.WithCancel(context.Background())
	var err error
	go func() {
		_, err = p.Install(ctx)
		end()
	}()
	if f, err := tooltest.OpenFIFO(ended, started, os.O_RDONLY); err != nil {
		t.Errorf("pip does not start: %v", err)
	} else {
		io.ReadAll(f)
		f.Close()
	}
	cancel()
	<-ended.Done()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if left, _ := os.ReadDir(p.Dir); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

func TestTwoInstallAtOnce(t *testing.T) {
	p, printed := locked(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := p.Install(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(printed(), "installing CUDA"); n != 1 {
		t.Errorf("it was installed %d times:\n%s", n, printed())
	}
}

func TestUse(t *testing.T) {
	p, _ := locked(t)
	root, err := p.Install(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	link := p.name(filepath.Dir(filepath.Dir(root)))
	use := func(want string) {
		t.Helper()
		if got, err := p.Use(); got != want || err != nil {
			t.Errorf("builds use %s, %v; want %s", got, err, want)
		}
	}
	use(link + "/nvidia/cu13")
	os.Remove(link)
	if err := os.Symlink("/elsewhere", link); err != nil { // of another cache of this user
		t.Fatal(err)
	}
	use(link + "/nvidia/cu13")
	if err := os.Chmod(p.Common, 0o777); err != nil { // where anybody can put another link in its place
		t.Fatal(err)
	}
	use(root)
	os.Chmod(p.Common, 0o777|os.ModeSticky)
	use(link + "/nvidia/cu13")
	p.Common = "/nowhere"
	use(root)
}

// TestTwoCaches installs a toolkit into two caches of one user. Builds of both use one name, which a
// build sets again if the toolkit of the other cache was removed.
func TestTwoCaches(t *testing.T) {
	one, _ := locked(t)
	two := *one
	two.Dir += " of another cache"
	use := func(p *Pin) string {
		t.Helper()
		root, err := p.Install(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		name, err := p.Use()
		if err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(filepath.Dir(filepath.Dir(name))); err != nil || to != filepath.Dir(filepath.Dir(root)) {
			t.Errorf("%s leads to %s, %v; want that of %s", name, to, err, root)
		}
		return name
	}
	remove := func(p *Pin) {
		t.Helper()
		list, err := p.List()
		if err == nil && len(list) == 1 {
			err = p.Remove(context.Background(), list[0].Name)
		}
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(name, "bin/nvcc"))
		return err == nil
	}
	name := use(one)
	if again := use(&two); again != name {
		t.Errorf("the other cache has it as %s, not as %s", again, name)
	}
	remove(&two)
	use(one)
	if !there(name) {
		t.Error("the toolkit of the first cache is lost with that of the other")
	}
	if remove(one); there(name) {
		t.Error("the toolkit is removed from both, and still there")
	}
	if _, err := os.Lstat(filepath.Dir(filepath.Dir(name))); err == nil {
		t.Error("its name is left")
	}
}
