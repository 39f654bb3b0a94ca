package disk

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/kbuild-dev/kbuild/cache"
)

// Receive stores the content of an output from a remote cache, and checks it. The error is a
// WriteError if the local store is at fault, not the content.
func (s *Store) Receive(ctx context.Context, o cache.Output, src io.Reader) error {
	if s.reuse(o) {
		return nil
	}
	return s.putContent(ctx, o, src)
}

// Has reports whether the store has a record.
func (s *Store) Has(r *cache.Record) bool {
	_, err := os.Stat(s.record(r))
	return err == nil
}

// Keep stores a record from a remote cache. If a blob of its outputs is missing, Keep does nothing:
// such a record would be a hit that ends in a miss.
func (s *Store) Keep(r *cache.Record) error {
	for _, o := range r.Outputs {
		if !o.Unkept && !s.reuse(o) {
			return nil
		}
	}
	content, err := EncodeRecord(r)
	if err != nil {
		return err
	}
	return s.unwritable(s.putRecord(r, content))
}

// KeepWithout is Keep, but marks the outputs that the store does not have as Unkept. An action that
// needs one of them reruns the producer.
func (s *Store) KeepWithout(r *cache.Record) error {
	mine := *r
	mine.Outputs = slices.Clone(r.Outputs)
	for i := range mine.Outputs {
		o := &mine.Outputs[i]
		o.Unkept = o.Unkept || !s.reuse(*o)
	}
	return s.Keep(&mine)
}

// Content returns the content of an output. The caller must check its digest.
func (s *Store) Content(o cache.Output) (io.ReadCloser, error) {
	f, compressed, err := s.openBlob(o.Digest)
	if err != nil || !compressed {
		return f, err
	}
	// Do not share the decoders of the pool: an HTTP client may still read from this one after the
	// server has answered and it is closed.
	d, err := newDecoder(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return content{d.IOReadCloser(), f}, nil
}

// content reads the content of a compressed blob.
type content struct {
	io.ReadCloser
	file io.Closer
}

func (c content) Close() error {
	c.ReadCloser.Close()
	return c.file.Close()
}
