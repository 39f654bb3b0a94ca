package launcher_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// paused is a project whose source includes a named pipe: a compile of it waits for the other end.
type paused struct {
	e2e.Project
	temp string
}

func newPaused(t *testing.T) *paused {
	p := &paused{e2e.New(t), t.TempDir()}
	p.Env = append(p.Env, "TMPDIR="+p.temp)
	p.Write("a.cc", "#include \"later.h\"\n")
	if err := syscall.Mkfifo(filepath.Join(p.Dir, "later.h"), 0o666); err != nil {
		t.Fatal(err)
	}
	return p
}

// start starts a command and returns when a compiler reads the pipe.
func (p *paused) start(cmd *exec.Cmd) (*tooltest.Process, *os.File) {
	p.T.Helper()
	process := tooltest.Start(p.T, cmd)
	return process, process.OpenFIFO(p.T, filepath.Join(p.Dir, "later.h"), os.O_WRONLY)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A signal ends the launcher as it ends a compiler: by the signal. What it had started has ended
// before it, and nothing is left behind.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		p := newPaused(t)
		before := names(t, p.Dir)
		cmd := p.Command("kbuild-cc", "g++", "-c", "a.cc", "-o", "a.o")
		var printed bytes.Buffer
		cmd.Stderr = &printed
		process, pipe := p.start(cmd)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		process.Wait()
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != s {
			t.Errorf("%v: it ended by %v", s, cmd.ProcessState)
		}
		if _, err := pipe.WriteString("int a;\n"); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%v: somebody still reads: %v", s, err)
		}
		if after := names(t, p.Dir); !slices.Equal(before, after) {
			t.Errorf("%v: the folder has %q, and had %q", s, after, before)
		}
		if left := names(t, p.temp); len(left) > 0 || printed.Len() > 0 {
			t.Errorf("%v: left in TMPDIR: %q; said %q", s, left, printed.String())
		}
	}
}

// A signal that the caller has switched off, as nohup does, ends nothing.
func TestSignalSwitchedOff(t *testing.T) {
	t.Parallel()
	p := newPaused(t)
	cmd := p.Command("sh", "-c", `trap "" HUP; exec kbuild-cc g++ -c a.cc -o a.o`)
	process, pipe := p.start(cmd)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.Dir, "later.h")); err != nil {
		t.Fatal(err)
	}
	p.Write("later.h", "int a;\n")
	pipe.WriteString("int a;\n")
	pipe.Close()
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(p.Read("a.o"), []byte("a.cc")) {
		t.Error("there is no object")
	}
}

// Where nobody listens, or nothing can be said, an object is made all the same, when it is compiled
// and when it is taken from the cache.
func TestStreams(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r, broken, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer broken.Close()
	for name, change := range map[string]func(cmd *exec.Cmd){
		"full":        func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = full, full },
		"nobody":      func(cmd *exec.Cmd) { cmd.Stderr = broken },
		"closed":      func(cmd *exec.Cmd) { cmd.Args[2] += " <&- >&- 2>&-" },
		"folder gone": func(cmd *exec.Cmd) { cmd.Args[2] = "mkdir gone && cd gone && rmdir ../gone && " + cmd.Args[2] },
	} {
		t.Run(name, func(t *testing.T) {
			p := e2e.New(t)
			temp := t.TempDir()
			p.Env = append(p.Env, "TMPDIR="+temp)
			p.Write("a.cc", "int f(unsigned a, int b) { int unused; return a < b; }\n")
			for range 2 {
				cmd := p.Command("sh", "-c", "kbuild-cc g++ -Wall -Wextra -c '"+p.Dir+"/a.cc' -o '"+p.Dir+"/a.o'")
				change(cmd)
				if err := cmd.Run(); err != nil {
					t.Error(err)
				}
				if err := os.Remove(filepath.Join(p.Dir, "a.o")); err != nil {
					t.Error(err)
				}
			}
			if left := names(t, temp); len(left) > 0 {
				t.Errorf("left in TMPDIR: %q", left)
			}
			if log, _ := p.Run("kbuild", "cc", "--stats"); name == "folder gone" && !strings.Contains(log, "no such file") {
				t.Errorf("it is not counted why: %s", log)
			}
		})
	}
}

// onTerminal runs a command whose standard error is a terminal, and gives what that gets.
func (p *project) onTerminal(argv ...string) string {
	p.T.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		p.T.Skip(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		p.T.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		p.T.Fatal(err)
	}
	cmd := p.Command(argv...)
	cmd.Env, cmd.Stderr = append(cmd.Env, "TERM=xterm-256color"), slave
	err = cmd.Run()
	slave.Close()
	text, _ := io.ReadAll(master) // EIO at its end
	if err != nil {
		p.T.Fatalf("%q: %v\n%s", argv, err, text)
	}
	return string(text)
}

