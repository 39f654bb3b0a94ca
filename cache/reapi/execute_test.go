package reapi

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// farm is a double of a server that runs commands: it keeps blobs, and says of commands what a test
// wants.
type farm struct {
	re.UnimplementedCapabilitiesServer
	re.UnimplementedContentAddressableStorageServer
	re.UnimplementedExecutionServer
	// run answers the nth call, of Execute or, with a name, of WaitExecution. It sends what it
	// wants.
	run func(n int, name string, action *re.Digest, send func(*longrunningpb.Operation) error) error
	// gate, if it is there, holds up what asks for abilities once a command runs.
	gate chan struct{}
	// alive, if it is there, is closed when the server was asked six times for its abilities.
	alive chan struct{}
	asked atomic.Int64
	// stream, if it is there, gives large blobs.
	stream bytestream.ByteStreamServer

	mu    sync.Mutex
	calls int
	blobs map[string][]byte // by digest
	sent  []string          // digests
}

func (f *farm) GetCapabilities(ctx context.Context, _ *re.GetCapabilitiesRequest) (*re.ServerCapabilities, error) {
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-ctx.Done():
		}
	}
	if f.asked.Add(1) == 6 && f.alive != nil {
		close(f.alive)
	}
	return &re.ServerCapabilities{CacheCapabilities: &re.CacheCapabilities{}, ExecutionCapabilities: &re.ExecutionCapabilities{ExecEnabled: true}}, nil
}

func (f *farm) FindMissingBlobs(_ context.Context, r *re.FindMissingBlobsRequest) (*re.FindMissingBlobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &re.FindMissingBlobsResponse{}
	for _, d := range r.GetBlobDigests() {
		if _, ok := f.blobs[d.GetHash()]; !ok {
			out.MissingBlobDigests = append(out.MissingBlobDigests, d)
		}
	}
	return out, nil
}

func (f *farm) BatchUpdateBlobs(_ context.Context, r *re.BatchUpdateBlobsRequest) (*re.BatchUpdateBlobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &re.BatchUpdateBlobsResponse{}
	for _, b := range r.GetRequests() {
		f.blobs[b.GetDigest().GetHash()] = b.GetData()
		f.sent = append(f.sent, b.GetDigest().GetHash())
		out.Responses = append(out.Responses, &re.BatchUpdateBlobsResponse_Response{Digest: b.GetDigest(), Status: &rpc.Status{}})
	}
	return out, nil
}

func (f *farm) BatchReadBlobs(_ context.Context, r *re.BatchReadBlobsRequest) (*re.BatchReadBlobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &re.BatchReadBlobsResponse{}
	for _, d := range r.GetDigests() {
		one := &re.BatchReadBlobsResponse_Response{Digest: d, Data: f.blobs[d.GetHash()], Status: &rpc.Status{}}
		if one.Data == nil {
			one.Status.Code = int32(codes.NotFound)
		}
		out.Responses = append(out.Responses, one)
	}
	return out, nil
}

func (f *farm) call(name string, d *re.Digest, send func(*longrunningpb.Operation) error) error {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.mu.Unlock()
	return f.run(n, name, d, send)
}

func (f *farm) Execute(r *re.ExecuteRequest, s re.Execution_ExecuteServer) error {
	return f.call("", r.GetActionDigest(), s.Send)
}

func (f *farm) WaitExecution(r *re.WaitExecutionRequest, s re.Execution_WaitExecutionServer) error {
	return f.call(r.GetName(), nil, s.Send)
}

// forget loses all blobs.
func (f *farm) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blobs = map[string][]byte{}
}

// message reads a blob that is a message.
func (f *farm) message(t *testing.T, d *re.Digest, m proto.Message) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.blobs[d.GetHash()]
	if err := proto.Unmarshal(b, m); !ok || err != nil {
		t.Errorf("the blob %v: %v, %v", d, ok, err)
	}
}

