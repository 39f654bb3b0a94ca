package reapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kbuild-dev/kbuild/cache"
)

// fake is a server of the Remote Execution API that does, as its fields say, what servers were seen
// to do that no registry of packages brings.
type fake struct {
	re.UnimplementedCapabilitiesServer
	re.UnimplementedActionCacheServer
	re.UnimplementedContentAddressableStorageServer
	bytestream.UnimplementedByteStreamServer

	zstd      bool                      // says that it takes compressed streams
	maxBlob   int64                     // of the capabilities
	frames    func(data []byte) []byte  // what it sends of a blob, compressed
	message   int                       // bytes of a message of a stream that it sends
	committed func(raw, wire int) int64 // what it says was written of a compressed stream
	stops     bool                      // ends the stream of a blob that it has at the first message

	lost string // the hash of a blob that it says it has, until it comes again

	mu      sync.Mutex
	blobs   map[string][]byte
	entries map[string]*re.ActionResult
	calls   []string // kinds of calls with blobs, in the order of their ends
	digests []int    // in each call of FindMissingBlobs
	builds  []string // whose calls they are, of each call
}

// asked notes whose call it is.
func (f *fake) asked(ctx context.Context) {
	m := &re.RequestMetadata{}
	for _, v := range metadata.ValueFromIncomingContext(ctx, requestMetadata) {
		proto.Unmarshal([]byte(v), m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.builds = append(f.builds, m.GetToolDetails().GetToolName()+" "+m.GetToolInvocationId())
}

// skippable is the frame with which bazel-remote begins over HTTP.
var skippable = []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'a', 'b', 'c', 'd'}

// frame is one zstd frame.
func frame(data []byte, opts ...zstd.EOption) []byte {
	e, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		panic(err)
	}
	return e.EncodeAll(data, nil)
}

// serve starts the server, which takes messages of as many bytes, and gives a client that has
// connected.
func (f *fake) serve(t *testing.T, message int) *Client {
	t.Helper()
	f.blobs, f.entries = map[string][]byte{}, map[string]*re.ActionResult{}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(message),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			f.asked(ctx)
			return h(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			f.asked(ss.Context())
			return h(srv, ss)
		}))
	re.RegisterCapabilitiesServer(s, f)
	re.RegisterActionCacheServer(s, f)
	re.RegisterContentAddressableStorageServer(s, f)
	bytestream.RegisterByteStreamServer(s, f)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Stop)
	c, err := Open("grpc://"+l.Addr().String()+"/in/stance", noEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fake) called(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, kind)
}

func (f *fake) GetCapabilities(context.Context, *re.GetCapabilitiesRequest) (*re.ServerCapabilities, error) {
	c := &re.CacheCapabilities{DigestFunctions: []re.DigestFunction_Value{re.DigestFunction_SHA256}, MaxCasBlobSizeBytes: f.maxBlob,
		ActionCacheUpdateCapabilities: &re.ActionCacheUpdateCapabilities{UpdateEnabled: true}}
	if f.zstd {
		c.SupportedCompressors = []re.Compressor_Value{re.Compressor_ZSTD}
	}
	return &re.ServerCapabilities{CacheCapabilities: c}, nil
}

func (f *fake) GetActionResult(_ context.Context, r *re.GetActionResultRequest) (*re.ActionResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.entries[r.ActionDigest.Hash]; e != nil {
		return e, nil
	}
	return nil, status.Error(codes.NotFound, "no such entry")
}

func (f *fake) UpdateActionResult(_ context.Context, r *re.UpdateActionResultRequest) (*re.ActionResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries[r.ActionDigest.Hash] = r.ActionResult
	return r.ActionResult, nil
}

func (f *fake) FindMissingBlobs(_ context.Context, r *re.FindMissingBlobsRequest) (*re.FindMissingBlobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.digests = append(f.digests, len(r.BlobDigests))
	out := &re.FindMissingBlobsResponse{}
	for _, d := range r.BlobDigests {
		if _, ok := f.blobs[d.Hash]; !ok && d.Hash != f.lost {
			out.MissingBlobDigests = append(out.MissingBlobDigests, d)
		}
	}
	return out, nil
}

