package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

var everyStep = flag.Bool("every-step", false, "kill kbuild at every step instead of some: minutes")

// fakeKilled is `killed N PROGRAM ARGS`: it runs a program and kills it, with all its threads and
// children, just before they change a file for the Nth time. Its status is stepReached, or stepNot
// if the program ended before.
//
// It is a debugger that is asked about those system calls alone (watched). What a kill leaves
// behind depends on them and on nothing else, so with all N these are all the moments at which a
// kill can come.
func fakeKilled() int {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread() // a tracer is a thread
	cmd := exec.Command("watched", os.Args[2:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	k := killer{left: n, seen: map[int]bool{}}
	if filepath.Base(os.Args[0]) == "paused" {
		k.pause = pauseUntilTold
	}
	if err = cmd.Start(); err == nil {
		err = k.follow(cmd.Process.Pid)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case k.left > 0:
		return stepNot
	}
	return stepReached
}

// pauseUntilTold says that it pauses, and does so until its standard input ends. With it the
// program is `paused N PROGRAM ARGS`, which goes on afterwards.
func pauseUntilTold() {
	fmt.Println(pausedNow)
	io.Copy(io.Discard, os.Stdin)
}

const pausedNow = "paused"

const (
	stepReached = 9
	stepNot     = 10
)

// watchedCalls can change the name, the content or the times of a file.
var watchedCalls = []uint32{unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_UTIMENSAT, unix.SYS_FCHMODAT, unix.SYS_FTRUNCATE, unix.SYS_COPY_FILE_RANGE, unix.SYS_OPENAT, unix.SYS_WRITE, unix.SYS_PWRITE64}

// fakeWatched is `watched PROGRAM ARGS`: it becomes the program, whose watchedCalls and those of
// its children stop for the debugger.
func fakeWatched() int {
	runtime.LockOSThread()
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, nr := range watchedCalls {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(len(watchedCalls) - i)})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_TRACE})
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if _, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		err = errno
	}
	path, lookErr := exec.LookPath(os.Args[1])
	if err = errors.Join(err, lookErr); err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// killer follows a process and its children.
type killer struct {
	left  int          // changes until the kill
	pause func()       // in place of the kill
	seen  map[int]bool // threads
}

func (k *killer) follow(pid int) error {
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
		return err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		return err
	}
	k.seen[pid] = true
	syscall.PtraceCont(pid, 0)
	for {
		id, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return nil // all have ended
		case err != nil:
			return err
		case ws.Exited() && id == pid && ws.ExitStatus() != 0 && k.left > 0:
			return fmt.Errorf("exit status %d", ws.ExitStatus())
		case ws.Stopped():
			k.stopped(id, ws)
		}
	}
}

// stopped lets a thread go on, or ends all.
func (k *killer) stopped(id int, ws syscall.WaitStatus) {
	signal := ws.StopSignal()
	switch {
	case signal == syscall.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		reached := false
		if signal = 0; k.left > 0 && changes(id) {
			k.left--
			reached = k.left == 0
		}
		if reached && k.pause != nil {
			k.pause()
		} else if k.left == 0 && k.pause == nil {
			for id := range k.seen {
				syscall.Kill(id, syscall.SIGKILL)
			}
		}
	case signal == syscall.SIGTRAP, signal == syscall.SIGSTOP && !k.seen[id]:
		signal = 0 // of the debugger's own making
	}
	k.seen[id] = true
	syscall.PtraceCont(id, int(signal))
}

// callInfo is the kernel's struct ptrace_syscall_info at a watched call.
type callInfo struct {
	op     uint8
	arch   uint32
	ip, sp uint64
	nr     uint64
	args   [6]uint64
	_      uint64
}

// changes reports that the watched call of a thread is about to change a file: it opens files for
// reading too, and writes to pipes.
func changes(id int) bool {
	const getCallInfo = 0x420e
	var c callInfo
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, getCallInfo, uintptr(id), unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)), 0, 0); errno != 0 {
		return false
	}
	switch c.nr {
	case unix.SYS_OPENAT:
		return c.args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_COPY_FILE_RANGE:
		info, err := os.Stat(fmt.Sprintf("/proc/%d/fd/%d", id, c.args[0]))
		return err == nil && info.Mode().IsRegular()
	}
	return true
}

// killedAt runs kbuild until its nth change of a file. ok is false if it made fewer.
func (p *statesProject) killedAt(n int, args ...string) (ok bool) {
	p.t.Helper()
	cmd := exec.Command("killed", append([]string{strconv.Itoa(n), "kbuild", "-C", p.dir, "-j1"}, args...)...)
	text, err := cmd.CombinedOutput()
	switch cmd.ProcessState.ExitCode() {
	case stepReached, stepNot:
		return cmd.ProcessState.ExitCode() == stepReached
	}
	p.t.Skipf("kbuild cannot be traced here: %v\n%s", err, text)
	return false
}

// TestKilled kills builds at their steps. Whatever was left behind, the next build must succeed and
// make what a build from nothing makes, the one after it must find nothing to do, and the cache
// must be whole.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and kills hundreds of times")
	}
	p := newStatesProject(t, 4, 1)
	remove := func(folder, name string) { os.RemoveAll(filepath.Join(folder, name)) }
	for _, c := range []struct {
		build   string
		stride  int // not every step each time, as it takes minutes
		prepare func()
	}{
		{"first on this machine", 250, func() { remove(p.dir, "build"); remove(p.cache, "") }},
		{"first", 29, func() { remove(p.dir, "build"); remove(p.cache, "v2") }},
		{"restored", 13, func() { remove(p.dir, "build") }},
		{"edited", 23, func() { p.turn(p.state ^ 2); remove(p.cache, "v2") }},
		{"few edits", 7, func() { p.turn(p.state ^ 1) }},
	} {
		if *everyStep {
			c.stride = 1
		} else if !tooltest.All() && c.stride < 100 {
			c.stride *= 2
		}
		kills := 0
		for n := 1; ; n += c.stride {
			p.right("preparing")
			c.prepare()
			if !p.killedAt(n) {
				break
			}
			kills++
			p.survived(fmt.Sprintf("build %q, killed at step %d", c.build, n))
		}
		if t.Logf("build %q: killed %d times", c.build, kills); kills < 2 {
			t.Errorf("that proves little")
		}
	}
}

// survived checks what stands after a kill.
func (p *statesProject) survived(after string) {
	p.t.Helper()
	p.right(after)
	if status, printed := p.build(); status != 0 || !strings.Contains(printed, "nothing to do") {
		p.t.Fatalf("after %s the second build ends with %d:\n%s", after, status, printed)
	}
	var out strings.Builder
	if status := Main([]string{"-C", p.dir, "cache", "verify"}, &out, io.Discard); status != 0 || !strings.Contains(out.String(), " 0 broken") {
		p.t.Fatalf("after %s: %s", after, &out)
	}
}
