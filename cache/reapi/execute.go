package reapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// maxPrinted is the maximum size of the stdout or stderr of a command, in bytes.
const maxPrinted = 32 << 20

// attempts is how often a command is submitted if the server loses its inputs.
const attempts = 3

// errFatal wraps an error that every command would get.
var errFatal = errors.New("no command can run there")

// Execute runs a command. If it succeeds, its outputs are written to their destinations.
func (c *Client) Execute(ctx context.Context, cmd *remote.Command) (*remote.Outcome, error) {
	server, ok := c.s.(*grpcServer)
	if !ok {
		return nil, fmt.Errorf("%w: the server speaks HTTP", errFatal)
	}
	ctx, done := c.pulse.watch(ctx, server)
	defer done()
	job, err := newJob(cmd)
	if err != nil {
		return nil, err
	}
	out := &remote.Outcome{}
	var answer *re.ExecuteResponse
	for range attempts {
		begun := time.Now()
		sent, err := c.provide(ctx, job.blobs)
		out.Sent += sent
		out.Moving += time.Since(begun)
		if err != nil {
			return nil, cause(ctx, err)
		}
		answer, err = server.execute(ctx, job.action, &c.pulse)
		if err == nil {
			err = status.ErrorProto(answer.GetStatus())
		}
		if err == nil {
			return out, cause(ctx, c.take(ctx, cmd, answer.GetResult(), out))
		}
		if !c.forget(err) {
			return nil, cause(ctx, judge(err))
		}
	}
	return nil, errors.New("the server loses inputs as quickly as they are sent")
}

// cause returns why ctx has ended, or err if it has not.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// judge wraps an error that every command would get in errFatal.
func judge(err error) error {
	switch status.Code(err) {
	case codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition:
		// FailedPrecondition: there is no worker for the platform.
		return fmt.Errorf("%w: %w", errFatal, err)
	}
	return err
}

// job is a command as REAPI blobs.
type job struct {
	action Blob
	blobs  map[Blob]func() (io.ReadCloser, error)
}

// newJob builds the messages of a command. Both name the platform, since servers read one or the
// other.
func newJob(cmd *remote.Command) (*job, error) {
	root, messages, err := inputTree(cmd)
	if err != nil {
		return nil, err
	}
	platform := &re.Platform{}
	for _, p := range cmd.Platform {
		platform.Properties = append(platform.Properties, &re.Platform_Property{Name: p[0], Value: p[1]})
	}
	//lint:ignore SA1019 servers before 2.2 look at it here
	m := &re.Command{Arguments: cmd.Argv, Platform: platform}
	m.EnvironmentVariables = variables(cmd.Env)
	for _, o := range cmd.Outputs {
		m.OutputPaths = append(m.OutputPaths, o.Path)
	}
	slices.Sort(m.OutputPaths)
	//lint:ignore SA1019 servers before 2.1 look at it
	m.OutputFiles = m.OutputPaths
	command := marshal(m)
	action := marshal(&re.Action{CommandDigest: digestOf(BlobOf(command)), InputRootDigest: digestOf(root), Platform: platform})
	j := &job{BlobOf(action), map[Blob]func() (io.ReadCloser, error){}}
	for _, in := range cmd.Inputs {
		j.blobs[Blob{in.Digest, in.Size}] = func() (io.ReadCloser, error) { return os.Open(in.File) }
	}
	for _, b := range append(messages, command, action) {
		j.blobs[BlobOf(b)] = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	return j, nil
}

// variables returns the variables of an environment, each once with its last value, sorted as the
// specification requires.
func variables(env []string) (out []*re.Command_EnvironmentVariable) {
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, &re.Command_EnvironmentVariable{Name: name, Value: values[name]})
	}
	return out
}

// take downloads the outputs, stdout and stderr of a command.
func (c *Client) take(ctx context.Context, cmd *remote.Command, r *re.ActionResult, out *remote.Outcome) error {
	begun := time.Now()
	defer func() { out.Moving += time.Since(begun) }()
	out.ExitCode = int(r.GetExitCode())
	m := r.GetExecutionMetadata()
	out.Worker = m.GetWorker()
	if from, to := m.GetExecutionStartTimestamp(), m.GetExecutionCompletedTimestamp(); from != nil && to != nil {
		out.Elapsed = max(0, to.AsTime().Sub(from.AsTime())) // a worker may report anything
	}
	var err error
	if out.Stdout, err = c.printed(ctx, r.GetStdoutRaw(), r.GetStdoutDigest()); err != nil {
		return err
	}
	if out.Stderr, err = c.printed(ctx, r.GetStderrRaw(), r.GetStderrDigest()); err != nil {
		return err
	}
	if out.ExitCode != 0 {
		return nil
	}
	files, total, err := outputsOf(cmd, r)
	if err != nil || len(files) == 0 {
		return err
	}
	back, err := c.room.take(filepath.Dir(cmd.Outputs[0].File), total)
	if err != nil {
		return err
	}
	defer back()
	for i, o := range cmd.Outputs {
		received, err := c.bring(ctx, files[i].Blob, o.File, files[i].Exec)
		if out.Received += received; err != nil {
			return fmt.Errorf("%s: %w", o.Path, err)
		}
		c.known.is(files[i].Blob)
	}
	return nil
}

