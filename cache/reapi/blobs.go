package reapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Transfer of blobs over gRPC. Small blobs share a message; large and compressed blobs have a
// stream each. A server announces separately which compressors it supports on streams and in
// batches. Only streams are compressed.

// read reads a small blob in one message and a large one as a stream.
func (s *grpcServer) read(ctx context.Context, b Blob, w io.Writer) (wire int64, err error) {
	if s.zstd.Load() && b.Size >= compressFrom {
		to := &counter{to: w}
		wire, err = s.readStream(ctx, b, to, true)
		if to.n > 0 || !s.refusesZstd(err) {
			return wire, s.fault(err)
		}
	}
	if b.Size <= min(small, s.batch.Load()) {
		if wire, err = s.readSmall(ctx, b, w); !tooLarge(err) {
			return wire, s.fault(err)
		}
	}
	wire, err = s.readStream(ctx, b, w, false)
	return wire, s.fault(err)
}

// refusesZstd reports whether err shows that the server does not support zstd as announced, or
// exceeds our limits. After that zstd is off for this server.
func (s *grpcServer) refusesZstd(err error) bool {
	code := status.Code(err)
	refuses := code == codes.Unimplemented || code == codes.InvalidArgument || errors.Is(err, zstd.ErrWindowSizeExceeded)
	if refuses {
		s.zstd.Store(false)
	}
	return refuses
}

// readStream reads a blob from its beginning. It never resumes in the middle: servers disagree
// about offsets in a compressed stream.
func (s *grpcServer) readStream(ctx context.Context, b Blob, w io.Writer, compressed bool) (wire int64, err error) {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	stream, err := s.bytes.Read(ctx, &bytestream.ReadRequest{ResourceName: s.resource("", compressed, b)})
	if err != nil {
		return 0, err
	}
	from := &counter{from: &download{stream: stream, alive: alive}}
	if compressed {
		err = decode(w, from, b)
	} else {
		_, err = io.Copy(w, from)
	}
	return from.n, err
}