// client starts a double, with a client that waits for nothing.
func (f *farm) client(t *testing.T) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.blobs = map[string][]byte{}
	s := grpc.NewServer()
	re.RegisterCapabilitiesServer(s, f)
	re.RegisterContentAddressableStorageServer(s, f)
	re.RegisterExecutionServer(s, f)
	if f.stream != nil {
		bytestream.RegisterByteStreamServer(s, f.stream)
	}
	go s.Serve(l)
	t.Cleanup(s.Stop)
	c, err := Open("grpc://"+l.Addr().String(), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.s.(*grpcServer).backoff = time.Nanosecond
	return c
}

// done is the end of a command.
func done(t *testing.T, r *re.ExecuteResponse) *longrunningpb.Operation {
	t.Helper()
	packed, err := anypb.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return &longrunningpb.Operation{Name: "the end", Done: true, Result: &longrunningpb.Operation_Response{Response: packed}}
}

// command is one with an input, out/made as its output, and a folder to write it in.
func command(t *testing.T) *remote.Command {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("what goes in"), 0o666); err != nil {
		t.Fatal(err)
	}
	b := BlobOf([]byte("what goes in"))
	return &remote.Command{Argv: []string{"bin/tool", "a b"}, Env: []string{"A=1=2", "B="}, Platform: [][2]string{{"OSFamily", "linux"}},
		Inputs: []remote.Input{{Path: "src/in", File: in, Digest: b.Digest, Size: b.Size, Exec: true}}, Folders: []string{"out", "tmp/x"},
		Outputs: []remote.Output{{Path: "out/made", File: filepath.Join(dir, "made")}}}
}

// made is the result of a command that has written out/made.
func (f *farm) made(content string) *re.ActionResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := BlobOf([]byte(content))
	f.blobs[b.Digest.String()] = []byte(content)
	return &re.ActionResult{OutputFiles: []*re.OutputFile{{Path: "out/made", Digest: digestOf(b), IsExecutable: true}}, StdoutRaw: []byte("said\n")}
}

// A command goes to the server with all that it needs, and what it makes and says comes back.
func TestExecute(t *testing.T) {
	f := &farm{}
	f.run = func(_ int, _ string, d *re.Digest, send func(*longrunningpb.Operation) error) error {
		var a re.Action
		var c re.Command
		var root, src re.Directory
		f.message(t, d, &a)
		f.message(t, a.GetCommandDigest(), &c)
		f.message(t, a.GetInputRootDigest(), &root)
		if len(root.GetDirectories()) != 3 || root.GetDirectories()[1].GetName() != "src" {
			t.Fatalf("the root %v", &root)
		}
		f.message(t, root.GetDirectories()[1].GetDigest(), &src)
		if in := src.GetFiles(); len(in) != 1 || in[0].GetName() != "in" || !in[0].GetIsExecutable() || in[0].GetDigest().GetSizeBytes() != 12 {
			t.Errorf("the folder src %v", &src)
		}
		env := c.GetEnvironmentVariables()
		if !slices.Equal(c.GetArguments(), []string{"bin/tool", "a b"}) || !slices.Equal(c.GetOutputPaths(), []string{"out/made"}) || len(env) != 2 || env[0].GetValue() != "1=2" {
			t.Errorf("the command %v", &c)
		}
		//lint:ignore SA1019 Some servers look at that of the command.
		if p, q := a.GetPlatform().GetProperties(), c.GetPlatform().GetProperties(); len(p) != 1 || len(q) != 1 || p[0].GetName() != "OSFamily" || q[0].GetValue() != "linux" {
			t.Errorf("platforms %v and %v", p, q)
		}
		return send(done(t, &re.ExecuteResponse{Result: f.made("made")}))
	}
	c, cmd := f.client(t), command(t)
	if can, err := c.Connect(t.Context()); err != nil || !can.Executes {
		t.Fatalf("%+v, %v", can, err)
	}
	out, err := c.Execute(t.Context(), cmd)
	if err != nil || string(out.Stdout) != "said\n" || out.ExitCode != 0 || out.Sent == 0 || out.Received != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	if text, err := os.ReadFile(cmd.Outputs[0].File); err != nil || string(text) != "made" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(cmd.Outputs[0].File); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("it cannot be run: %v", err)
	}
	sent := len(f.sent)
	os.Remove(cmd.Outputs[0].File)
	if out, err := c.Execute(t.Context(), cmd); err != nil || out.Sent != 0 || len(f.sent) != sent {
		t.Errorf("the same again: %+v, %v, %d blobs and then %d", out, err, sent, len(f.sent))
	}
}

