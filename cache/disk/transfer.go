package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// readError is a failure of the source of a copy. All other errors are the destination's.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// transfer copies and hashes in one pass, chunk by chunk, until its context ends.
type transfer struct {
	ctx   context.Context
	fault func(step string) error // called before each write; may be nil
	// The store that it writes to or reads from; nil if it only hashes.
	store *Store
}

// clone makes dst share the content of src if the file system can. After one failure it never tries
// again.
func (t *transfer) clone(dst, src *os.File) bool {
	if t.store == nil || t.store.copies.Load() {
		return false
	}
	if clone(dst, src) {
		return true
	}
	t.store.copies.Store(true)
	return false
}

func (t *transfer) hash(src io.Reader) (cache.Digest, int64, error) { return t.run(nil, src) }

func (t *transfer) run(dst io.Writer, src io.Reader) (cache.Digest, int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	var size int64
	for {
		if err := t.ctx.Err(); err != nil {
			return cache.Digest{}, size, readError{err}
		}
		n, err := src.Read(*buf)
		h.Write((*buf)[:n])
		size += int64(n)
		if werr := t.put(dst, (*buf)[:n]); werr != nil {
			return cache.Digest{}, size, werr
		}
		if errors.Is(err, io.EOF) {
			return cache.Digest(h.Sum(nil)), size, nil
		}
		if err != nil {
			return cache.Digest{}, size, readError{err}
		}
	}
}

func (t *transfer) put(dst io.Writer, b []byte) error {
	if t.fault != nil {
		if err := t.fault("write"); err != nil {
			return err
		}
	}
	if dst == nil || len(b) == 0 {
		return nil
	}
	_, err := dst.Write(b)
	return err
}
