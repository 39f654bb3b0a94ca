// Package worker is a double of the machines that run commands for a server of the Remote Execution
// API: no package registry has a real one. The server is real, and so are the commands. It does to
// the letter what the API says of workers, so that what works here works elsewhere: a command runs
// in a folder whose name nobody knows before, in which is its input tree and nothing else, with the
// environment that it names and no other. It runs under strace, if that is wanted, and the test
// fails if it takes a file that is not among its inputs.
package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// ErrDead is what a worker's do gives that has died: the server is told nothing of the command, nor
// anything else ever again.
var ErrDead = errors.New("the worker has died")

// Workers run commands until the test ends.
type Workers struct {
	t      testing.TB
	do     func(*Job) (*re.ActionResult, error)
	tracer string // strace, or "" where nobody looks at what commands read
	dir    string // of all their files
	files  *store
	ran    atomic.Int64
}

// Ran is how many commands ended of which the server was told.
func (w *Workers) Ran() int { return int(w.ran.Load()) }

// Job is a command that a worker was given.
type Job struct {
	Command *re.Command
	// Run runs it, as it should be. It may be called once.
	Run func() (*re.ActionResult, error)
	// Put stores content.
	Put func(content []byte) (*re.Digest, error)
}

// Start has n workers run the commands of an instance of a server. do does with them something else
// than to run them, unless it is nil.
func Start(t testing.TB, farm *tooltest.Farm, n int, do func(*Job) (*re.ActionResult, error)) *Workers {
	t.Helper()
	tracer, err := exec.LookPath("strace")
	if err != nil {
		tooltest.Missing(t, "strace")
	}
	return start(t, farm, n, do, tracer)
}

// StartUntraced is Start where what commands read is not looked at, which takes as long as the
// commands.
func StartUntraced(t testing.TB, farm *tooltest.Farm, n int, do func(*Job) (*re.ActionResult, error)) *Workers {
	t.Helper()
	return start(t, farm, n, do, "")
}

func start(t testing.TB, farm *tooltest.Farm, n int, do func(*Job) (*re.ActionResult, error), tracer string) *Workers {
	t.Helper()
	if do == nil {
		do = func(j *Job) (*re.ActionResult, error) { return j.Run() }
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(farm.Host, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	all := &Workers{t: t, do: do, tracer: tracer, dir: dir, files: &store{conn: dial(), instance: farm.Instance, dir: farm.Kept}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		conn := dial()
		running.Go(func() {
			defer conn.Close()
			all.serve(ctx, conn)
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		all.files.conn.Close()
	})
	return all
}

// serve is one worker. It ends with the context, with the server, and when it dies.
func (w *Workers) serve(ctx context.Context, conn *grpc.ClientConn) {
	s := session{instance: w.files.instance, bot: rand.Text()}
	for {
		if err := s.exchange(ctx, conn); err != nil {
			if ctx.Err() == nil {
				w.t.Logf("a worker ends: %v", err)
			}
			return
		}
		for i := range s.leases {
			l := &s.leases[i]
			result, err := w.lease(ctx, l)
			switch {
			case errors.Is(err, ErrDead), ctx.Err() != nil:
				return
			case err != nil:
				w.t.Logf("a worker cannot run a command: %v", err)
				l.status = statusOf(err)
			default:
				w.ran.Add(1)
				l.result, l.status = result, &spb.Status{}
			}
			l.state = completed
		}
	}
}

// statusOf is what the API wants to be said of an error: what is not in the server's store any more
// may be sent again.
func statusOf(err error) *spb.Status {
	s := status.New(codes.FailedPrecondition, err.Error())
	if status.Code(err) == codes.NotFound {
		missing := &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{Type: "MISSING", Description: err.Error()}}}
		if detailed, err := s.WithDetails(missing); err == nil {
			s = detailed
		}
	}
	return s.Proto()
}

// lease runs the command of a lease.
func (w *Workers) lease(ctx context.Context, l *lease) (*re.ActionResult, error) {
	var packed anypb.Any
	var action re.Action
	var command re.Command
	if err := proto.Unmarshal(l.action, &packed); err != nil {
		return nil, err
	}
	if err := packed.UnmarshalTo(&action); err != nil {
		return nil, err
	}
	if err := w.files.message(ctx, action.GetCommandDigest(), &command); err != nil {
		return nil, err
	}
	return w.do(&Job{
		Command: &command,
		Run:     func() (*re.ActionResult, error) { return w.run(ctx, action.GetInputRootDigest(), &command) },
		Put:     func(content []byte) (*re.Digest, error) { return w.files.put(ctx, content) },
	})
}

// run runs a command as the API says.
func (w *Workers) run(ctx context.Context, input *re.Digest, c *re.Command) (*re.ActionResult, error) {
	base, err := os.MkdirTemp(w.dir, "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	root := filepath.Join(base, "root")
	if err := os.Mkdir(root, 0o777); err != nil {
		return nil, err
	}
	if err := w.files.tree(ctx, input, root); err != nil {
		return nil, err
	}
	for _, o := range c.GetOutputPaths() {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, o)), 0o777); err != nil {
			return nil, err
		}
	}
	begun := timestamppb.Now()
	said, exit, err := w.start(ctx, c, root, filepath.Join(base, "trace"))
	if err != nil {
		return nil, err
	}
	r := &re.ActionResult{ExitCode: int32(exit), StdoutRaw: said[0], ExecutionMetadata: &re.ExecutedActionMetadata{
		Worker: "double", ExecutionStartTimestamp: begun, ExecutionCompletedTimestamp: timestamppb.Now()}}
	if r.StderrDigest, err = w.files.put(ctx, said[1]); err != nil {
		return nil, err
	}
	if w.tracer != "" {
		w.examine(filepath.Join(base, "trace"), root, c)
	}
	return r, w.collect(ctx, c, root, r)
}

