package run

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// shell is a command that plays a compiler.
func shell(t *testing.T, script string) Command {
	return Command{Argv: []string{"sh", "-c", script}, Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}, grace: time.Minute}
}

func mustRun(t *testing.T, c Command) Result {
	t.Helper()
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestOutputIsOneStream(t *testing.T) {
	res := mustRun(t, shell(t, "echo a; echo b >&2; echo c; exit 3"))
	if string(res.Output) != "a\nb\nc\n" || res.ExitCode != 3 || res.Signal != 0 || res.OOM {
		t.Errorf("%+v, output %q", res, res.Output)
	}
	if res.Elapsed <= 0 {
		t.Errorf("elapsed %v", res.Elapsed)
	}
}

func TestSurroundings(t *testing.T) {
	c := shell(t, "cat; pwd; echo $A $HOME")
	c.Env = append(c.Env, "A=1", "A=2")
	dir, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(mustRun(t, c).Output); got != dir+"\n2\n" {
		t.Errorf("output %q, want the folder and A=2, no input and no HOME", got)
	}
}

func TestKilled(t *testing.T) {
	tests := []struct {
		name, script string
		signal       syscall.Signal
		oom          bool
	}{
		{"SIGKILL", "kill -KILL $$", syscall.SIGKILL, true},
		{"SIGSEGV", "kill -SEGV $$", syscall.SIGSEGV, false},
		{"137", "exit 137", 0, true},
		{"compiler", "echo 'gcc-11: fatal error: Killed signal terminated program cc1plus'; exit 1", 0, true},
		{"linker", "echo 'collect2: fatal error: ld terminated with signal 9 [Killed]'; exit 1", 0, true},
		{"cicc", "echo \"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\"; exit 9", 0, true},
		{"crash", "echo \"nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)\"; exit 11", 0, false},
		{"only words", "echo 'Killed signal terminated program x'", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if res := mustRun(t, shell(t, test.script)); res.Signal != test.signal || res.OOM != test.oom {
				t.Errorf("signal %v, out of memory %v; want %v, %v", res.Signal, res.OOM, test.signal, test.oom)
			}
		})
	}
}

func TestDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "plain"), "text")
	writeFile(t, filepath.Join(dir, "orphan"), "#!/no/such/interpreter\n")
	if err := os.Chmod(filepath.Join(dir, "orphan"), 0o777); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		argv []string
		err  string
	}{
		{"unknown", []string{"nvcc-0.1"}, "nvcc-0.1 was not found in PATH (/no/where:/bin:/usr/bin)"},
		{"missing", []string{"./nothing"}, "./nothing cannot be run: "},
		{"no program", []string{"./plain"}, "is no executable file"},
		{"folder", []string{"/usr"}, "is no executable file"},
		{"interpreter", []string{"./orphan"}, "starting ./orphan: its interpreter (its first line, or the dynamic loader) is missing"},
		{"long argument", []string{"sh", strings.Repeat("x", 200<<10)}, "sh: the command line is longer than this system allows (2 arguments, 204804 bytes)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Run(t.Context(), Command{Argv: test.argv, Dir: dir, Env: []string{"PATH=/no/where:/bin:/usr/bin"}})
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %s", err, test.err)
			}
		})
	}
	_, err := Run(t.Context(), Command{Argv: []string{"sh"}, Dir: filepath.Join(dir, "gone"), Env: []string{"PATH=/bin:/usr/bin"}})
	if err == nil || strings.Contains(err.Error(), "interpreter") {
		t.Errorf("error %v for a missing folder", err)
	}
}

func TestDropRelativePath(t *testing.T) {
	for before, want := range map[string]string{
		"/bin:/usr/bin": "/bin:/usr/bin", ":/bin": "/bin", "/bin:": "/bin", "bin:/bin::./x:/usr/bin:.": "/bin:/usr/bin", ":": "", ".": "",
	} {
		t.Setenv("PATH", before)
		DropRelativePath()
		if got, ok := os.LookupEnv("PATH"); got != want || ok != (want != "") {
			t.Errorf("%q became %q, %t; want %q", before, got, ok, want)
		}
	}
}

func TestLookPathUsesTheCommandsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "bin", "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\necho $0\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tool", "bin/tool", tool} {
		got, err := LookPath(name, dir, []string{"PATH=:bin:" + dir + "/bin"})
		if err != nil || got != tool {
			t.Errorf("%s is %s, %v; want %s", name, got, err, tool)
		}
	}
	if got, err := LookPath("tool", filepath.Join(dir, "bin"), []string{"PATH=:.:/no/where"}); err == nil {
		t.Errorf("the current folder has %s", got)
	}
}

// alive makes a named pipe "alive" in the folder of c, and reads from it until no process has it
// open for writing. It calls begun, if that is not nil, after the first line. The caller calls wait
// when c has ended.
func alive(t *testing.T, c Command, begun func()) (wait func()) {
	t.Helper()
	name := filepath.Join(c.Dir, "alive")
	if err := syscall.Mkfifo(name, 0o666); err != nil {
		t.Fatal(err)
	}
	running, ended := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		f, err := tooltest.OpenFIFO(running, name, os.O_RDONLY)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if begun != nil {
			bufio.NewReader(f).ReadString('\n')
			begun()
		}
		io.Copy(io.Discard, f)
	}()
	return func() {
		ended()
		<-gone
	}
}

