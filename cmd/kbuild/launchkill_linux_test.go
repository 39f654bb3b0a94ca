package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// TestLauncherKilled kills `kbuild cc` at its steps, with all that it has started. The object is
// the right one or not there, nobody has a lease any more, and the next compile makes what one from
// nothing makes and leaves nothing of either in TMPDIR.
func TestLauncherKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and kills hundreds of times")
	}
	tortureTools(t)
	dir, temp, runtime, cache := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for name, value := range map[string]string{"TMPDIR": temp, "XDG_RUNTIME_DIR": runtime, "KBUILD_BROKER": "", "KBUILD_CACHE_DIR": cache} {
		t.Setenv(name, value)
	}
	t.Chdir(dir)
	if err := os.WriteFile("a.cu", []byte("__global__ void k() {}\nint host;\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	compile := []string{"kbuild", "cc", "--", "nvcc", "-gencode", "arch=compute_80,code=sm_80", "-c", "a.cu", "-o", "a.o", "-MD", "-MF", "a.d"}
	run := func(after string) {
		t.Helper()
		if text, err := exec.Command(compile[0], compile[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", after, err, text)
		}
	}
	right := func(after string) (object string) {
		t.Helper()
		run(after)
		text, err := os.ReadFile("a.o")
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 { // it was brought: one that compiles tidies up
			os.RemoveAll(cache)
			run(after)
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Fatalf("%s: TMPDIR has %v", after, left)
		}
		return string(text)
	}
	object := right("the first compile")
	for what, parts := range map[string][]string{"first on this machine": {"."}, "first": {"v2", "commands"}, "brought": nil} {
		stride := map[string]int{"first on this machine": 67, "first": 19, "brought": 1}[what]
		if *everyStep {
			stride = 1
		} else if !tooltest.All() {
			stride *= 2
		}
		kills := 0
		for n := 1; ; n += stride {
			for _, part := range parts {
				os.RemoveAll(filepath.Join(cache, part))
			}
			os.Remove("a.o")
			os.Remove("a.d")
			cmd := exec.Command("killed", append([]string{strconv.Itoa(n)}, compile...)...)
			text, _ := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); status == stepNot {
				break
			} else if status != stepReached {
				t.Skipf("kbuild cannot be traced here: %s", text)
			}
			kills++
			after := what + ", killed at step " + strconv.Itoa(n)
			if text, err := os.ReadFile("a.o"); err == nil && string(text) != object {
				t.Fatalf("%s: the object is another", after)
			}
			if list, err := broker.List(broker.Path()); err != nil || len(list) > 0 {
				t.Fatalf("%s: leases %v, %v", after, list, err)
			}
			if right(after) != object {
				t.Fatalf("after %s: the object is another", after)
			}
		}
		if t.Logf("%s: killed %d times", what, kills); kills < 2 {
			t.Errorf("%s: that proves little", what)
		}
	}
}
