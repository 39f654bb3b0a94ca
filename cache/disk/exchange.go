package disk

import (
	"context"
	"io"
	"slices"

	"github.com/kbuild-dev/kbuild/cache"
)

// Receive stores the content of an output that comes from elsewhere. It is checked. An error is a
// WriteError where not the content is at fault, but the store.
func (s *Store) Receive(ctx context.Context, o cache.Output, src io.Reader) error {
	if s.reuse(o) {
		return nil
	}
	return s.putContent(ctx, o, src)
}

// Keep stores a record whose outputs came from elsewhere. Without all of their blobs it is not
// kept: it would be a hit that ends in a miss.
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

// KeepWithout is Keep, with those outputs marked that the store does not have: who needs one runs
// the action again.
func (s *Store) KeepWithout(r *cache.Record) error {
	mine := *r
	mine.Outputs = slices.Clone(r.Outputs)
	for i := range mine.Outputs {
		o := &mine.Outputs[i]
		o.Unkept = o.Unkept || !s.reuse(*o)
	}
	return s.Keep(&mine)
}

// Content is what an output holds. Whoever reads it checks it.
func (s *Store) Content(o cache.Output) (io.ReadCloser, error) {
	f, compressed, err := s.openBlob(o.Digest)
	if err != nil || !compressed {
		return f, err
	}
	// A decoder of its own, not one of decoders: an HTTP client may still read from it when the
	// server has answered and it is closed.
	d, err := newDecoder(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return content{d.IOReadCloser(), f}, nil
}

// content is a compressed blob's.
type content struct {
	io.ReadCloser
	file io.Closer
}

func (c content) Close() error {
	c.ReadCloser.Close()
	return c.file.Close()
}
