package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// setUp is `.ci/toolkit.sh test-all` on a machine that has nvcc and nothing else of what the tests
// need. It gives what apt-get was told to install.
func setUp(t *testing.T, aptCache string) (packages []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"nvcc": "", "mkdir": "", "ln": "", "id": "echo 0", "apt-cache": aptCache, "bin/kbuild": "", "python3": `[ "$2" != venv ]`, "rm": "",
		"apt-get": `case "$*" in *install*) echo "$*" >>"$LOG" ;; esac`,
	} {
		write(t, filepath.Join(dir, name), "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "env", "sed", "grep", "head", "tail", "sort", "ls", "dirname", "readlink"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	script, err := filepath.Abs("../../.ci/toolkit.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", script, "test-all")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + dir, "TOOLKIT_BIN=" + dir, "LOG=" + log}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("toolkit.sh: %v\n%s", err, out)
	}
	text, _ := os.ReadFile(log)
	for _, word := range strings.Fields(string(text)) {
		if !strings.HasPrefix(word, "-") && word != "install" {
			packages = append(packages, word)
		}
	}
	return packages
}

// What is installed is of one version, that of hipcc's clang. Debian's packages without a version
// are of another, and every clang takes their lld for its own, which then does not read its
// bitcode.
func TestSetUpInstallsOneLLVM(t *testing.T) {
	for name, c := range map[string]struct{ aptCache, version string }{
		"Debian 12":     {"echo hipcc; echo '  Depends: clang-15'; echo '  Depends: llvm-15'; echo '  Depends: clang-tools-15'", "15"},
		"Debian 13":     {"echo hipcc; echo '  Depends: clang-17'; echo '  Depends: llvm-17'", "17"},
		"without hipcc": {`[ "$1" != depends ] || exit 100; echo clang-9; echo clang-18; echo clang-17-doc; echo clang-14`, "18"},
	} {
		t.Run(name, func(t *testing.T) {
			packages := setUp(t, c.aptCache)
			if !slices.Contains(packages, "postgresql") {
				t.Errorf("no PostgreSQL is installed, but %q", packages)
			}
			for _, want := range []string{"clang-", "lld-", "llvm-", "clangd-"} {
				if !slices.Contains(packages, want+c.version) {
					t.Errorf("%s%s is not installed, but %q", want, c.version, packages)
				}
			}
			for _, p := range packages {
				if slices.Contains([]string{"clang", "lld", "llvm", "clangd", "rocm-device-libs"}, p) {
					t.Errorf("%s is installed, which is of a version of its own", p)
				}
			}
		})
	}
}

// Without nvcc the demo has a toolkit of kbuild's own, and asks for nothing of the system: there is
// no apt-get.
func TestSetUpOfDemoNeedsNoRoot(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"g++": "", "python3": "", "id": "echo 1000", "bin/kbuild": "echo $* >>" + log} {
		write(t, filepath.Join(dir, name), "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("../../.ci/toolkit.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("toolkit.sh: %v\n%s", err, out)
	}
	if text, _ := os.ReadFile(log); string(text) != "-C .ci/cuda toolkit install\n" {
		t.Errorf("kbuild was called with %q", text)
	}
}

// A test that ends in time on one machine does not on a loaded one.
func TestTestsHaveNoTimeLimit(t *testing.T) {
	for _, file := range []string{"Makefile", ".ci/run"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !regexp.MustCompile(`(go|\$\(GO\)) test`).MatchString(line) {
				continue
			}
			m := regexp.MustCompile(`-timeout[ =](\S+)`).FindStringSubmatch(line)
			if m == nil {
				t.Errorf("%s: without -timeout go ends a test after 10 minutes: %s", file, line)
			} else if d, err := time.ParseDuration(m[1]); err != nil || d > 0 && d < time.Hour {
				t.Errorf("%s: a limit below an hour: %s", file, line)
			}
		}
	}
}
