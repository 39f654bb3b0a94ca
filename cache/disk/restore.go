package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

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
