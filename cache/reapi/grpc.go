package reapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/kbuild-dev/kbuild/cache"
)

// Limits. Servers refuse a message of more than 4 MiB, its framing included, also those that announce no limit of their own (0), and those
// that announce one mean the sum of the blobs.
const (
	maxMessage = 4 << 20
	maxBatch   = 3 << 20   // bytes of the blobs in one message
	chunk      = 256 << 10 // bytes of a message of a stream
	maxDigests = 10_000    // in one FindMissingBlobs
	received   = 64 << 20  // what may come in one message: a server's limit is for the server to keep
)

// idle is for how long a stream may bring nothing, and call for how long a call without a stream may take. A stopped server answers
// nothing for ever, and no keepalive can be sent: servers drop a client that pings more than once in five minutes.
const (
	idle = 20 * time.Second
	call = 10 * time.Second
)

// grpcServer is a server of the Remote Execution API, versions 2.0 to 2.12.
type grpcServer struct {
	conn     *grpc.ClientConn
	instance string
	batch    int64         // bytes of blobs in a batch
	backoff  time.Duration // before a broken stream is taken up
	caps     re.CapabilitiesClient
	cas      re.ContentAddressableStorageClient
	ac       re.ActionCacheClient
	bytes    bytestream.ByteStreamClient
}

// dial makes a server of an address, host:port. Nothing is sent yet.
func dial(address, instance string, tls credentials.TransportCredentials, auth credentials.PerRPCCredentials) (*grpcServer, error) {
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(tls),
		grpc.WithUserAgent("kbuild"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(received)),
		grpc.WithDisableServiceConfig(), // no settings from DNS
	}
	if auth != nil {
		opts = append(opts, grpc.WithPerRPCCredentials(auth))
	}
	conn, err := grpc.NewClient(address, opts...)
	if err != nil {
		return nil, err
	}
	return &grpcServer{conn: conn, instance: instance, batch: maxBatch, backoff: backoff, caps: re.NewCapabilitiesClient(conn),
		cas: re.NewContentAddressableStorageClient(conn), ac: re.NewActionCacheClient(conn), bytes: bytestream.NewByteStreamClient(conn)}, nil
}

// Close implements io.Closer.
func (s *grpcServer) Close() error { return s.conn.Close() }