// bring downloads a blob to a new file and returns the number of bytes received.
func (c *Client) bring(ctx context.Context, b Blob, file string, exec bool) (received int64, err error) {
	mode := os.FileMode(0o666)
	if exec {
		mode = 0o777
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	received, err = c.read(ctx, b, movingWriter{f, &c.pulse})
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(file)
	}
	return received, err
}

// printed returns the stdout or stderr of a command, which is part of the result or a blob.
func (c *Client) printed(ctx context.Context, raw []byte, d *re.Digest) ([]byte, error) {
	if len(raw) > 0 || d.GetSizeBytes() == 0 {
		return raw, nil
	}
	b, err := blobOf(d)
	if err != nil {
		return nil, err
	}
	if b.Size > maxPrinted {
		return nil, fmt.Errorf("the command says %d bytes", b.Size)
	}
	var text bytes.Buffer
	_, err = c.read(ctx, b, &text)
	return text.Bytes(), err
}

// forget drops the known blobs if err reports that the server lacks some. ok is false for other
// errors.
func (c *Client) forget(err error) (ok bool) {
	for _, d := range status.Convert(err).Details() {
		if f, is := d.(*errdetails.PreconditionFailure); is {
			for _, v := range f.GetViolations() {
				ok = ok || v.GetType() == "MISSING"
			}
		}
	}
	if ok {
		c.known.forget()
	}
	return ok
}

// known tracks the blobs that the server has, according to its answers and our uploads in this
// build. Concurrent commands with the same input send it once.
type known struct {
	mu    sync.Mutex
	blobs map[Blob]*sending
}

// sending is an upload of a blob.
type sending struct {
	done  chan struct{} // closed at its end
	there bool          // then the server has the blob
}

// is records that the server has a blob.
func (k *known) is(b Blob) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.blobs == nil {
		k.blobs = map[Blob]*sending{}
	}
	if k.blobs[b] == nil {
		k.blobs[b] = &sending{make(chan struct{}), true}
		close(k.blobs[b].done)
	}
}

// forget drops all blobs except those that are being sent.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.blobs, func(_ Blob, s *sending) bool { return s.there })
}

// claim returns the blobs that this caller must send, and the uploads of the others.
func (k *known) claim(blobs map[Blob]func() (io.ReadCloser, error)) (mine []Blob, others []*sending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.blobs == nil {
		k.blobs = map[Blob]*sending{}
	}
	for b := range blobs {
		if k.blobs[b] != nil {
			others = append(others, k.blobs[b])
			continue
		}
		k.blobs[b] = &sending{done: make(chan struct{})}
		mine = append(mine, b)
	}
	return mine, others
}

// settle ends a claim. there reports whether the upload succeeded.
func (k *known) settle(blobs []Blob, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range blobs {
		k.blobs[b].there = there
		close(k.blobs[b].done)
		if !there {
			delete(k.blobs, b)
		}
	}
}

// provide sends the blobs that the server lacks and returns the number of bytes sent. It waits for
// blobs that another command is sending. If that command is canceled, for example because its local
// run has ended, provide sends them itself: servers also start commands whose inputs are missing.
func (c *Client) provide(ctx context.Context, blobs map[Blob]func() (io.ReadCloser, error)) (sent int64, err error) {
	for again := true; again; {
		mine, others := c.known.claim(blobs)
		n, err := c.send(ctx, mine, blobs)
		if sent += n; err != nil {
			return sent, err
		}
		again = false
		for _, o := range others {
			select {
			case <-o.done:
				again = again || !o.there
			case <-ctx.Done():
				return sent, ctx.Err()
			}
		}
	}
	return sent, nil
}

// send sends the claimed blobs and settles the claim.
func (c *Client) send(ctx context.Context, mine []Blob, blobs map[Blob]func() (io.ReadCloser, error)) (sent int64, err error) {
	if len(mine) == 0 {
		return 0, nil
	}
	want := map[Blob]func() (io.ReadCloser, error){}
	for _, b := range mine {
		want[b] = func() (io.ReadCloser, error) {
			content, err := blobs[b]()
			return movingReader{content, &c.pulse}, err
		}
	}
	sent, err = c.upload(ctx, want)
	c.known.settle(mine, err == nil)
	return sent, err
}

