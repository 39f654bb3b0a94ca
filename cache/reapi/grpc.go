package reapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/kbuild-dev/kbuild/cache"
)

// Limits. Most servers refuse messages of more than 4 MiB, including framing, even if they announce
// no limit (0).
const (
	maxBatch   = 3 << 20   // bytes of one message with blobs
	small      = 256 << 10 // a larger blob has a stream of its own, which shows progress
	chunk      = 64 << 10  // bytes of content in one message of a stream
	maxDigests = 4_000     // in one FindMissingBlobs: some 300 KiB
	received   = 64 << 20  // bytes of a received message: the server enforces its own limit
)

// idle is how long a stream may receive nothing, and call the time limit of a call without a
// stream. A stopped server never answers, and keepalives are not possible: servers drop a client
// that pings more than once in five minutes.
const (
	idle = 20 * time.Second
	call = 10 * time.Second
)

// grpcServer is a server of the Remote Execution API, versions 2.0 to 2.12.
type grpcServer struct {
	conn     *grpc.ClientConn
	instance string
	batch    atomic.Int64  // bytes of one message with blobs
	zstd     atomic.Bool   // streams may be compressed
	maxBlob  int64         // maximum bytes of a blob to write; 0 means no limit
	backoff  time.Duration // delay before a broken stream is opened again
	caps     re.CapabilitiesClient
	cas      re.ContentAddressableStorageClient
	ac       re.ActionCacheClient
	bytes    bytestream.ByteStreamClient
}

// dial returns a client for an address, host:port. It sends nothing yet.
func dial(address, instance string, tls credentials.TransportCredentials, auth credentials.PerRPCCredentials) (*grpcServer, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(tls),
		grpc.WithPerRPCCredentials(auth),
		grpc.WithUserAgent("kbuild"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(received)),
		grpc.WithDisableServiceConfig()) // no settings from DNS
	if err != nil {
		return nil, err
	}
	s := &grpcServer{conn: conn, instance: instance, backoff: backoff, caps: re.NewCapabilitiesClient(conn),
		cas: re.NewContentAddressableStorageClient(conn), ac: re.NewActionCacheClient(conn), bytes: bytestream.NewByteStreamClient(conn)}
	s.batch.Store(maxBatch)
	return s, nil
}

// Close implements io.Closer.
func (s *grpcServer) Close() error { return s.conn.Close() }

func (s *grpcServer) connect(ctx context.Context) (Abilities, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	c, err := s.caps.GetCapabilities(ctx, &re.GetCapabilitiesRequest{InstanceName: s.instance})
	if status.Code(err) == codes.Unimplemented {
		// The specification says: treat it as 2.0 without optional features.
		return Abilities{Server: "REAPI 2.0", Updates: true}, nil
	}
	if err != nil {
		return Abilities{}, s.fault(err)
	}
	low, high := c.GetLowApiVersion(), c.GetHighApiVersion()
	if low != nil && low.Major > 2 || high != nil && high.Major < 2 {
		return Abilities{}, fmt.Errorf("the server speaks versions %d.%d to %d.%d of the Remote Execution API; kbuild speaks 2", low.GetMajor(), low.GetMinor(), high.GetMajor(), high.GetMinor())
	}
	k := c.GetCacheCapabilities()
	if k == nil {
		return Abilities{}, errors.New("the server keeps no cache")
	}
	if len(k.DigestFunctions) > 0 && !slices.Contains(k.DigestFunctions, re.DigestFunction_SHA256) {
		return Abilities{}, fmt.Errorf("the server does not know SHA-256, which kbuild's digests are (it knows %v)", k.DigestFunctions)
	}
	if n := k.MaxBatchTotalSizeBytes; n > 0 {
		s.batch.Store(min(maxBatch, n))
	}
	s.zstd.Store(slices.Contains(k.SupportedCompressors, re.Compressor_ZSTD))
	s.maxBlob = k.MaxCasBlobSizeBytes
	return Abilities{Server: fmt.Sprintf("REAPI %d.%d", max(high.GetMajor(), 2), high.GetMinor()), Executes: executes(c), Updates: k.GetActionCacheUpdateCapabilities().GetUpdateEnabled()}, nil
}

