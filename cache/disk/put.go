package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// maxRecords limits the records under one command key: each edit of a header adds one, and each
// lookup reads them all. The least recently used one is removed.
const maxRecords = 64

// Put implements cache.Store. If it fails, blobs that are already written stay without a record; gc
// collects them.
func (s *Store) Put(ctx context.Context, r *cache.Record, file func(cache.Output) string) error {
	content, err := EncodeRecord(r)
	if err != nil {
		return err
	}
	for _, o := range r.Outputs {
		if o.Unkept {
			continue
		}
		if err := s.putBlob(ctx, o, file(o)); err != nil {
			return err
		}
	}
	if err := s.putRecord(r, content); err != nil {
		return s.unwritable(err)
	}
	s.prune(r.Command)
	return nil
}

// putBlob stores one file. If the store already has the content, putBlob only checks the file.
func (s *Store) putBlob(ctx context.Context, o cache.Output, name string) error {
	src, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("storing %s: %w", o.Path, err)
	}
	defer src.Close()
	if s.reuse(o) {
		return checkContent(ctx, o, src)
	}
	return s.putContent(ctx, o, src)
}

// putContent stores content that the store does not have.
func (s *Store) putContent(ctx context.Context, o cache.Output, src io.Reader) error {
	var wrong error // of the source, not of the store
	err := s.create(func(tmp *os.File) (name string, err error) {
		t := transfer{ctx: ctx, fault: s.step, store: s}
		d, n, compressed, err := t.write(tmp, src, o.Size)
		var read readError
		switch {
		case errors.As(err, &read):
			wrong = fmt.Errorf("storing %s: %w", o.Path, err)
		case err == nil:
			wrong = same(o, d, n)
		}
		return s.blobName(o.Digest, compressed), errors.Join(err, wrong)
	})
	if wrong != nil {
		return wrong
	}
	return s.unwritable(err)
}

// create writes a file of the store atomically. fill writes the content and returns the name.
func (s *folder) create(fill func(tmp *os.File) (name string, err error)) error {
	tmp, err := s.temp()
	if err != nil {
		return err
	}
	name, err := fill(tmp)
	if e := tmp.Close(); err == nil { // quota errors of network file systems appear here
		err = e
	}
	if err == nil {
		err = s.publish(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// reuse reports whether the store has a blob. It renews the blob's time, so that a concurrent gc
// keeps it for the record to come. It does not read the content: Restore does. A blob that cannot
// be touched (another user's) is written again.
func (s *Store) reuse(o cache.Output) bool {
	name, compressed, info, err := s.findBlob(o.Digest)
	if err != nil || wrongSize(info, compressed, o.Size) != nil {
		return false
	}
	now := s.now()
	return os.Chtimes(name, now, now) == nil
}

func checkContent(ctx context.Context, o cache.Output, src io.Reader) error {
	t := transfer{ctx: ctx}
	d, n, err := t.run(nil, src)
	if err != nil {
		return fmt.Errorf("storing %s: %w", o.Path, err)
	}
	return same(o, d, n)
}

// same compares content with its record.
func same(o cache.Output, d cache.Digest, n int64) error {
	if d != o.Digest || n != o.Size {
		return fmt.Errorf("storing %s: the file is not what the action wrote (%d bytes, %s; expected %d bytes, %s)", o.Path, n, d, o.Size, o.Digest)
	}
	return nil
}

func (s *records) putRecord(r *cache.Record, content []byte) error {
	id := r.ID()
	if err := s.putFile(s.recordFile(r.Command, id), content); err != nil {
		return err
	}
	s.wrote(r.Command, id)
	return nil
}

// putFile writes a file atomically.
func (s *folder) putFile(name string, content []byte) error {
	return s.create(func(tmp *os.File) (string, error) {
		err := s.step("write")
		if err == nil {
			_, err = tmp.Write(content)
		}
		return name, err
	})
}

// prune limits the number of records under a command key, as far as this process knows them.
func (s *records) prune(command cache.Key) {
	if len(s.ids(command)) <= maxRecords {
		return
	}
	for _, f := range s.recordFiles(command)[maxRecords:] {
		os.Remove(f.name)
	}
}

// Records implements cache.Store.
func (s *Store) Records(ctx context.Context, command cache.Key) ([]*cache.Record, error) {
	var records []*cache.Record
	for _, f := range s.recordFiles(command) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := readRecord(f.name)
		switch {
		case err == nil:
			records = append(records, r)
		case errors.Is(err, cache.ErrCorrupt):
			os.Remove(f.name) // a miss either way; the next Put writes it again
		}
	}
	return records, nil
}

// Used implements cache.Store. It stamps the record at each use for an exact order: one system call
// in addition to the many of a restore. On a store that cannot be written it does nothing.
func (s *Store) Used(r *cache.Record) {
	now := s.now()
	os.Chtimes(s.record(r), now, now)
}

// Restore implements cache.Store. The mode is 0644 or 0755, minus the umask.
func (s *Store) Restore(ctx context.Context, out cache.Output, name string) error {
	src, compressed, err := s.openBlob(out.Digest)
	if err != nil {
		return fmt.Errorf("restoring %s: %w", out.Path, err)
	}
	defer src.Close()
	dst, err := regular.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode(out))
	if err != nil {
		return fmt.Errorf("restoring %s: %w", out.Path, err)
	}
	err = s.fill(ctx, dst, src, compressed, out)
	if e := dst.Close(); err == nil {
		err = e
	}
	if err == nil {
		return nil
	}
	os.Remove(name)
	if errors.Is(err, cache.ErrCorrupt) {
		os.Remove(src.Name())
	}
	return fmt.Errorf("restoring %s: %w", out.Path, err)
}

// fill copies or clones src into dst, then checks the digest of dst.
func (s *Store) fill(ctx context.Context, dst, src *os.File, compressed bool, out cache.Output) error {
	t := transfer{ctx: ctx, fault: s.step, store: s}
	var d cache.Digest
	var err error
	if !compressed && t.clone(dst, src) {
		d, _, err = t.run(nil, dst)
	} else {
		d, _, err = t.read(dst, src, compressed, out.Size)
	}
	var read readError
	switch {
	case err == nil && d != out.Digest:
		return fmt.Errorf("%w: the content of blob %s has digest %s", cache.ErrCorrupt, out.Digest, d)
	case errors.As(err, &read) && ctx.Err() == nil: // a folder instead of a file, a bad sector
		return fmt.Errorf("%w: reading blob %s: %w", cache.ErrCorrupt, out.Digest, err)
	}
	return err
}

func mode(out cache.Output) fs.FileMode {
	if out.Exec {
		return 0o755
	}
	return 0o644
}

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