// missing is what a server says that has lost an input.
func missing() *rpc.Status {
	s, _ := status.New(codes.FailedPrecondition, "an input is not there").WithDetails(
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{Type: "MISSING", Subject: "blobs/x/1"}}})
	return s.Proto()
}

// What the server has lost is sent again, whether the call or the command fails of it. Not for
// ever.
func TestLostInputs(t *testing.T) {
	for name, tt := range map[string]struct {
		lost, calls int
		call        bool
	}{
		"the call fails":    {1, 2, true},
		"the command fails": {1, 2, false},
		"it loses all":      {100, attempts, false},
	} {
		f := &farm{}
		f.run = func(n int, _ string, _ *re.Digest, send func(*longrunningpb.Operation) error) error {
			switch {
			case n > tt.lost:
				return send(done(t, &re.ExecuteResponse{Result: f.made("made")}))
			case tt.call:
				f.forget()
				return status.ErrorProto(missing())
			}
			f.forget()
			return send(done(t, &re.ExecuteResponse{Status: missing()}))
		}
		cmd := command(t)
		out, err := f.client(t).Execute(t.Context(), cmd)
		if (err == nil) != (tt.lost == 1) || f.calls != tt.calls {
			t.Errorf("%s: %+v, %v, %d calls", name, out, err, f.calls)
		}
		in, n := cmd.Inputs[0].Digest.String(), 0
		for _, s := range f.sent {
			if s == in {
				n++
			}
		}
		if n != tt.calls {
			t.Errorf("%s: the input was sent %d times", name, n)
		}
		if errors.Is(err, errFatal) {
			t.Errorf("%s: %v, of which no other command is to know", name, err)
		}
	}
}

// A stream that breaks is taken up where it was, and if nobody knows of it any more the action is
// submitted again. Not for ever.
func TestResumed(t *testing.T) {
	const unavailable, unknown = codes.Unavailable, codes.NotFound
	for name, tt := range map[string]struct {
		answers []codes.Code // of the calls, the last of all others too
		calls   string       // the operations that were asked for, "-" for a new one
		ok      bool
	}{
		"it breaks":         {[]codes.Code{unavailable, codes.OK}, "- a", true},
		"it is forgotten":   {[]codes.Code{unavailable, unknown, codes.OK}, "- a -", true},
		"it ends":           {[]codes.Code{codes.OutOfRange, codes.OK}, "- a", true}, // which stands for a stream that ends with nothing said
		"it breaks always":  {[]codes.Code{unavailable}, "- a a a a", false},
		"it is not allowed": {[]codes.Code{codes.PermissionDenied}, "-", false},
	} {
		var calls []string
		f := &farm{}
		f.run = func(n int, operation string, _ *re.Digest, send func(*longrunningpb.Operation) error) error {
			if operation == "" {
				operation = "-"
			}
			calls = append(calls, operation)
			code := tt.answers[min(n, len(tt.answers))-1]
			if code == codes.OK {
				return send(done(t, &re.ExecuteResponse{Result: f.made("made")}))
			}
			if code != unknown {
				if err := send(&longrunningpb.Operation{Name: "a"}); err != nil {
					return err
				}
			}
			if code == codes.OutOfRange {
				return nil
			}
			return status.Error(code, "so it is")
		}
		_, err := f.client(t).Execute(t.Context(), command(t))
		if got := strings.Join(calls, " "); got != tt.calls || (err == nil) != tt.ok {
			t.Errorf("%s: the calls %q, %v", name, got, err)
		}
	}
}