func (f *fake) BatchUpdateBlobs(_ context.Context, r *re.BatchUpdateBlobsRequest) (*re.BatchUpdateBlobsResponse, error) {
	out := &re.BatchUpdateBlobsResponse{}
	for _, q := range r.Requests {
		f.keep(q.Digest.Hash, q.Data)
		out.Responses = append(out.Responses, &re.BatchUpdateBlobsResponse_Response{Digest: q.Digest})
	}
	f.called(fmt.Sprint("batch of ", len(r.Requests)))
	return out, nil
}

func (f *fake) keep(hash string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blobs[hash] = data
}

func (f *fake) content(hash string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data, ok := f.blobs[hash]; ok {
		return data, nil
	}
	return nil, status.Error(codes.NotFound, "no such blob")
}

func (f *fake) BatchReadBlobs(_ context.Context, r *re.BatchReadBlobsRequest) (*re.BatchReadBlobsResponse, error) {
	out := &re.BatchReadBlobsResponse{}
	for _, d := range r.Digests {
		data, err := f.content(d.Hash)
		out.Responses = append(out.Responses, &re.BatchReadBlobsResponse_Response{Digest: d, Data: data, Status: status.Convert(err).Proto()})
	}
	f.called("read batch")
	return out, nil
}

// name takes the name of a resource apart.
func (f *fake) name(resource string) (hash string, compressed bool, err error) {
	rest, ok := strings.CutPrefix(resource, "in/stance/")
	parts := strings.Split(rest, "/")
	if len(parts) > 2 && parts[0] == "uploads" {
		parts = parts[2:]
	}
	compressed = len(parts) == 4 && parts[0] == "compressed-blobs" && parts[1] == "zstd"
	if !ok || !compressed && (len(parts) != 3 || parts[0] != "blobs") || compressed && f.frames == nil {
		return "", false, status.Error(codes.InvalidArgument, "the resource "+resource)
	}
	return parts[len(parts)-2], compressed, nil
}

func (f *fake) Read(r *bytestream.ReadRequest, s bytestream.ByteStream_ReadServer) error {
	hash, compressed, err := f.name(r.ResourceName)
	f.called(fmt.Sprint("read stream, compressed ", compressed))
	if err != nil {
		return err
	}
	data, err := f.content(hash)
	if err != nil {
		return err
	}
	if compressed {
		data = f.frames(data)
	}
	for len(data) > 0 {
		n := min(len(data), f.message)
		if err := s.Send(&bytestream.ReadResponse{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (f *fake) Write(s bytestream.ByteStream_WriteServer) error {
	var data []byte
	first, err := s.Recv()
	for m := first; ; m, err = s.Recv() {
		if err != nil {
			return err
		}
		if m.WriteOffset != int64(len(data)) {
			return status.Error(codes.InvalidArgument, "the offset")
		}
		if data = append(data, m.Data...); m.FinishWrite || f.stops {
			break
		}
	}
	hash, compressed, err := f.name(first.ResourceName)
	f.called(fmt.Sprint("write stream, compressed ", compressed))
	if err != nil {
		return err
	}
	if _, err := f.content(hash); err == nil && f.stops {
		return s.SendAndClose(&bytestream.WriteResponse{CommittedSize: -1})
	}
	raw := data
	if compressed {
		d, _ := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderMaxWindow(1<<20))
		defer d.Close()
		if raw, err = io.ReadAll(d); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	if cache.Digest(BlobOf(raw).Digest).String() != hash {
		return status.Error(codes.InvalidArgument, "checksums don't match")
	}
	f.keep(hash, raw)
	committed := int64(len(raw))
	if compressed {
		committed = f.committed(len(raw), len(data))
	}
	return s.SendAndClose(&bytestream.WriteResponse{CommittedSize: committed})
}