// On a terminal a compiler shows its messages in colours, and so it does behind the launcher, each
// time. What says nothing is brought.
func TestTerminal(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := newProject(t, tooltest.Toolkit{})
	for _, argv := range [][]string{
		{"g++", "-Wall", "-DWARN", "-Iinc", "-c", "h.cpp", "-o", "mine/h.o"},
		{"nvcc", "-DWARN", "-Xcompiler=-Wextra", "-Iinc", "-arch=sm_80", "-c", "k.cu", "-o", "mine/k.o"},
	} {
		plain := p.onTerminal(argv...)
		if !strings.Contains(plain, "\x1b[") {
			t.Errorf("%s has no colours: %q", argv[0], plain)
		}
		for range 2 {
			if mine := p.onTerminal(append([]string{"kbuild-cc"}, argv...)...); mine != plain {
				t.Errorf("%q shows %q, plainly %q", argv, mine, plain)
			}
			if e := p.last(); e.Result != "left" {
				t.Errorf("%q: %+v", argv, e)
			}
		}
		_, printed := p.Run(append([]string{"kbuild-cc"}, argv...)...)
		if e := p.last(); e.Result != "hit" || strings.Contains(printed, "\x1b[") {
			t.Errorf("%q elsewhere: %+v, %q", argv, e, printed)
		}
	}
	for _, result := range []string{"miss", "hit"} {
		printed := p.onTerminal("kbuild-cc", "g++", "-Iinc", "-c", "h.cpp", "-o", "mine/h.o")
		if e := p.last(); e.Result != result || printed != "" {
			t.Errorf("without messages: %+v, %q", e, printed)
		}
	}
}

// A compiler that runs as it is has a lease for as long as it runs, and a launcher inside it does
// not wait for that.
func TestLeftHasLease(t *testing.T) {
	t.Parallel()
	p := newPaused(t)
	p.Env = append(p.Env, "XDG_RUNTIME_DIR="+t.TempDir(), "KBUILD_JOBS=1")
	cmd := p.Command("kbuild-cc", "g++", "-Wp,-DX", "-c", "a.cc", "-o", "a.o")
	process, pipe := p.start(cmd)
	if top, _ := p.Run("kbuild", "top"); !strings.Contains(top, "g++") {
		t.Errorf("it has no lease:\n%s", top)
	}
	pipe.Close()
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	if top, _ := p.Run("kbuild", "top"); strings.Contains(top, "g++") {
		t.Errorf("it keeps its lease:\n%s", top)
	}
	p.Write("b.cc", "int b;\n")
	if err := os.Mkdir(filepath.Join(p.Dir, "own"), 0o777); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec env -u KBUILD_CC kbuild-cc " + p.Which("g++") + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(p.Dir, "own/g++"), []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	p.Run("kbuild-cc", filepath.Join(p.Dir, "own/g++"), "-c", "b.cc", "-o", "b.o")
	if stats, _ := p.Run("kbuild", "cc", "--stats"); !strings.Contains(stats, "3        0        1        2") {
		t.Errorf("one is left, and then compiled by the launcher inside:\n%s", stats)
	}
}

// killCompilers kills those that compile C++ in a folder.
func killCompilers(in string) (killed int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		argv, _ := os.ReadFile(name)
		dir, _ := os.Readlink(filepath.Join(filepath.Dir(name), "cwd"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && dir == in && bytes.Contains(argv, []byte("cc1plus\x00")) && bytes.Contains(argv, []byte("a.cc\x00")) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// A pass that the kernel kills for memory runs again alone, which is said once, and not remembered.
func TestStarved(t *testing.T) {
	t.Parallel()
	p := e2e.New(t)
	p.Env = append(p.Env, "XDG_RUNTIME_DIR="+t.TempDir())
	p.Write("a.cc", "#include <regex>\n#include <map>\nstd::regex r(\"a*\");\n") // takes long enough to be found
	cmd := p.Command("kbuild-cc", "g++", "-c", "a.cc", "-o", "a.o")
	var printed bytes.Buffer
	cmd.Stderr = &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	killed, over, err := 0, false, error(nil)
	for killed == 0 && !over {
		select {
		case err = <-ended:
			over = true
		default:
			killed = killCompilers(p.Dir)
		}
	}
	if !over {
		err = <-ended
	}
	if err != nil || killed != 1 || strings.Count(printed.String(), "ran out of memory, and ran again") != 1 {
		t.Errorf("%d killed: %v, %q", killed, err, printed.String())
	}
	if _, again := p.Run("kbuild-cc", "g++", "-c", "a.cc", "-o", "a.o"); again != "" {
		t.Errorf("a hit says %q", again)
	}
	if stats, _ := p.Run("kbuild", "cc", "--stats"); !strings.Contains(stats, "2        1        1        0") {
		t.Errorf("one runs, and is brought:\n%s", stats)
	}
}

// Passes beside the first have tokens of make, which all come back.
func TestJobserver(t *testing.T) {
	t.Parallel()
	p := newProject(t, tooltest.Toolkit{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	cmd := p.Command("kbuild-cc", "nvcc", "-Iinc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-c", "k.cu", "-o", "mine/k.o")
	cmd.ExtraFiles = []*os.File{r, w}
	cmd.Env = append(cmd.Env, "MAKEFLAGS=-j4 --jobserver-auth=3,4", "KBUILD_JOBS=4")
	if out, err := cmd.CombinedOutput(); err != nil || p.last().Result != "miss" {
		t.Errorf("%v: %s", err, out)
	}
	w.Close()
	if left, _ := io.ReadAll(r); len(left) != 3 {
		t.Errorf("of three tokens there are %q", left)
	}
}
