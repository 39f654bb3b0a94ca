package programs

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// What follows -- is the program's, and so are standard input, signals and the exit status.
func TestRunPassesOn(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.Write("check.cpp", `#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
int u();
int main(int n, char **args) {
  for (int i = 1; i < n; i++) printf("[%s]", args[i]);
  for (int c; (c = getchar()) != EOF;) putchar(c);
  if (n > 1) return u();
  signal(SIGINT, [](int) { _exit(42); });
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
`)
	for args, want := range map[string]string{
		"run check -- -h --help -j 3 --json -- x": "[-h][--help][-j][3][--json][--][x]in",
		"run -- --version":                        "[--version]in",
		"-j 2 run check a -- -b":                  "[a][-b]in",
		"run check -- cache verify --trace":       "[cache][verify][--trace]in",
		"run -- run --":                           "[run][--]in",
	} {
		cmd := p.Command(append([]string{"kbuild"}, strings.Fields(args)...)...)
		cmd.Stdin = strings.NewReader("in")
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", args, err, out, want)
		}
	}
	cmd := p.Command("kbuild", "run")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cmd.Process.Signal(syscall.SIGINT)
	io.Copy(io.Discard, lines)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("after an interrupt: %v", err)
	}
}