func (s *grpcServer) connect(ctx context.Context) (Abilities, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	c, err := s.caps.GetCapabilities(ctx, &re.GetCapabilitiesRequest{InstanceName: s.instance})
	if status.Code(err) == codes.Unimplemented { // as the specification wants it taken: 2.0 without anything optional
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
	sha256 := len(k.DigestFunctions) == 0
	for _, f := range k.DigestFunctions {
		sha256 = sha256 || f == re.DigestFunction_SHA256
	}
	if !sha256 {
		return Abilities{}, fmt.Errorf("the server does not know SHA-256, which kbuild's digests are (it knows %v)", k.DigestFunctions)
	}
	if n := k.MaxBatchTotalSizeBytes; n > 0 {
		s.batch = min(s.batch, n*3/4)
	}
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
	for len(blobs) > 0 {
		n := min(len(blobs), maxDigests)
		req := &re.FindMissingBlobsRequest{InstanceName: s.instance}
		for _, b := range blobs[:n] {
			req.BlobDigests = append(req.BlobDigests, digestOf(b))
		}
		blobs = blobs[n:]
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

// read takes a small blob in one message, and a large one as a stream of messages.
func (s *grpcServer) read(ctx context.Context, b Blob, w io.Writer) error {
	if b.Size <= s.batch {
		return s.readSmall(ctx, b, w)
	}
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	stream, err := s.bytes.Read(ctx, &bytestream.ReadRequest{ResourceName: s.resource("blobs", b)})
	if err != nil {
		return s.fault(err)
	}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return s.fault(err)
		}
		alive()
		if _, err := w.Write(m.Data); err != nil {
			return err
		}
	}
}

func (s *grpcServer) readSmall(ctx context.Context, b Blob, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	res, err := s.cas.BatchReadBlobs(ctx, &re.BatchReadBlobsRequest{InstanceName: s.instance, Digests: []*re.Digest{digestOf(b)}})
	if err != nil {
		return s.fault(err)
	}
	for _, r := range res.Responses {
		if got, err := blobOf(r.GetDigest()); err != nil || got.Digest != b.Digest {
			continue
		}
		if err := status.ErrorProto(r.GetStatus()); err != nil {
			return s.fault(err)
		}
		_, err := w.Write(r.Data)
		return err
	}
	return fmt.Errorf("%w: a batch without the blob %s", ErrWrong, b.Digest)
}

func (s *grpcServer) write(ctx context.Context, b Blob, open func() (io.ReadCloser, error)) error {
	src, err := open()
	if err != nil {
		return err
	}
	defer src.Close()
	if b.Size <= s.batch {
		data, err := io.ReadAll(io.LimitReader(src, b.Size+1))
		if err != nil {
			return err
		}
		if BlobOf(data) != b {
			return fmt.Errorf("the file is not what the action wrote (%d bytes, expected %d with digest %s)", len(data), b.Size, b.Digest)
		}
		return s.writeSmall(ctx, b, data)
	}
	return s.writeStream(ctx, b, src)
}

func (s *grpcServer) writeSmall(ctx context.Context, b Blob, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	res, err := s.cas.BatchUpdateBlobs(ctx, &re.BatchUpdateBlobsRequest{InstanceName: s.instance,
		Requests: []*re.BatchUpdateBlobsRequest_Request{{Digest: digestOf(b), Data: data}}})
	if err != nil {
		return s.fault(err)
	}
	if len(res.Responses) != 1 {
		return fmt.Errorf("%w: %d answers to one blob", ErrWrong, len(res.Responses))
	}
	return s.fault(status.ErrorProto(res.Responses[0].GetStatus()))
}

// writeStream sends a blob. A server that has it already may end the stream early: Send gives io.EOF then, and what that means stands in
// the answer, which may also be an error.
func (s *grpcServer) writeStream(ctx context.Context, b Blob, src io.Reader) error {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	stream, err := s.bytes.Write(ctx)
	if err != nil {
		return s.fault(err)
	}
	sum := newChecked(b, io.Discard)
	req := &bytestream.WriteRequest{ResourceName: s.resource("uploads/"+uuid()+"/blobs", b)}
	buf := make([]byte, chunk)
	for at, done := int64(0), false; !done; {
		n, err := io.ReadFull(src, buf)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if _, err := sum.Write(buf[:n]); err != nil {
			return err
		}
		done = at+int64(n) >= b.Size || err != nil
		if done {
			if err := sum.check(); err != nil { // before the last message: what is not finished is not kept
				return err
			}
		}
		req.Data, req.WriteOffset, req.FinishWrite = buf[:n], at, done
		if err := stream.Send(req); err == io.EOF {
			break
		} else if err != nil {
			return s.fault(err)
		}
		alive()
		at += int64(n)
		req.ResourceName = ""
	}
	res, err := stream.CloseAndRecv()
	if err != nil {
		return s.fault(err)
	}
	if res.CommittedSize != b.Size && res.CommittedSize != -1 {
		return fmt.Errorf("%w: %d bytes of %d were stored", ErrWrong, res.CommittedSize, b.Size)
	}
	return nil
}

func (s *grpcServer) resource(kind string, b Blob) string {
	name := fmt.Sprintf("%s/%s/%d", kind, b.Digest, b.Size)
	if s.instance != "" {
		name = s.instance + "/" + name
	}
	return name
}

// fault is an error in words; NOT_FOUND is ErrMiss.
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
	r := &re.ActionResult{}
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

// action is the key of an entry with some words, as servers and their tools know keys: the digest of an action, whose command is the words.
// Both messages are blobs of their own.
func action(words ...string) (key Blob, messages [][]byte) {
	command := encode(&re.Command{Arguments: words})
	root := encode(&re.Directory{})
	a := encode(&re.Action{CommandDigest: digestOf(BlobOf(command)), InputRootDigest: digestOf(BlobOf(root))})
	return BlobOf(a), [][]byte{root, command, a}
}

// withIdle gives a context that ends when alive was not called for as long as d.
func withIdle(parent context.Context, d time.Duration) (ctx context.Context, alive func(), cancel func()) {
	ctx, stop := context.WithCancelCause(parent)
	t := time.AfterFunc(d, func() { stop(fmt.Errorf("nothing came for %s", d)) })
	return ctx, func() { t.Reset(d) }, func() { t.Stop(); stop(nil) }
}
