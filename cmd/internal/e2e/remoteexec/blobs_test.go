package remoteexec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// store accesses the server's content, and keeps downloaded blobs as files. It does not use
// kbuild's own client, whose faults it would share.
type store struct {
	conn     *grpc.ClientConn
	instance string // of the server
	dir      string
	mu       sync.Mutex // serializes downloads of the same file
}

// read writes a blob to w.
func (s *store) read(ctx context.Context, d *re.Digest, w io.Writer) error {
	stream, err := bytestream.NewByteStreamClient(s.conn).Read(ctx, &bytestream.ReadRequest{ResourceName: fmt.Sprintf("%s/blobs/%s/%d", s.instance, d.GetHash(), d.GetSizeBytes())})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", d.GetHash(), err)
		}
		if _, err := w.Write(m.GetData()); err != nil {
			return err
		}
	}
}

// message reads and decodes a blob that is a message.
func (s *store) message(ctx context.Context, d *re.Digest, m proto.Message) error {
	var b bytes.Buffer
	if err := s.read(ctx, d, &b); err != nil {
		return err
	}
	return proto.Unmarshal(b.Bytes(), m)
}

// file returns a read-only file with the content of a blob.
func (s *store) file(ctx context.Context, d *re.Digest, exec bool) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, mode := filepath.Join(s.dir, d.GetHash()), os.FileMode(0o444)
	if exec {
		name, mode = name+".x", 0o555
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	f, err := os.CreateTemp(s.dir, "part") // other stores may use the folder too
	if err != nil {
		return "", err
	}
	if err := errors.Join(s.read(ctx, d, f), f.Chmod(mode), f.Close()); err != nil {
		return "", err
	}
	return name, os.Rename(f.Name(), name)
}

// tree creates the content of a Directory message, as links to kept files.
func (s *store) tree(ctx context.Context, d *re.Digest, dir string) error {
	var m re.Directory
	if err := s.message(ctx, d, &m); err != nil {
		return err
	}
	for _, f := range m.GetFiles() {
		kept, err := s.file(ctx, f.GetDigest(), f.GetIsExecutable())
		if err != nil {
			return err
		}
		if err := os.Link(kept, filepath.Join(dir, f.GetName())); err != nil {
			return err
		}
	}
	for _, sub := range m.GetDirectories() {
		name := filepath.Join(dir, sub.GetName())
		if err := os.Mkdir(name, 0o777); err != nil {
			return err
		}
		if err := s.tree(ctx, sub.GetDigest(), name); err != nil {
			return err
		}
	}
	return nil
}

// put uploads content.
func (s *store) put(ctx context.Context, content []byte) (*re.Digest, error) {
	d := &re.Digest{Hash: fmt.Sprintf("%x", sha256.Sum256(content)), SizeBytes: int64(len(content))}
	stream, err := bytestream.NewByteStreamClient(s.conn).Write(ctx)
	if err != nil {
		return nil, err
	}
	const most = 1 << 20
	req := &bytestream.WriteRequest{ResourceName: fmt.Sprintf("%s/uploads/2f1c6a1e-7a80-4d0f-9a63-0d6b1f0f6c11/blobs/%s/%d", s.instance, d.Hash, d.SizeBytes)}
	for !req.FinishWrite {
		n := min(most, len(content)-int(req.WriteOffset))
		req.Data = content[req.WriteOffset:][:n]
		req.FinishWrite = int(req.WriteOffset)+n == len(content)
		if err := stream.Send(req); err == io.EOF {
			break // the server has it, or CloseAndRecv returns the error
		} else if err != nil {
			return nil, err
		}
		if !req.FinishWrite {
			req = &bytestream.WriteRequest{WriteOffset: req.WriteOffset + int64(n)}
		}
	}
	_, err = stream.CloseAndRecv()
	return d, err
}
