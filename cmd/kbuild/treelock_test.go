package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// slowProject has a target whose command waits to be let go on, and then may put another manifest
// in place.
func slowProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("KBUILD_CACHE_DIR", filepath.Join(dir, "cache"))
	t.Setenv("MAKEFLAGS", "")
	writeTestFile(t, filepath.Join(dir, "kernels.hcl"), generated("slow"))
	writeTestFile(t, filepath.Join(dir, "slow.sh"), "echo >started; read x <go\n[ ! -e new.hcl ] || mv new.hcl kernels.hcl\n: >\"$1\"\n")
	for _, fifo := range []string{"started", "go"} {
		if err := syscall.Mkfifo(filepath.Join(dir, fifo), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// generated is a manifest with targets that the slow script makes.
func generated(names ...string) string {
	text := ""
	for _, n := range names {
		text += "generate \"" + n + "\" {\n  command = [\"sh\", \"slow.sh\", self.outputs[0]]\n  outputs = [\"" + n + "\"]\n}\n"
	}
	return text
}

func writeTestFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// beside is a kbuild that runs beside others.
type beside struct {
	t       *testing.T
	cmd     *tooltest.Process
	err     *bufio.Reader
	out     bytes.Buffer
	printed string // to standard error, as far as it was read
}

func startKbuild(t *testing.T, dir string, args ...string) *beside {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	b := &beside{t: t, err: bufio.NewReader(r)}
	cmd := exec.Command("kbuild", append([]string{"-C", dir}, args...)...)
	cmd.Stdout, cmd.Stderr = &b.out, w
	b.cmd = tooltest.Start(t, cmd)
	w.Close()
	return b
}

// until reads what it says up to a line with some words.
func (b *beside) until(words string) *beside {
	b.t.Helper()
	for {
		line, err := b.err.ReadString('\n')
		b.printed += line
		if strings.Contains(line, words) {
			return b
		}
		if err != nil {
			b.t.Fatalf("%v ended without %q:\n%s", b.cmd.Args, words, b.printed)
		}
	}
}

// end waits for its end, and gives its status.
func (b *beside) end() int {
	var rest bytes.Buffer
	rest.ReadFrom(b.err)
	b.printed += rest.String()
	b.cmd.Wait()
	return b.cmd.ProcessState.ExitCode()
}

// good ends it, well.
func (b *beside) good() *beside {
	b.t.Helper()
	if status := b.end(); status != 0 {
		b.t.Errorf("%v ends with %d:\n%s", b.cmd.Args, status, b.printed)
	}
	return b
}

// started waits until the command of the slow target runs, and letGo lets it end.
func (b *beside) started() {
	b.t.Helper()
	b.cmd.OpenFIFO(b.t, filepath.Join(b.cmd.Args[2], "started"), os.O_RDONLY)
}

func (b *beside) letGo() {
	b.t.Helper()
	f := b.cmd.OpenFIFO(b.t, filepath.Join(b.cmd.Args[2], "go"), os.O_WRONLY)
	f.WriteString("\n")
	f.Close()
}

const waits = "kbuild: waiting for another kbuild in this build tree (process "

// Who comes second waits, says so once, and looks at the world when it is his turn: at the manifest
// that the command of the first has written meanwhile, and at what it built.
func TestWaiting(t *testing.T) {
	dir := slowProject(t)
	first := startKbuild(t, dir)
	first.started()
	second := startKbuild(t, dir, "-q", "generate.late", "generate.slow").until(waits)
	writeTestFile(t, filepath.Join(dir, "new.hcl"), generated("slow", "late"))
	first.letGo()
	first.good()
	second.started()
	third, fourth := startKbuild(t, dir, "why", "generate.late").until(waits), startKbuild(t, dir, "precompile").until(waits)
	second.letGo()
	second.good()
	if n := strings.Count(second.printed, "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, second.printed)
	}
	if third.good(); !strings.Contains(third.out.String(), "is up to date") {
		t.Errorf("why says %q", third.out.String())
	}
	if status := fourth.end(); status != exitUsage || !strings.Contains(fourth.printed, "no module") {
		t.Errorf("precompile ends with %d:\n%s", status, fourth.printed)
	}
}

// Clean waits, and who waits for clean builds in a new tree.
func TestWaitingClean(t *testing.T) {
	dir := slowProject(t)
	first := startKbuild(t, dir)
	first.started()
	cleans := []*beside{startKbuild(t, dir, "clean").until(waits), startKbuild(t, dir, "clean").until(waits)}
	first.letGo()
	first.good()
	for _, c := range cleans {
		c.good()
	}
	if _, err := os.Stat(filepath.Join(dir, "build")); err == nil {
		t.Error("the build tree is there")
	}
}

func TestNoWait(t *testing.T) {
	dir := slowProject(t)
	first := startKbuild(t, dir)
	first.started()
	for _, command := range []string{"build", "clean", "why", "precompile"} {
		b := startKbuild(t, dir, "--no-wait", command)
		if status := b.end(); status != exitFailed || !strings.Contains(b.printed, "error: "+busy+" (process ") {
			t.Errorf("%s ends with %d:\n%s", command, status, b.printed)
		}
	}
	first.letGo()
	first.good()
}

// Who is told to end while he waits does so, and leaves the other alone.
func TestWaitingInterrupted(t *testing.T) {
	dir := slowProject(t)
	first := startKbuild(t, dir)
	first.started()
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		b := startKbuild(t, dir, "generate.slow").until(waits)
		b.cmd.Process.Signal(signal)
		if status := b.end(); status != exitInterrupted {
			t.Errorf("%v: it ends with %d:\n%s", signal, status, b.printed)
		}
	}
	first.letGo()
	first.good()
}

// A command that builds in its own build tree would wait for itself.
func TestNoWaitForItself(t *testing.T) {
	dir := slowProject(t)
	writeTestFile(t, filepath.Join(dir, "slow.sh"), "kbuild clean\n")
	b := startKbuild(t, dir)
	if status := b.end(); status != exitFailed || !strings.Contains(b.printed, "where it would wait for itself") {
		t.Errorf("it ends with %d:\n%s", status, b.printed)
	}
}