// What every command would be told ends all. What one command is told does not, and nothing wrong
// is taken.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(f *farm) *re.ExecuteResponse
		want   error
		text   string
	}{
		"no worker": {func(*farm) *re.ExecuteResponse {
			return &re.ExecuteResponse{Status: &rpc.Status{Code: 9, Message: "no workers"}}
		}, errFatal, "no workers"},
		"not here": {func(*farm) *re.ExecuteResponse { return &re.ExecuteResponse{Status: &rpc.Status{Code: 12}} }, errFatal, "Unimplemented"},
		"no such tool": {func(*farm) *re.ExecuteResponse {
			return &re.ExecuteResponse{Status: &rpc.Status{Code: 3, Message: "no tool"}}
		}, nil, "no tool"},
		"nothing at all": {func(*farm) *re.ExecuteResponse { return &re.ExecuteResponse{} }, ErrWrong, "without a result"},
		"no output":      {func(*farm) *re.ExecuteResponse { return &re.ExecuteResponse{Result: &re.ActionResult{}} }, ErrWrong, "did not write out/made"},
		"other content": {func(f *farm) *re.ExecuteResponse {
			r := f.made("made")
			f.blobs[r.OutputFiles[0].Digest.Hash] = []byte("evil")
			return &re.ExecuteResponse{Result: r}
		}, ErrWrong, "in place of"},
		"an output that is gone": {func(f *farm) *re.ExecuteResponse {
			r := f.made("made")
			f.forget()
			return &re.ExecuteResponse{Result: r}
		}, ErrMiss, "out/made"},
		"a digest that is none": {func(f *farm) *re.ExecuteResponse {
			r := f.made("made")
			r.OutputFiles[0].Digest.Hash = "../../passwd"
			return &re.ExecuteResponse{Result: r}
		}, ErrWrong, "digest"},
	} {
		f := &farm{}
		f.run = func(_ int, _ string, _ *re.Digest, send func(*longrunningpb.Operation) error) error {
			return send(done(t, tt.answer(f)))
		}
		cmd := command(t)
		_, err := f.client(t).Execute(t.Context(), cmd)
		if err == nil || !strings.Contains(err.Error(), tt.text) || tt.want != nil && !errors.Is(err, tt.want) || tt.want != errFatal && errors.Is(err, errFatal) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(cmd.Outputs[0].File); err == nil {
			t.Errorf("%s: there is an output", name)
		}
	}
}

