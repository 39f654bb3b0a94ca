package programs

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A test that runs longer than it may is ended with all that it has started, also what has left its
// process group.
func TestTimeout(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.Write("slow.c", `#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int n, char **args) {
  if (n == 1) return 0;
  puts("it began");
  fflush(stdout);
  int alive = open(args[1], O_WRONLY);
  if (fork() == 0) {
    setsid();
    close(1);
    close(2);
  }
  for (;;) pause();
  return alive;
}
`)
	fifo := filepath.Join(p.Dir, "alive")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	p.Edit("kernels.hcl", `library "u"`, `executable "slow" {
  sources = ["slow.c"]
}

test "slow" {
  executable = executable.slow
  args       = ["alive"]
  timeout    = "0.5s"
}

test "quick" {
  executable = executable.slow
  timeout    = 900
}

library "u"`)
	f, err := syscall.Open(fifo, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(f)
	_, printed, status := p.Fails("test", "slow", "quick", "--junit", "tests.xml")
	const how = "it ran longer than its timeout of 500ms, and was ended"
	for _, want := range []string{"FAILED test slow: " + how, "it began", "tests: 1 passed, 1 failed"} {
		if status != 1 || !strings.Contains(printed, want) {
			t.Errorf("status %d, no %q in\n%s", status, want, printed)
		}
	}
	if xml := string(p.Read("tests.xml")); !strings.Contains(xml, `<failure type="test" message="`+how+`"`) {
		t.Errorf("no %q in\n%s", how, xml)
	}
	if _, err := syscall.Read(f, make([]byte, 1)); err != nil { // there is an end as soon as nobody may write to it
		t.Errorf("something that it started still runs: %v", err)
	}
}

// What a test opens of other targets is built first, and is in its key.
func TestDepsOfTests(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.Write("table", "1\n")
	p.Edit("kernels.hcl", `library "u"`, `generate "table" {
  command = ["cp", "table", self.outputs[0]]
  inputs  = ["table"]
  outputs = ["table.txt"]
}

test "table" {
  executable = executable.check
  args       = ["0"]
  deps       = [generate.table]
}

test "each" {
  executable = executable.check
  cache      = false
}

library "u"`)
	says := func(want, name string) {
		t.Helper()
		if _, printed := p.Run("kbuild", "test", name); !strings.Contains(printed, "tests: 1 passed"+want+"\n") {
			t.Errorf("%s: no %q in\n%s", name, want, printed)
		}
	}
	says("", "table")
	if got := string(p.Read("build/gen/table/table.txt")); got != "1\n" {
		t.Errorf("the table is %q", got)
	}
	says(" (1 before)", "table")
	p.Write("table", "2\n")
	says("", "table")
	p.Write("table", "1\n")
	says(" (1 before)", "table")
	for range 3 {
		says("", "each")
		for range 2 {
			if _, printed := p.Run("kbuild", "test.each"); !strings.Contains(printed, "1 ran") {
				t.Errorf("as a target: %s", printed)
			}
		}
	}
	if out, _ := p.Run("kbuild", "why", "test.each"); !strings.Contains(out, "cache = false") {
		t.Errorf("why says %s", out)
	}
}
