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

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// maxSaid is how much of what a command says is taken, in bytes.
const maxSaid = 32 << 20

// attempts is how often a command is submitted whose inputs the server has lost meanwhile.
const attempts = 3

// errFatal wraps what every command would get.
var errFatal = errors.New("no command can run there")

// executor is a server that runs commands.
type executor interface {
	// execute runs an action whose blobs are there; moved is called when the server says something.
	execute(ctx context.Context, action Blob, moved func()) (*re.ExecuteResponse, error)
	// alive asks the server for something that costs it nothing.
	alive(ctx context.Context) error
}

// Execute runs a command. Its outputs are put where they are wanted if it ends well.
func (c *Client) Execute(ctx context.Context, cmd *remote.Command) (*remote.Outcome, error) {
	server, ok := c.s.(executor)
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
		answer, err = server.execute(ctx, job.action, c.pulse.moved)
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

// cause is why ctx has ended, or err.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// judge finds the errors that every command would get.
func judge(err error) error {
	switch status.Code(err) {
	case codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition: // the last is: no worker for the platform
		return fmt.Errorf("%w: %w", errFatal, err)
	}
	return err
}

// job is a command as servers know it.
type job struct {
	action Blob
	blobs  map[Blob]func() (io.ReadCloser, error)
}

// newJob makes the messages of a command. What it runs on is named in both, as servers look at one
// or the other.
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

// variables are those of an environment, each once with its last value, sorted as the specification
// wants them.
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

// take brings home what a command has made and said.
func (c *Client) take(ctx context.Context, cmd *remote.Command, r *re.ActionResult, out *remote.Outcome) error {
	begun := time.Now()
	defer func() { out.Moving += time.Since(begun) }()
	out.ExitCode = int(r.GetExitCode())
	account(out, r.GetExecutionMetadata())
	var err error
	if out.Stdout, err = c.said(ctx, r.GetStdoutRaw(), r.GetStdoutDigest()); err != nil {
		return err
	}
	if out.Stderr, err = c.said(ctx, r.GetStderrRaw(), r.GetStderrDigest()); err != nil {
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

// bring writes a blob to a new file, and gives the bytes that came.
func (c *Client) bring(ctx context.Context, b Blob, file string, exec bool) (received int64, err error) {
	mode := os.FileMode(0o666)
	if exec {
		mode = 0o777
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	received, err = c.read(ctx, b, movingWriter{f, c.pulse.moved})
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(file)
	}
	return received, err
}

// said is what a command has written, which comes with the result or as a blob.
func (c *Client) said(ctx context.Context, raw []byte, d *re.Digest) ([]byte, error) {
	if len(raw) > 0 || d.GetSizeBytes() == 0 {
		return raw, nil
	}
	b, err := blobOf(d)
	if err != nil {
		return nil, err
	}
	if b.Size > maxSaid {
		return nil, fmt.Errorf("the command says %d bytes", b.Size)
	}
	var text bytes.Buffer
	_, err = c.read(ctx, b, &text)
	return text.Bytes(), err
}

// forget notes what the server says that it lacks. ok is false for every other error.
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

// known are the blobs that the server has, as far as it or we have said so in this build. Two who
// want the same blob there send it once.
type known struct {
	mu    sync.Mutex
	blobs map[Blob]chan struct{} // closed when the blob is there, or nobody sends it any more
}

// is notes that the server has a blob.
func (k *known) is(b Blob) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.blobs == nil {
		k.blobs = map[Blob]chan struct{}{}
	}
	if k.blobs[b] == nil {
		k.blobs[b] = make(chan struct{})
		close(k.blobs[b])
	}
}

// forget takes back all that is known, but for what is on its way.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for b, there := range k.blobs {
		select {
		case <-there:
			delete(k.blobs, b)
		default:
		}
	}
}

// claim takes what nobody has sent or sends, and gives what others send.
func (k *known) claim(blobs map[Blob]func() (io.ReadCloser, error)) (mine []Blob, others []<-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.blobs == nil {
		k.blobs = map[Blob]chan struct{}{}
	}
	for b := range blobs {
		if there := k.blobs[b]; there != nil {
			others = append(others, there)
			continue
		}
		k.blobs[b] = make(chan struct{})
		mine = append(mine, b)
	}
	return mine, others
}

// has reports whether all of some blobs are there.
func (k *known) has(blobs map[Blob]func() (io.ReadCloser, error)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for b := range blobs {
		select {
		case <-k.blobs[b]:
		default: // it is on its way, or nobody has sent it
			return false
		}
	}
	return true
}

// settle ends a claim: the blobs are there, or are not.
func (k *known) settle(blobs []Blob, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range blobs {
		close(k.blobs[b])
		if !there {
			delete(k.blobs, b)
		}
	}
}

// provide sees to it that the server has some blobs, and gives the bytes that were sent. What
// another command is sending is waited for, and sent if that one gives up, as it does when it ends
// here first: servers hand out commands whose inputs they lack.
func (c *Client) provide(ctx context.Context, blobs map[Blob]func() (io.ReadCloser, error)) (sent int64, err error) {
	for {
		mine, others := c.known.claim(blobs)
		n, err := c.send(ctx, mine, blobs)
		if sent += n; err != nil {
			return sent, err
		}
		if len(others) == 0 {
			return sent, nil
		}
		for _, there := range others {
			select {
			case <-there:
			case <-ctx.Done():
				return sent, ctx.Err()
			}
		}
		if c.known.has(blobs) {
			return sent, nil
		}
	}
}

// send sends those of some blobs that were claimed, and settles that.
func (c *Client) send(ctx context.Context, mine []Blob, blobs map[Blob]func() (io.ReadCloser, error)) (sent int64, err error) {
	if len(mine) == 0 {
		return 0, nil
	}
	want := map[Blob]func() (io.ReadCloser, error){}
	for _, b := range mine {
		want[b] = func() (io.ReadCloser, error) {
			content, err := blobs[b]()
			return movingReader{content, c.pulse.moved}, err
		}
	}
	sent, err = c.upload(ctx, want)
	c.known.settle(mine, err == nil)
	return sent, err
}

// pulse watches a server while commands run on it: a stopped one answers nothing for ever, and no
// keepalive can be sent. While something moves it is there; else it is asked.
type pulse struct {
	mu    sync.Mutex
	users int
	stop  context.CancelFunc // of who asks
	dead  context.Context    // ends with the server
	last  atomic.Int64       // when something moved last, in Unix nanoseconds

	beat, limit time.Duration // 0 is as below
}

// How often the server is asked, and how long an answer may take.
const (
	beat  = 500 * time.Millisecond
	limit = 1500 * time.Millisecond
)

var errStopped = errors.New("the server does not answer any more")

func (p *pulse) moved() { p.last.Store(time.Now().UnixNano()) }

// watch gives a context that ends when the server does not answer any more. done must be called.
func (p *pulse) watch(parent context.Context, s executor) (ctx context.Context, done func()) {
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

func (p *pulse) ask(ctx context.Context, s executor, die context.CancelCauseFunc) {
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
