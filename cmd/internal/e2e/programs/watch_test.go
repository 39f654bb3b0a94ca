package programs

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// watching is a kbuild watch that runs.
type watching struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Reader
	all   strings.Builder
}

// watch starts kbuild watch, and waits until it has built once.
func watch(t *testing.T, p *e2e.Project, args ...string) *watching {
	t.Helper()
	w := &watching{t: t, cmd: p.Command(append([]string{"kbuild", "watch"}, args...)...)}
	r, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.cmd.Stderr = to
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	to.Close()
	guard := time.AfterFunc(10*time.Minute, func() { w.cmd.Process.Kill() }) // it never ends by itself
	t.Cleanup(func() {
		guard.Stop()
		w.cmd.Process.Kill()
		r.Close()
	})
	w.lines = bufio.NewReader(r)
	w.until("watching; Ctrl-C ends")
	return w
}

// until reads until a line has a text.
func (w *watching) until(want string) {
	w.t.Helper()
	from := w.all.Len()
	for {
		line, err := w.lines.ReadString('\n')
		w.all.WriteString(line)
		if err != nil {
			w.t.Fatalf("no %q in\n%s", want, w.all.String()[from:])
		}
		if strings.Contains(line, want) {
			return
		}
	}
}

// end interrupts it, and gives all that it has said.
func (w *watching) end() string {
	w.t.Helper()
	w.cmd.Process.Signal(syscall.SIGINT)
	rest, _ := io.ReadAll(w.lines)
	if err := w.cmd.Wait(); err != nil {
		w.t.Error(err)
	}
	return w.all.String() + string(rest)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	w := watch(t, p)
	p.Write("u.cpp", "#include \"new.h\"\nint u() { return 0; }\n")
	w.until("u.cpp changed")
	w.until("1 failed")
	p.Write("new.h", "#define NEW 1\n") // a compiler that found no header tells of no header
	w.until("new.h changed")
	w.until("up to date")
	p.Write("other.tmp", "editors do that")
	if err := os.Rename(filepath.Join(p.Dir, "other.tmp"), filepath.Join(p.Dir, "new.h")); err != nil {
		t.Fatal(err)
	}
	w.until("new.h changed")
	w.until("up to date")
	p.Edit("kernels.hcl", `executable "check"`, `executible "check"`)
	w.until("unknown block")
	p.Edit("kernels.hcl", `executible "check"`, `executable "check"`)
	w.until("kernels.hcl changed")
	w.until("up to date")
	w.end()
}

// What a source or a header really is may be elsewhere.
func TestWatchElsewhere(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	outside := func(name, text string) {
		t.Helper()
		file := filepath.Join(p.Dir, "..", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(filepath.Join(p.Dir, "..", from), filepath.Join(p.Dir, "..", to)); err != nil {
			t.Fatal(err)
		}
	}
	outside("elsewhere/u.cpp", "#include <one.h>\nint u() { return 0; }\n")
	outside("top/mid/inc/one.h", "#define ONE 1\n")
	for _, err := range []error{os.Remove(filepath.Join(p.Dir, "u.cpp")), os.Symlink("../elsewhere/u.cpp", filepath.Join(p.Dir, "u.cpp"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.Edit("kernels.hcl", `sources = ["u.cpp"]`, `sources = ["u.cpp"]
  includes = ["../top/mid/inc"]`)
	w := watch(t, p)
	outside("elsewhere/u.cpp", "#include <one.h>\nint u() { return 1 - 1; }\n") // behind the link
	w.until("u.cpp changed")
	w.until("up to date")
	outside("top/mid/inc/one.h", "#define ONE 2\n") // behind ..
	w.until("one.h changed")
	w.until("up to date")
	move("top", "away") // a folder above the one with the header
	w.until("top changed")
	w.until("failed")
	outside("away/mid/inc/one.h", "#define ONE 3\n")
	move("away", "top")
	w.until("top changed")
	w.until("up to date")
	outside("top/mid/inc/one.h", "int one();\n")
	w.until("host-compile u.cpp") // at the change, or before that since the folder is new
}

// What kbuild itself writes into the project starts no build, also where all of the project is
// watched.
func TestWatchOwnFiles(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.Env = append(p.Env, "KBUILD_CACHE_DIR="+filepath.Join(p.Dir, "cache"))
	p.Write("u.cpp", "int u() { return 0 }\n")
	w := watch(t, p, "--trace", "trace.json", "--sarif", "said.sarif", "--junit", "junit.xml")
	for range 3 {
		p.Write("u.cpp", "int u() { return 0  }\n")
		w.until("u.cpp changed")
		w.until("1 failed")
	}
	p.Write("u.cpp", "int u() { return 0; }\n")
	w.until("u.cpp changed")
	w.until("up to date")
	for line := range strings.Lines(w.end()) {
		if strings.Contains(line, "changed") && line != "kbuild: u.cpp changed\n" {
			t.Errorf("it says %s", line)
		}
	}
}

// Who watches tests has them run when what they read changes.
func TestWatchTests(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	if err := os.WriteFile(filepath.Join(p.Dir, "../outside"), []byte("1"), 0o666); err != nil {
		t.Fatal(err)
	}
	p.Edit("kernels.hcl", `data       = ["more"]`, `data       = ["more", "../outside"]
  cache      = true`)
	for _, cache := range []string{"true", "false"} { // of a test that runs each time less is known
		p.Edit("kernels.hcl", "cache      = ", "cache      = "+cache+" # ")
		w := watch(t, p, "test.good")
		for _, text := range []string{cache + "1", cache + "2"} {
			p.Write("more", text)
			w.until("more changed")
			w.until("up to date")
			if err := os.WriteFile(filepath.Join(p.Dir, "../outside"), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			w.until("outside changed")
			w.until("up to date")
		}
		p.Edit("kernels.hcl", cache+" # ", "")
		w.end()
	}
}
