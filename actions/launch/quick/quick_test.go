package quick

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/cache/disk"
)

// A link to kbuild under the name of a compiler is passed over: it stands before the compiler that
// is meant.
func TestLookIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"links", "bin", "kb"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kb/kbuild-cc", "bin/nvcc"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../kb/kbuild-cc", filepath.Join(dir, "links/nvcc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/exe", filepath.Join(dir, "kb/nvcc")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "links") + ":" + filepath.Join(dir, "kb") + ":" + filepath.Join(dir, "bin")
	if file, err := LookIn(path, "nvcc"); err != nil || file != filepath.Join(dir, "bin/nvcc") {
		t.Errorf("%q, %v", file, err)
	}
	if file, err := LookIn(path, "hipcc"); err == nil {
		t.Errorf("found %q", file)
	}
}

// What may change what a compiler makes or says is in the key of a command; what does not is not.
func TestRead(t *testing.T) {
	key := func() any {
		c, err := Read([]string{"/bin/true", "-c"})
		if err != nil {
			t.Fatal(err)
		}
		return c.Key
	}
	before := key()
	t.Setenv("NINJA_STATUS", "x")
	if key() != before {
		t.Error("a variable that nobody reads is in the key")
	}
	for _, name := range []string{"NVCC_APPEND_FLAGS", "NVCC_CCBIN", "SYSTEM_INCLUDES", "PTXAS_FLAGS", "CPATH", "LC_ALL", "PATH", "CUDA_HOME"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "/other")
			if key() == before {
				t.Errorf("%s is not in the key", name)
			}
		})
	}
}

// The language of messages is the user's.
func TestCommands(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("DEPENDENCIES_OUTPUT", "x")
	env := Commands()
	if !slices.Contains(env.All, "LC_ALL=de_DE.UTF-8") || slices.Contains(env.All, "LC_ALL=C") || slices.Contains(env.All, "DEPENDENCIES_OUTPUT=x") {
		t.Errorf("%q", env.All)
	}
}

// A call from a folder that is gone is one that the compiler makes alone.
func TestNowhere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	c, err := Read([]string{"true", "-c"})
	if err != nil || c.Nowhere == nil || !filepath.IsAbs(c.Argv[0]) {
		t.Fatalf("%+v, %v", c, err)
	}
	if done, _, err := c.Try(); done || err == nil {
		t.Error("it was brought")
	}
}

// The log is bounded.
func TestLogTurns(t *testing.T) {
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &Call{Dir: "/", Store: store}
	c.Log(Entry{Result: Hit})
	name := LogFile(store)
	if err := os.Truncate(name, mostLog); err != nil {
		t.Fatal(err)
	}
	c.Log(Entry{Result: Hit})
	c.Log(Entry{Result: Miss})
	if info, err := os.Stat(name + ".1"); err != nil || info.Size() <= mostLog {
		t.Errorf("the full log is lost: %v, %v", info, err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() > 1000 {
		t.Errorf("the new log: %v, %v", info, err)
	}
}
