package remoteexec_test

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

// The workers are a test double of the machines that run commands for a Remote Execution API
// server: no package registry has a real one. The server and the commands are real. The double
// follows the API to the letter, so that commands that work here also work remotely. A command runs
// in a folder with an unpredictable name that contains only its input tree, with only the
// environment that it names. It can run under strace; the test then fails if it reads a file that
// is not among its inputs.

// errDead is the error of a worker's do that simulates its death: the worker never contacts the
// server again, not even about this command.
var errDead = errors.New("the worker has died")

// workers run commands until the test ends.
type workers struct {
	t      testing.TB
	do     func(*job) (*re.ActionResult, error)
	tracer string // strace, or "" if reads are not checked
	dir    string // folder of all their files
	files  *store
	ran    atomic.Int64
}

// Ran returns how many commands ended and were reported to the server.
func (w *workers) Ran() int { return int(w.ran.Load()) }

// job is a command that was assigned to a worker.
type job struct {
	Command *re.Command
	// Run runs the command as the API requires. It may be called once.
	Run func() (*re.ActionResult, error)
	// Put stores content.
	Put func(content []byte) (*re.Digest, error)
}

// startTraced starts n workers for the commands of an instance of a server. If do is not nil, it
// replaces the execution of a command.
func startTraced(t testing.TB, farm *server, n int, do func(*job) (*re.ActionResult, error)) *workers {
	t.Helper()
	tracer, err := exec.LookPath("strace")
	if err != nil {
		tooltest.Missing(t, "strace")
	}
	return start(t, farm, n, do, tracer)
}

// startUntraced is startTraced without strace, which takes as long as the commands.
func startUntraced(t testing.TB, farm *server, n int, do func(*job) (*re.ActionResult, error)) *workers {
	t.Helper()
	return start(t, farm, n, do, "")
}

func start(t testing.TB, farm *server, n int, do func(*job) (*re.ActionResult, error), tracer string) *workers {
	t.Helper()
	if do == nil {
		do = func(j *job) (*re.ActionResult, error) { return j.Run() }
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
	all := &workers{t: t, do: do, tracer: tracer, dir: dir, files: &store{conn: dial(), instance: farm.Instance, dir: farm.Kept}}
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

// serve runs one worker. It ends with the context, with the server, and when the worker dies.
func (w *workers) serve(ctx context.Context, conn *grpc.ClientConn) {
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
			case errors.Is(err, errDead), ctx.Err() != nil:
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

// statusOf returns the status that the API requires for an error: the client may upload missing
// content again.
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

func (w *workers) lease(ctx context.Context, l *lease) (*re.ActionResult, error) {
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
	return w.do(&job{
		Command: &command,
		Run:     func() (*re.ActionResult, error) { return w.run(ctx, action.GetInputRootDigest(), &command) },
		Put:     func(content []byte) (*re.Digest, error) { return w.files.put(ctx, content) },
	})
}

// run runs a command as the API requires.
func (w *workers) run(ctx context.Context, input *re.Digest, c *re.Command) (*re.ActionResult, error) {
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
	printed, exit, err := w.start(ctx, c, root, filepath.Join(base, "trace"))
	if err != nil {
		return nil, err
	}
	r := &re.ActionResult{ExitCode: int32(exit), StdoutRaw: printed[0], ExecutionMetadata: &re.ExecutedActionMetadata{
		Worker: "double", ExecutionStartTimestamp: begun, ExecutionCompletedTimestamp: timestamppb.Now()}}
	if r.StderrDigest, err = w.files.put(ctx, printed[1]); err != nil {
		return nil, err
	}
	if w.tracer != "" {
		w.examine(filepath.Join(base, "trace"), root, c)
	}
	return r, w.collect(ctx, c, root, r)
}

// start runs the program of a command, and returns its standard output and error.
func (w *workers) start(ctx context.Context, c *re.Command, root, trace string) (printed [2][]byte, exitCode int, err error) {
	argv := c.GetArguments()
	if w.tracer != "" {
		argv = append([]string{w.tracer}, strace.Args(trace, argv)[1:]...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = root, []string{} // nil would inherit the test's
	for _, e := range c.GetEnvironmentVariables() {
		cmd.Env = append(cmd.Env, e.GetName()+"="+e.GetValue())
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// Strace does not kill its children when it is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	return [2][]byte{out.Bytes(), errs.Bytes()}, cmd.ProcessState.ExitCode(), err
}

// machine lists what every program may read on every machine: the kernel's file systems, libraries
// that are loaded into all programs, and the time zone. /etc/malloc.conf configures the jemalloc in
// cicc 13.5. With TZ=UTC the time zone needs no file.
var machine = []string{"/proc/", "/sys/", "/dev/", "/etc/ld.so.preload", "/etc/malloc.conf", "/etc/localtime", "/usr/share/zoneinfo/"}

// examine fails the test for each file outside of root that a command read, or probed.
func (w *workers) examine(trace, root string, c *re.Command) {
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

// verbs describe what a command did.
var verbs = map[strace.Use]string{strace.Read: "it read", strace.Ran: "it ran", strace.Listed: "it listed", strace.Link: "it followed",
	strace.Looked: "it looked for", strace.Wrote: "it wrote"}

// collect uploads the outputs of a command.
func (w *workers) collect(ctx context.Context, c *re.Command, root string, r *re.ActionResult) error {
	for _, o := range c.GetOutputPaths() {
		name := filepath.Join(root, o)
		info, err := os.Stat(name)
		if err != nil {
			continue // a missing file is not an output
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