// start runs the program of a command, and gives what it says at both its outputs.
func (w *Workers) start(ctx context.Context, c *re.Command, root, trace string) (said [2][]byte, exitCode int, err error) {
	argv := c.GetArguments()
	if w.tracer != "" {
		argv = append([]string{w.tracer}, strace.Args(trace, argv)[1:]...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = root, []string{} // nil would be that of the test
	for _, e := range c.GetEnvironmentVariables() {
		cmd.Env = append(cmd.Env, e.GetName()+"="+e.GetValue())
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // strace leaves its children alone when it is killed
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	return [2][]byte{out.Bytes(), errs.Bytes()}, cmd.ProcessState.ExitCode(), err
}

// machine is what every program may look at on every machine: what the kernel makes up, what is
// loaded into all programs, how memory is to be had (the jemalloc in cicc 13.5), and the time.
// Where TZ is UTC it is the same with no file at all.
var machine = []string{"/proc/", "/sys/", "/dev/", "/etc/ld.so.preload", "/etc/malloc.conf", "/etc/localtime", "/usr/share/zoneinfo/"}

// examine has the test fail for each file outside of root that a command took content from, or
// would have, had it been there.
func (w *Workers) examine(trace, root string, c *re.Command) {
	f, err := os.Open(trace)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer f.Close()
	all, err := strace.Parse(f, root)
	if err != nil {
		w.t.Error(err)
	}
	told := map[string]bool{}
	for _, a := range all {
		name := filepath.Clean(a.Path)
		inside := name == root || strings.HasPrefix(name, root+"/")
		if inside || told[name] || slices.ContainsFunc(machine, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		told[name] = true
		w.t.Errorf("%s %s, which is not among the inputs of %s", verbs[a.Use], name, c.GetArguments())
	}
}

// verbs say what a command did, and would not have done anywhere else.
var verbs = map[strace.Use]string{strace.Read: "it read", strace.Ran: "it ran", strace.Listed: "it listed", strace.Link: "it followed",
	strace.Looked: "it looked for", strace.Wrote: "it wrote"}

// collect stores the outputs that a command has made.
func (w *Workers) collect(ctx context.Context, c *re.Command, root string, r *re.ActionResult) error {
	for _, o := range c.GetOutputPaths() {
		name := filepath.Join(root, o)
		info, err := os.Stat(name)
		if err != nil {
			continue // what is not there is no output
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		d, err := w.files.put(ctx, content)
		if err != nil {
			return err
		}
		r.OutputFiles = append(r.OutputFiles, &re.OutputFile{Path: o, Digest: d, IsExecutable: info.Mode()&0o100 != 0})
	}
	return nil
}