// A command that fails has no outputs.
func TestFails(t *testing.T) {
	f := &farm{}
	f.run = func(_ int, _ string, _ *re.Digest, send func(*longrunningpb.Operation) error) error {
		r := f.made("half of it")
		r.ExitCode, r.StdoutRaw = 3, nil
		b := BlobOf([]byte("no good\n"))
		f.blobs[b.Digest.String()] = []byte("no good\n")
		r.StderrDigest = digestOf(b)
		return send(done(t, &re.ExecuteResponse{Result: r}))
	}
	cmd := command(t)
	out, err := f.client(t).Execute(t.Context(), cmd)
	if err != nil || out.ExitCode != 3 || string(out.Stderr) != "no good\n" {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := os.Stat(cmd.Outputs[0].File); err == nil {
		t.Error("there is an output")
	}
}

// A server that answers nothing any more ends all commands that run there.
func TestPulse(t *testing.T) {
	f := &farm{gate: make(chan struct{})}
	f.run = func(int, string, *re.Digest, func(*longrunningpb.Operation) error) error {
		<-f.gate
		return nil
	}
	c := f.client(t)
	c.pulse.beat, c.pulse.limit = time.Millisecond, 5*time.Millisecond
	ended := make(chan error)
	for range 2 {
		go func() {
			_, err := c.Execute(t.Context(), command(t))
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, errStopped) || !errors.Is(err, errFatal) {
			t.Errorf("it ends with %v", err)
		}
	}
	close(f.gate)
}

// A server that says nothing of a command for long, but lives, is waited for.
func TestPulseOfSilent(t *testing.T) {
	f := &farm{alive: make(chan struct{})}
	f.run = func(_ int, _ string, _ *re.Digest, send func(*longrunningpb.Operation) error) error {
		<-f.alive
		return send(done(t, &re.ExecuteResponse{Result: f.made("made")}))
	}
	c := f.client(t)
	c.pulse.beat, c.pulse.limit = time.Millisecond, time.Hour
	if _, err := c.Execute(t.Context(), command(t)); err != nil {
		t.Error(err)
	}
}

// shelf is a server that takes blobs.
type shelf struct {
	server
	sent []Blob
}

func (s *shelf) missing(_ context.Context, blobs []Blob) ([]Blob, error) { return blobs, nil }

func (s *shelf) write(_ context.Context, blobs []content) (int64, error) {
	for _, b := range blobs {
		s.sent = append(s.sent, b.Blob)
	}
	return 0, nil
}

// What two commands read is sent once. If the one that sends it gives up, the other one sends it.
func TestSharedInputs(t *testing.T) {
	for _, sent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{}
			c := &Client{s: s}
			blobs := map[Blob]func() (io.ReadCloser, error){BlobOf([]byte("a")): nil, BlobOf([]byte("b")): nil}
			mine, _ := c.known.claim(blobs)
			ended := make(chan error, 1)
			go func() {
				_, err := c.provide(t.Context(), blobs)
				ended <- err
			}()
			synctest.Wait() // until it waits too
			if len(ended) > 0 || len(mine) != 2 {
				t.Errorf("%d blobs are sent, and are not waited for", len(mine))
			}
			c.known.settle(mine, sent)
			if err := <-ended; err != nil || sent && len(s.sent) > 0 || !sent && len(s.sent) != 2 {
				t.Errorf("sent by the other one %v: %v, %d sent", sent, err, len(s.sent))
			}
		})
	}
}

// Names of inputs that cannot be together in a folder, or would be outside of it, are refused.
func TestInputTree(t *testing.T) {
	tree := func(folders []string, files ...string) (Blob, error) {
		cmd := &remote.Command{Folders: folders}
		for _, f := range files {
			cmd.Inputs = append(cmd.Inputs, remote.Input{Path: f})
		}
		root, messages, err := inputTree(cmd)
		if err == nil && BlobOf(messages[len(messages)-1]) != root {
			t.Errorf("%q: the root is not the last message", files)
		}
		return root, err
	}
	for text, files := range map[string][]string{
		"two inputs are called a/./b":  {"a/b", "a/./b"},
		"two inputs are called a":      {"a/b", "a"},
		"a/b/c is a file and a folder": {"a/b", "a/b/c/d"},
		"is not below the folder":      {"../a"},
		"/etc is not below the folder": {"/etc/passwd"},
	} {
		if _, err := tree(nil, files...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", files, err)
		}
	}
	one, err1 := tree([]string{"x/y", "z"}, "b/c", "a", "b/a")
	two, err2 := tree([]string{"z", "x", "x/y/"}, "a", "b/a", "b/c")
	if one != two || err1 != nil || err2 != nil {
		t.Errorf("the order of inputs shows: %v, %v", err1, err2)
	}
	if other, _ := tree([]string{"z", "x"}, "a", "b/a", "b/c"); other == one {
		t.Error("a folder does not show")
	}
}

// A command's variables are sorted, and each is there once.
func TestVariables(t *testing.T) {
	var got []string
	for _, v := range variables([]string{"TZ=Europe/Berlin", "LC_ALL=C", "A=b=c", "TZ=UTC", "EMPTY="}) {
		got = append(got, v.GetName()+"="+v.GetValue())
	}
	if want := "A=b=c EMPTY= LC_ALL=C TZ=UTC"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}