func (s *grpcServer) get(ctx context.Context, key Blob) (*Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	r, err := s.ac.GetActionResult(ctx, &re.GetActionResultRequest{InstanceName: s.instance, ActionDigest: digestOf(key)})
	if err != nil {
		return nil, s.fault(err)
	}
	return entryOf(r)
}

func (s *grpcServer) set(ctx context.Context, key Blob, e *Entry) error {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	_, err := s.ac.UpdateActionResult(ctx, &re.UpdateActionResultRequest{InstanceName: s.instance, ActionDigest: digestOf(key), ActionResult: resultOf(e)})
	return s.fault(err)
}

func (s *grpcServer) missing(ctx context.Context, blobs []Blob) (out []Blob, err error) {
	for part := range slices.Chunk(blobs, maxDigests) {
		req := &re.FindMissingBlobsRequest{InstanceName: s.instance}
		for _, b := range part {
			req.BlobDigests = append(req.BlobDigests, digestOf(b))
		}
		ctx, cancel := context.WithTimeout(ctx, call)
		res, err := s.cas.FindMissingBlobs(ctx, req)
		cancel()
		if err != nil {
			return nil, s.fault(err)
		}
		for _, d := range res.MissingBlobDigests {
			b, err := blobOf(d)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// fault translates a gRPC error: NOT_FOUND becomes ErrMiss.
func (s *grpcServer) fault(err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.NotFound:
		return ErrMiss
	}
	return err
}

func digestOf(b Blob) *re.Digest { return &re.Digest{Hash: b.Digest.String(), SizeBytes: b.Size} }

func blobOf(d *re.Digest) (Blob, error) {
	digest, err := cache.ParseDigest(d.GetHash())
	if err != nil || d.GetSizeBytes() < 0 {
		return Blob{}, fmt.Errorf("%w: the digest %q of %d bytes", ErrWrong, d.GetHash(), d.GetSizeBytes())
	}
	return Blob{digest, d.GetSizeBytes()}, nil
}

func resultOf(e *Entry) *re.ActionResult {
	// bazel-remote refuses an empty entry.
	r := &re.ActionResult{ExecutionMetadata: &re.ExecutedActionMetadata{Worker: "kbuild"}}
	for _, f := range e.Files {
		r.OutputFiles = append(r.OutputFiles, &re.OutputFile{Path: f.Name, Digest: digestOf(f.Blob), IsExecutable: f.Exec})
	}
	return r
}

func entryOf(r *re.ActionResult) (*Entry, error) {
	if r.GetExitCode() != 0 {
		return nil, fmt.Errorf("%w: an entry of a command that failed", ErrWrong)
	}
	e := &Entry{}
	for _, f := range r.GetOutputFiles() {
		b, err := blobOf(f.GetDigest())
		if err != nil {
			return nil, err
		}
		e.Files = append(e.Files, File{f.GetPath(), b, f.GetIsExecutable()})
	}
	return e, nil
}

// tooLarge reports whether a server or library refuses a message for its size. gRPC's libraries in
// Go, C and Java use a code with several meanings, so their text decides. Some servers report an
// invalid argument.
func tooLarge(err error) bool {
	text := status.Convert(err).Message()
	return status.Code(err) == codes.InvalidArgument ||
		status.Code(err) == codes.ResourceExhausted && (strings.Contains(text, "larger than max") || strings.Contains(text, "exceeds maximum size"))
}

// action returns the key of an entry: the digest of an action whose command is words. Servers and
// their tools know such keys. The server must have the messages as blobs.
func action(words ...string) (key Blob, messages [][]byte) {
	command := marshal(&re.Command{Arguments: words})
	root := marshal(&re.Directory{})
	a := marshal(&re.Action{CommandDigest: digestOf(BlobOf(command)), InputRootDigest: digestOf(BlobOf(root))})
	return BlobOf(a), [][]byte{root, command, a}
}

// patience is a progress without which a context ends.
type patience struct {
	*time.Timer
	time.Duration
}

func (p patience) moved() { p.Reset(p.Duration) }

// withIdle returns a context that ends if alive is not told of progress for the duration d.
func withIdle(parent context.Context, d time.Duration) (ctx context.Context, alive patience, cancel func()) {
	ctx, stop := context.WithCancelCause(parent)
	t := time.AfterFunc(d, func() { stop(fmt.Errorf("nothing came for %s", d)) })
	return ctx, patience{t, d}, func() { t.Stop(); stop(nil) }
}

// silent is how long a server may send nothing about a running command. Buildbarn sends a message
// each minute. After that time the stream is opened again.
const silent = 90 * time.Second

// resumes is how often a broken stream is opened again, and backoff the delay before the first
// time.
const (
	resumes = 4
	backoff = 100 * time.Millisecond
)

func (s *grpcServer) alive(ctx context.Context) error {
	_, err := s.caps.GetCapabilities(ctx, &re.GetCapabilitiesRequest{InstanceName: s.instance})
	return err
}

// executes reports whether the server runs commands with SHA-256 digests.
func executes(c *re.ServerCapabilities) bool {
	e := c.GetExecutionCapabilities()
	known := len(e.GetDigestFunctions()) == 0 || e.GetDigestFunction() == re.DigestFunction_SHA256
	for _, f := range e.GetDigestFunctions() {
		known = known || f == re.DigestFunction_SHA256
	}
	return e.GetExecEnabled() && known
}

// execute runs an action whose blobs the server has. It resumes a broken stream. If the server no
// longer knows the operation, it submits the action again, which has the same result.
func (s *grpcServer) execute(ctx context.Context, action Blob, to progress) (*re.ExecuteResponse, error) {
	operation := "" // "" submits the action
	for try := 0; ; try++ {
		res, err := s.follow(ctx, action, &operation, to)
		switch code := status.Code(err); {
		case err == nil || ctx.Err() != nil || try == resumes:
			return res, err
		case operation != "" && (code == codes.NotFound || code == codes.InvalidArgument):
			operation = ""
		case !transient(code):
			return nil, err
		}
		select {
		case <-time.After(s.backoff << try):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// transient reports errors of a connection or of an overloaded server.
func transient(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// follow submits an action, or waits for the operation that it has become, and reads the stream
// until it is done. It sets operation.
func (s *grpcServer) follow(ctx context.Context, action Blob, operation *string, to progress) (*re.ExecuteResponse, error) {
	ctx, alive, cancel := withIdle(ctx, silent)
	defer cancel()
	client := re.NewExecutionClient(s.conn)
	var stream grpc.ServerStreamingClient[longrunningpb.Operation]
	var err error
	if *operation == "" {
		request := &re.ExecuteRequest{InstanceName: s.instance, ActionDigest: digestOf(action)}
		stream, err = client.Execute(ctx, request)
	} else {
		stream, err = client.WaitExecution(ctx, &re.WaitExecutionRequest{Name: *operation})
	}
	if err != nil {
		return nil, err
	}
	for {
		op, err := stream.Recv()
		if err == io.EOF {
			return nil, status.Error(codes.Unavailable, "the server says nothing more of a command that has not ended")
		}
		if err != nil {
			return nil, err
		}
		alive.moved()
		to.moved()
		*operation = op.GetName()
		if !op.GetDone() {
			continue
		}
		if e := op.GetError(); e != nil {
			return nil, status.ErrorProto(e)
		}
		res := &re.ExecuteResponse{}
		if err := op.GetResponse().UnmarshalTo(res); err != nil {
			return nil, fmt.Errorf("%w: the end of a command: %w", ErrWrong, err)
		}
		if res.GetResult() == nil && res.GetStatus().GetCode() == 0 {
			return nil, fmt.Errorf("%w: the end of a command without a result", ErrWrong)
		}
		return res, nil
	}
}
