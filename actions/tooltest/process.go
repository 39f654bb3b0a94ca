package tooltest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
)

// Normalize makes the test process and its children independent of the state inherited from its
// caller. A TestMain calls it.
//
//   - nohup and a shell's background jobs ignore SIGHUP and SIGINT, which children inherit. A
//     signal that the process itself catches has its default effect in the children.
//   - With umask 000 other users may write manifests, which kbuild refuses.
//   - Open descriptors, such as a jobserver's, are closed in children. MAKEFLAGS would name them.
//   - Compilers translate messages and dates for the locale.
func Normalize() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			// No receiver: the signal still has no effect here.
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	syscall.Umask(0o022)
	descriptors, _ := os.ReadDir("/proc/self/fd")
	for _, d := range descriptors {
		if fd, err := strconv.Atoi(d.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	for _, name := range []string{"MAKEFLAGS", "MFLAGS", "LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LC_CTYPE"} {
		os.Unsetenv(name)
	}
}

// Process is a started command whose end is awaited in the background.
type Process struct {
	*exec.Cmd
	ended context.Context
	err   error
}

// Start starts a command, and kills it at the end of the test.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancelCause(context.Background())
	p := &Process{Cmd: cmd, ended: ended}
	go func() {
		p.err = cmd.Wait()
		end(errors.New("the process has ended"))
	}()
	t.Cleanup(func() { cmd.Process.Kill() })
	return p
}

// Wait waits until the process has ended, and returns the error of exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.ended.Done()
	return p.err
}

// OpenFIFO opens a named pipe as os.OpenFile does, and waits for a process that opens the other
// end. It fails the test if p ends before that.
func (p *Process) OpenFIFO(t testing.TB, name string, flag int) *os.File {
	t.Helper()
	f, err := OpenFIFO(p.ended, name, flag)
	if err != nil {
		t.Fatalf("%s: nothing has opened the other end: %v", name, err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// OpenFIFO opens a named pipe as os.OpenFile does, and waits for a process that opens the other end
// for as long as ctx allows.
func OpenFIFO(ctx context.Context, name string, flag int) (*os.File, error) {
	opened := make(chan struct{})
	defer close(opened)
	stop := context.AfterFunc(ctx, func() {
		// On Linux this open never blocks.
		if both, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			<-opened
			both.Close()
		}
	})
	f, err := os.OpenFile(name, flag, 0)
	if err == nil && !stop() {
		f.Close()
		err = context.Cause(ctx)
	}
	return f, err
}
