package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
	d, n, err := t.hash(src)
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

func isDigest(name string) bool {
	_, err := cache.ParseDigest(name)
	return err == nil
}