// download reads the content of a stream.
type download struct {
	stream bytestream.ByteStream_ReadClient
	alive  progress
	rest   []byte
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		m, err := d.stream.Recv()
		if err != nil {
			return 0, err
		}
		d.alive.moved()
		d.rest = m.Data
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (s *grpcServer) readSmall(ctx context.Context, b Blob, w io.Writer) (wire int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	res, err := s.cas.BatchReadBlobs(ctx, &re.BatchReadBlobsRequest{InstanceName: s.instance, Digests: []*re.Digest{digestOf(b)}})
	if err != nil {
		return 0, err
	}
	for _, r := range res.Responses {
		if got, err := blobOf(r.GetDigest()); err != nil || got.Digest != b.Digest {
			continue
		}
		if err := status.ErrorProto(r.GetStatus()); err != nil {
			return 0, err
		}
		n, err := w.Write(r.Data)
		return int64(n), err
	}
	return 0, fmt.Errorf("%w: a batch without the blob %s", ErrWrong, b.Digest)
}

// write sends large blobs one by one, and small ones in batches.
func (s *grpcServer) write(ctx context.Context, contents []content) (wire int64, err error) {
	var batch []*re.BatchUpdateBlobsRequest_Request
	size := int64(0)
	flush := func() error {
		n, err := s.writeBatch(ctx, batch)
		batch, size, wire = nil, 0, wire+n
		return err
	}
	for _, c := range contents {
		if s.maxBlob > 0 && c.Size > s.maxBlob {
			return wire, fmt.Errorf("the server takes blobs of %d bytes at most, and this has %d", s.maxBlob, c.Size)
		}
		if c.Size > min(small, s.batch.Load()) || s.zstd.Load() && c.Size >= compressFrom {
			n, err := s.writeLarge(ctx, c)
			if wire += n; err != nil {
				return wire, err
			}
			continue
		}
		r, err := requestOf(c)
		if err != nil {
			return wire, err
		}
		n := int64(proto.Size(r)) + framing
		if size+n > s.batch.Load() {
			if err := flush(); err != nil {
				return wire, err
			}
		}
		batch, size = append(batch, r), size+n
	}
	return wire, flush()
}

// framing is the maximum overhead of a blob's request in its message.
const framing = 8

// requestOf reads a blob and checks its digest.
func requestOf(c content) (*re.BatchUpdateBlobsRequest_Request, error) {
	src, err := c.open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	data, err := io.ReadAll(io.LimitReader(src, c.Size+1))
	if err != nil {
		return nil, err
	}
	if BlobOf(data) != c.Blob {
		return nil, fmt.Errorf("the file is not what the action wrote (%d bytes, expected %d with digest %s)", len(data), c.Size, c.Digest)
	}
	return &re.BatchUpdateBlobsRequest_Request{Digest: digestOf(c.Blob), Data: data}, nil
}

// writeBatch sends blobs in one message, or as streams if the message is too large for the server.
func (s *grpcServer) writeBatch(ctx context.Context, batch []*re.BatchUpdateBlobsRequest_Request) (wire int64, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	err = s.sendBatch(ctx, batch)
	if err != nil && !tooLarge(err) {
		return 0, s.fault(err)
	}
	for _, r := range batch {
		n := int64(len(r.Data))
		if err != nil {
			var streamed error
			if n, streamed = s.writeStream(ctx, BlobOf(r.Data), bytes.NewReader(r.Data), false); streamed != nil {
				return wire + n, s.fault(streamed)
			}
		}
		wire += n
	}
	return wire, nil
}

// slowest is the minimum speed of a message in bytes per second: a message shows no progress while
// it is sent.
const slowest = 64 << 10

func (s *grpcServer) sendBatch(ctx context.Context, batch []*re.BatchUpdateBlobsRequest_Request) error {
	req := &re.BatchUpdateBlobsRequest{InstanceName: s.instance, Requests: batch}
	ctx, cancel := context.WithTimeout(ctx, call+time.Duration(proto.Size(req))*time.Second/slowest)
	defer cancel()
	res, err := s.cas.BatchUpdateBlobs(ctx, req)
	if err != nil {
		return err
	}
	stored := map[string]bool{}
	for _, r := range res.Responses {
		if err := status.ErrorProto(r.GetStatus()); err != nil {
			return fmt.Errorf("the blob %s is refused: %w", r.GetDigest().GetHash(), err)
		}
		stored[r.GetDigest().GetHash()] = true
	}
	for _, r := range batch {
		if !stored[r.Digest.Hash] {
			return fmt.Errorf("%w: no answer to the blob %s", ErrWrong, r.Digest.Hash)
		}
	}
	return nil
}

// writeLarge sends a blob as a stream, compressed if the server supports it.
func (s *grpcServer) writeLarge(ctx context.Context, c content) (wire int64, err error) {
	for compressed := s.zstd.Load() && c.Size >= compressFrom; ; compressed = false {
		src, err := c.open()
		if err != nil {
			return wire, err
		}
		n, err := s.writeStream(ctx, c.Blob, src, compressed)
		src.Close()
		if wire += n; !compressed || !s.refusesZstd(err) {
			return wire, s.fault(err)
		}
	}
}

// errEnded reports that the server closed the stream early, for example because it has the blob.
// Its response contains the reason.
var errEnded = errors.New("the server has ended the stream")

// writeStream sends a blob as a stream and checks its digest.
func (s *grpcServer) writeStream(ctx context.Context, b Blob, src io.Reader, compressed bool) (wire int64, err error) {
	ctx, alive, cancel := withIdle(ctx, idle)
	defer cancel()
	stream, err := s.bytes.Write(ctx)
	if err != nil {
		return 0, err
	}
	to := &upload{stream: stream, alive: alive, req: bytestream.WriteRequest{ResourceName: s.resource("uploads/"+uuid(), compressed, b)}, buf: make([]byte, 0, chunk)}
	sum := newChecked(b, io.Discard)
	checked := io.TeeReader(src, sum)
	if compressed {
		err = encode(to, checked, sum.check)
	} else if _, err = io.Copy(to, checked); err == nil {
		err = sum.check()
	}
	if err == nil { // check before the last message: the server discards an unfinished blob
		err = to.send(true)
	}
	if err != nil && !errors.Is(err, errEnded) {
		return to.req.WriteOffset, err
	}
	res, err := stream.CloseAndRecv()
	if err == nil && !compressed && res.CommittedSize != b.Size && res.CommittedSize != -1 {
		// Not checked for compressed content: servers count either size.
		err = fmt.Errorf("%w: %d bytes of %d were stored", ErrWrong, res.CommittedSize, b.Size)
	}
	return to.req.WriteOffset, err
}

// upload writes content to a stream.
type upload struct {
	stream bytestream.ByteStream_WriteClient
	alive  progress
	req    bytestream.WriteRequest // the next message; WriteOffset is the number of bytes sent
	buf    []byte
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if len(u.buf) == cap(u.buf) {
			if err := u.send(false); err != nil {
				return n, err
			}
		}
		more := min(len(p), cap(u.buf)-len(u.buf))
		u.buf = append(u.buf, p[:more]...)
		n, p = n+more, p[more:]
	}
	return n, nil
}

func (u *upload) send(last bool) error {
	u.req.Data, u.req.FinishWrite = u.buf, last
	if err := u.stream.Send(&u.req); err == io.EOF {
		return errEnded
	} else if err != nil {
		return err
	}
	u.alive.moved()
	u.req.WriteOffset += int64(len(u.buf))
	u.req.ResourceName, u.buf = "", u.buf[:0]
	return nil
}

// resource returns the resource name of a blob; upload is the prefix for writing, or empty.
func (s *grpcServer) resource(upload string, compressed bool, b Blob) string {
	name := s.instance
	for _, part := range []string{upload, map[bool]string{false: "blobs", true: "compressed-blobs/zstd"}[compressed], b.Digest.String(), fmt.Sprint(b.Size)} {
		if name != "" && part != "" {
			name += "/"
		}
		name += part
	}
	return name
}