// pulse monitors a server while commands run on it. A stopped server never answers, and keepalives
// are not possible. While data arrives the server is alive; otherwise it is queried.
type pulse struct {
	mu    sync.Mutex
	users int
	stop  context.CancelFunc // stops the goroutine of ask
	dead  context.Context    // ends when the server stops answering
	last  atomic.Int64       // time of the last transfer or message, in Unix nanoseconds

	beat, limit time.Duration // 0 means the defaults below
}

// The interval of queries, and the time limit of an answer.
const (
	beat  = 500 * time.Millisecond
	limit = 1500 * time.Millisecond
)

var errStopped = errors.New("the server does not answer any more")

func (p *pulse) moved() { p.last.Store(time.Now().UnixNano()) }

// watch returns a context that ends when the server stops answering. The caller must call done.
func (p *pulse) watch(parent context.Context, s *grpcServer) (ctx context.Context, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users == 1 {
		watching, stop := context.WithCancel(context.Background())
		dead, die := context.WithCancelCause(context.Background())
		p.stop, p.dead = stop, dead
		go p.ask(watching, s, die)
	}
	dead := p.dead
	ctx, cancel := context.WithCancelCause(parent)
	release := context.AfterFunc(dead, func() { cancel(context.Cause(dead)) })
	return ctx, func() {
		release()
		cancel(nil)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users--; p.users == 0 {
			p.stop()
		}
	}
}

func (p *pulse) ask(ctx context.Context, s *grpcServer, die context.CancelCauseFunc) {
	beat, limit := cmp.Or(p.beat, beat), cmp.Or(p.limit, limit)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, limit)
		err := s.alive(asking)
		cancel()
		quiet := time.Since(time.Unix(0, p.last.Load())) > limit
		if err != nil && ctx.Err() == nil && quiet && status.Code(err) == codes.DeadlineExceeded {
			die(fmt.Errorf("%w: %w", errFatal, errStopped))
			return
		}
	}
}

// folder is a folder of a command's inputs.
type folder struct {
	files   map[string]*re.FileNode
	folders map[string]*folder
}

func newFolder() *folder {
	return &folder{map[string]*re.FileNode{}, map[string]*folder{}}
}

// inputTree returns the input root of a command: one message for each folder, which names its files
// and the messages of its subfolders. root is the Blob of the root folder's message.
func inputTree(cmd *remote.Command) (root Blob, messages [][]byte, err error) {
	top := newFolder()
	for _, dir := range cmd.Folders {
		if _, err := top.folder(dir); err != nil {
			return root, nil, err
		}
	}
	for _, in := range cmd.Inputs {
		dir, err := top.folder(path.Dir(in.Path))
		if err != nil {
			return root, nil, err
		}
		name := path.Base(in.Path)
		if _, taken := dir.folders[name]; taken || dir.files[name] != nil {
			return root, nil, fmt.Errorf("two inputs are called %s", in.Path)
		}
		dir.files[name] = &re.FileNode{Name: name, Digest: digestOf(Blob{in.Digest, in.Size}), IsExecutable: in.Exec}
	}
	root, messages = top.encode(nil)
	return root, messages, nil
}

// folder returns the folder with this name, and creates it if necessary.
func (f *folder) folder(name string) (*folder, error) {
	if name = path.Clean(name); name == "." {
		return f, nil
	}
	if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return nil, fmt.Errorf("%s is not below the folder of the command", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if f.files[part] != nil {
			return nil, fmt.Errorf("%s is a file and a folder", name)
		}
		if f.folders[part] == nil {
			f.folders[part] = newFolder()
		}
		f = f.folders[part]
	}
	return f, nil
}

// encode appends the messages of f and its subfolders, with that of f last.
func (f *folder) encode(messages [][]byte) (Blob, [][]byte) {
	m := &re.Directory{}
	for _, file := range f.files {
		m.Files = append(m.Files, file)
	}
	for name, sub := range f.folders {
		var b Blob
		b, messages = sub.encode(messages)
		m.Directories = append(m.Directories, &re.DirectoryNode{Name: name, Digest: digestOf(b)})
	}
	slices.SortFunc(m.Files, func(a, b *re.FileNode) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Directories, func(a, b *re.DirectoryNode) int { return strings.Compare(a.Name, b.Name) })
	text := marshal(m)
	return BlobOf(text), append(messages, text)
}

// marshal returns the same bytes for equal messages.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}