// cancelled runs c and cancels it as soon as it has written to the pipe "alive". It returns when no
// process has the pipe open for writing any more.
func cancelled(t *testing.T, c Command) (Result, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	wait := alive(t, c, stop)
	res, err := Run(ctx, c)
	wait()
	return res, err
}

func TestCancelAsksFirst(t *testing.T) {
	res, err := cancelled(t, shell(t, "exec 9>alive; trap 'echo tidied; exit 0' TERM; echo up >&9; while :; do :; done"))
	if !errors.Is(err, context.Canceled) || !strings.HasSuffix(string(res.Output), "tidied\n") {
		t.Errorf("%v, output %q; want that it could tidy up", err, res.Output)
	}
}

func TestCancelKillsWhoDoesNotListen(t *testing.T) {
	c := shell(t, "trap '' TERM; exec 9>alive; sleep 1000 & echo up >&9; wait")
	c.grace = time.Millisecond
	res, err := cancelled(t, c)
	if !errors.Is(err, context.Canceled) || res.Signal != syscall.SIGKILL {
		t.Errorf("%v, signal %v", err, res.Signal)
	}
}

func TestCancelEndsGrandchildrenToo(t *testing.T) {
	// The inner shells hold the fifo as well; cancelled waits until all are gone.
	_, err := cancelled(t, shell(t, "exec 9>alive; sh -c 'sleep 1000 & wait' & sh -c 'sleep 1000; :' & echo up >&9; wait"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	c := shell(t, "touch ran")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestBackgroundDoesNotHoldTheBuild(t *testing.T) {
	c := shell(t, "exec 9>alive; sleep 1000 & echo done")
	c.grace = time.Millisecond
	wait := alive(t, c, nil)
	res := mustRun(t, c)
	wait() // it was killed: the fifo has no writer left
	if string(res.Output) != "done\n" || res.ExitCode != 0 || res.OOM {
		t.Errorf("%+v, output %q", res, res.Output)
	}
}

func TestBusyProgram(t *testing.T) {
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "fresh"), os.O_CREATE|os.O_WRONLY, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(program); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { f.Close() }) // the other child has executed by then
	res := mustRun(t, Command{Argv: []string{"./fresh", "-c", "echo started"}, Dir: dir})
	if string(res.Output) != "started\n" {
		t.Errorf("output %q", res.Output)
	}
}

// What ended a process, or a child of it, by what drivers and tools say and how they exit.
func TestEndedBySignalOrWantOfMemory(t *testing.T) {
	for _, c := range []struct {
		printed               string
		code                  int
		oom, noMemory, killed bool
	}{
		{printed: "", code: 137, oom: true, killed: true}, // nvcc 11.8, a shell
		{printed: "", code: 139, killed: true},
		{printed: "", code: 255}, // nvlink, ptxas
		{printed: "g++: fatal error: Killed signal terminated program cc1plus\n", code: 1, oom: true, killed: true},
		{printed: "g++: internal compiler error: Segmentation fault signal terminated program cc1plus\n", code: 4, killed: true},
		{printed: "collect2: fatal error: ld terminated with signal 9 [Killed]\n", code: 1, oom: true, killed: true},
		{printed: "collect2: fatal error: ld terminated with signal 11 [Segmentation fault], core dumped\n", code: 1, killed: true},
		{printed: "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n", code: 9, oom: true, killed: true},
		{printed: "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)\n", code: 11, killed: true},
		{printed: "child died with signal 9, without coredump\n", code: 9, oom: true, killed: true}, // hipcc 5.2
		{printed: "clang: error: unable to execute command: Killed\nclang: error: clang frontend command failed due to signal (use -v to see invocation)\n", code: 1, oom: true, killed: true},
		{printed: "/usr/include/c++/11/array(448): catastrophic error: out of memory\n", code: 4, noMemory: true},
		{printed: "ptxas fatal   : Memory allocation failure\n", code: 255, noMemory: true},
		{printed: "virtual memory exhausted: Cannot allocate memory\n", code: 1, noMemory: true},
		{printed: "a.cu(3): error: identifier \"q\" is undefined\n", code: 1},
		{printed: "a.cpp:1:1: error: 'x' in \"out of memory\"\n", code: 1},
		{printed: "virtual memory exhausted: Cannot allocate memory\n", code: 0},
	} {
		res := Result{Output: []byte(c.printed), ExitCode: c.code}
		res.judge()
		if res.OOM != c.oom || res.NoMemory != c.noMemory || res.Killed != c.killed {
			t.Errorf("%d %q: killed for memory %v, no memory %v, killed %v; want %v, %v, %v", c.code, c.printed, res.OOM, res.NoMemory, res.Killed, c.oom, c.noMemory, c.killed)
		}
	}
}
