package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// toolset is a toolkit that pretends, in versions 1 and 2; or the real one.
type toolset struct {
	base  string // folder of all that the test makes
	bin   string // "" for the real one
	memo  string // what the tools have told clean builds
	asked string // and the others

	versions map[string]string
}

// pretendTools are the programs of the toolkit.
var pretendTools = []string{"nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "g++", "gcc", "ar", "lto1"}

// tortureTools makes the toolkit, and has PATH find it.
func tortureTools(t *testing.T) *toolset {
	t.Helper()
	base := inMemory(t)
	s := &toolset{base: base, memo: filepath.Join(base, "memo"), asked: filepath.Join(base, "asked")}
	s.forget()
	for name, value := range map[string]string{"MAKEFLAGS": "", "CUDA_HOME": "", "CUDA_PATH": "", "KBUILD_CACHE_DIR": base, "CPATH": "", "LIBRARY_PATH": ""} {
		t.Setenv(name, value)
	}
	if *tortureReal {
		t.Setenv("PATH", "/usr/local/cuda/bin:"+withoutFakes(os.Getenv("PATH"))+":"+os.Getenv("PATH"))
		if _, err := exec.LookPath("nvcc"); err != nil {
			tooltest.Missing(t, "nvcc")
		}
		return s
	}
	s.bin = filepath.Join(base, "bin")
	if err := os.Mkdir(s.bin, 0o777); err != nil {
		t.Fatal(err)
	}
	buildPretend(t, filepath.Join(base, "g++-1"), filepath.Join(base, "g++-2")) // as links to a gcc lead
	write(t, filepath.Join(s.bin, "link.stub"), "#include REGISTERLINKBINARYFILE\n#include FATBINFILE\nregister all\n")
	write(t, filepath.Join(s.bin, "liblto_plugin.so"), "a plugin\n")
	s.reset()
	t.Setenv("GOMAXPROCS", "1") // of the tools, which have less to start then
	t.Setenv("PATH", s.bin+":"+os.Getenv("PATH"))
	return s
}

// inMemory is a temporary folder, in a file system that has no disk where there is one: files are
// most of what a step takes.
func inMemory(t *testing.T) string {
	base, err := os.MkdirTemp("/dev/shm", "torture-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	return base
}

// withoutFakes is PATH without the folder of the tools that the scripts pretend with, which
// testscript puts first.
func withoutFakes(path string) string {
	_, rest, _ := strings.Cut(path, ":")
	return rest
}

// buildPretend builds the tools. The second version differs from the first in its content, as tools
// do, and reads its version off its name.
func buildPretend(t *testing.T, one, two string) {
	t.Helper()
	const dir = "../internal/pretend"
	files, _ := filepath.Glob(dir + "/*.go")
	shared, _ := filepath.Glob(dir + "/devcode/*.go")
	for _, f := range append(files, shared...) {
		os.Stat(f) // go test gives an old result again as long as the files that the test looked at are as they were
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", one, dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PATH="+withoutFakes(os.Getenv("PATH")))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	text, err := os.ReadFile(one)
	if err == nil {
		err = os.WriteFile(two, append(text, "2\n"...), 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reset makes all tools those of version 1.
func (s *toolset) reset() {
	s.versions = map[string]string{}
	for _, tool := range pretendTools {
		s.link(tool, "1")
	}
}

// forget has the tools asked again. Each build reads all that they have said, which grows with the
// projects.
func (s *toolset) forget() {
	for _, dir := range []string{s.memo, s.asked} {
		os.RemoveAll(dir)
		os.Mkdir(dir, 0o777)
	}
}

// link makes a tool that of a version.
func (s *toolset) link(tool, version string) {
	if s.bin == "" {
		return
	}
	s.versions[tool] = version
	name := filepath.Join(s.bin, tool)
	os.Remove(name)
	os.Symlink("../g++-"+version, name)
}
