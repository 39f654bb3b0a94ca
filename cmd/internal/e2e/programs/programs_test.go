// Package programs runs what was built: kbuild run, kbuild test and kbuild watch, with the real
// host compiler.
package programs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

const project = `library "u" {
  sources = ["u.cpp"]
  type    = "shared"
}

executable "check" {
  sources = ["check.cpp"]
  deps    = [library.u]
}

test "good" {
  executable = executable.check
  args       = ["0", "some data"]
  data       = ["more"]
  env        = { WHO = "me" }
}

test "bad" {
  executable = executable.check
  args       = ["3"]
}

test "gpu" {
  executable = executable.check
  needs_gpu  = true
}
`

func newProject(t *testing.T) *e2e.Project {
	p := e2e.New(t)
	p.Write("kernels.hcl", project)
	p.Write("u.cpp", "int u() { return 0; }\n")
	p.Write("more", "1")
	p.Write("some data", "1")
	p.Write("check.cpp", `#include <cstdio>
#include <cstdlib>
int u();
int main(int n, char **args) {
  printf("who %s\n", getenv("WHO") ? getenv("WHO") : "-");
  for (int i = 1; i < n; i++) printf("[%s]", args[i]);
  return u() + (n > 1 ? atoi(args[1]) : 0);
}
`)
	return &p
}

func noGPU(t *testing.T) {
	for _, device := range []string{"/dev/nvidia0", "/dev/dxg", "/dev/kfd"} {
		if _, err := os.Stat(device); err == nil {
			t.Skip("this machine has a GPU")
		}
	}
}

func TestTests(t *testing.T) {
	t.Parallel()
	noGPU(t)
	p := newProject(t)
	_, printed, status := p.Fails("test", "--junit", "tests.xml")
	for _, want := range []string{"FAILED test bad: exit status 3", "who -\n[3]", "skipped test.gpu: it needs a GPU, and there is none here", "tests: 1 passed, 1 failed, 1 skipped"} {
		if status != 1 || !strings.Contains(printed, want) {
			t.Fatalf("status %d, no %q in\n%s", status, want, printed)
		}
	}
	xml := string(p.Read("tests.xml"))
	for _, want := range []string{`<testsuite name="test" tests="3" failures="1" errors="0" skipped="1"`, `<skipped message="it needs a GPU`, `<failure type="test" message="exit status 3"`} {
		if !strings.Contains(xml, want) {
			t.Errorf("no %s in\n%s", want, xml)
		}
	}
	if log := string(p.Read("build/test/good.log")); log != "who me\n[0][some data]" {
		t.Errorf("it said %q", log)
	}
	good := func(want string) {
		t.Helper()
		if _, printed := p.Run("kbuild", "test", "good"); !strings.Contains(printed, "tests: 1 passed"+want+"\n") {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
	good(" (1 before)")
	for _, data := range []string{"some data", "more"} { // an argument, and what is declared
		p.Write(data, "2")
		good("")
	}
	p.Edit("u.cpp", "return 0", "return 0 * 1") // the same code
	good(" (1 before)")
	p.Edit("kernels.hcl", `WHO = "me"`, `WHO = "you"`)
	good("")
	if _, printed, status := p.Fails("test", "god"); status != 2 || !strings.Contains(printed, `there is no test "god"; did you mean good?`) {
		t.Errorf("status %d:\n%s", status, printed)
	}
	if got := p.Kbuild(); got.Actions != 4 {
		t.Errorf("a build has %d actions: tests are none of it", got.Actions)
	}
}

// What is not known of a GPU is no other's: a test that needs one runs each time, also where it is
// named as a target.
func TestGPUIsAskedFor(t *testing.T) {
	t.Parallel()
	noGPU(t)
	p := newProject(t)
	for range 3 {
		if got := p.Kbuild("test.gpu"); !strings.Contains(got.Kinds, "test 1") {
			t.Errorf("it runs %q", got.Kinds)
		}
		if _, printed := p.Run("kbuild", "test.gpu"); !strings.Contains(printed, "1 ran") {
			t.Errorf("it says %s", printed)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	cmd := p.Command("kbuild", "run", "check", "--", "0", "--x")
	var printed strings.Builder
	cmd.Stderr = &printed
	if out, err := cmd.Output(); err != nil || string(out) != "who -\n[0][--x]" || printed.Len() > 0 {
		t.Errorf("%v, %q, %q", err, out, printed.String())
	}
	if _, printed, status := p.Fails("run", "check", "7"); status != 7 || printed != "" {
		t.Errorf("status %d: %s", status, printed)
	}
	if err := os.Mkdir(filepath.Join(p.Dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	if out, _ := p.In(filepath.Join(p.Dir, "sub")).Run("kbuild", "-C", "..", "run", "check"); !strings.Contains(out, "who -") {
		t.Errorf("from below: %s", out)
	}
	for name, want := range map[string]string{"library.u": "library.u cannot be run; the executables are check", "chek": "did you mean check?"} {
		if _, printed, status := p.Fails("run", name); status != 2 || !strings.Contains(printed, want) {
			t.Errorf("run %s: status %d: %s", name, status, printed)
		}
	}
	p.Edit("u.cpp", "return 0", "return no")
	if out, printed, status := p.Fails("run", "check"); status != 1 || out != "" || !strings.Contains(printed, "FAILED host-compile u.cpp") {
		t.Errorf("status %d: %s%s", status, out, printed)
	}
}
