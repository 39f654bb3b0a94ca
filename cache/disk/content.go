package disk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A blob holds content as it is, or as a zstd frame under a name that ends in ".zst". It is
// compressed where that saves a quarter of it or more, as it does for PTX, objects and libraries,
// and where the file system cannot share its blocks with the build tree: a clone costs less than
// any compression. Its name is the digest of the content either way, and so is what a restore
// checks.

const (
	compressedEnding = ".zst"
	compressFrom     = 8 << 10   // bytes; below, content fills as many blocks of the disk either way
	sampleSize       = 64 << 10  // of the content, to see whether it shrinks
	maxWindow        = 4 << 20   // of what is decompressed; bounds the memory that a damaged frame can ask for
	encoderWindow    = 512 << 10 // a larger one gains 1 % on objects
)

// blobName is where content is, in either form.
func (s *Store) blobName(d cache.Digest, compressed bool) string {
	name := d.String()
	dir := name[:2]
	if compressed {
		name += compressedEnding
	}
	return s.path("blobs", dir, name)
}

// splitBlobName is the reverse; ok is false for other files.
func splitBlobName(name string) (d cache.Digest, compressed, ok bool) {
	name, compressed = strings.CutSuffix(name, compressedEnding)
	d, err := cache.ParseDigest(name)
	return d, compressed, err == nil
}

// findBlob is the stat of content in the form that is there.
func (s *Store) findBlob(d cache.Digest) (name string, compressed bool, info fs.FileInfo, err error) {
	for _, compressed := range [2]bool{false, true} {
		name = s.blobName(d, compressed)
		if info, err = os.Lstat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, compressed, info, err
		}
	}
	return "", false, nil, err
}

// openBlob opens content in the form that is there.
func (s *Store) openBlob(d cache.Digest) (f *os.File, compressed bool, err error) {
	for _, compressed := range [2]bool{false, true} {
		if f, err = regular.Open(s.blobName(d, compressed), os.O_RDONLY, 0); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, compressed, err
		}
	}
	return nil, false, err
}

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(encoderWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)) // the digest is checked
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return e
}}

var decoders = sync.Pool{New: func() any {
	d, err := newDecoder(nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return d
}}

func newDecoder(src io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// write gives dst the content of src, about size bytes, in the form that it returns, and hashes it.
// dst is empty.
func (t *transfer) write(dst *os.File, src io.Reader, size int64) (d cache.Digest, n int64, compressed bool, err error) {
	if f, ok := src.(*os.File); ok && t.clone(dst, f) {
		d, n, err = t.run(nil, dst) // shared without reading it, so it is read back
		return d, n, false, err
	}
	if size >= compressFrom {
		ahead := bufio.NewReaderSize(src, sampleSize)
		sample, _ := ahead.Peek(sampleSize)
		compressed, src = shrinks(sample), ahead
	}
	if compressed {
		d, n, err = t.compress(dst, src)
	} else {
		d, n, err = t.run(dst, src)
	}
	return d, n, compressed, err
}

func shrinks(sample []byte) bool {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	return len(e.EncodeAll(sample, (*buf)[:0])) <= len(sample)-len(sample)/4
}

func (t *transfer) compress(dst io.Writer, src io.Reader) (cache.Digest, int64, error) {
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	e.Reset(dst)
	d, n, err := t.run(e, src)
	if end := e.Close(); err == nil {
		err = end
	}
	e.Reset(nil)
	return d, n, err
}

// read copies content out of a blob and hashes it; dst may be nil. Content longer than size is
// damaged, whatever else the frame promises.
func (t *transfer) read(dst io.Writer, blob *os.File, compressed bool, size int64) (cache.Digest, int64, error) {
	if !compressed {
		return t.run(dst, blob)
	}
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	if err := d.Reset(blob); err != nil {
		return cache.Digest{}, 0, readError{err}
	}
	defer d.Reset(nil)
	return t.run(dst, io.LimitReader(d, size+1))
}

// hashBlob is the digest of the content in a blob's file, and its length.
func hashBlob(ctx context.Context, b blobFile) (cache.Digest, int64, error) {
	f, err := regular.Open(b.name, os.O_RDONLY, 0)
	if err != nil {
		return cache.Digest{}, 0, err
	}
	defer f.Close()
	t := transfer{ctx: ctx}
	return t.read(nil, f, b.compressed, 1<<50)
}

// wrongSize says that a blob does not hold size bytes. What is compressed tells only when it is
// read.
func wrongSize(info fs.FileInfo, compressed bool, size int64) error {
	switch {
	case !info.Mode().IsRegular() || info.Size() == 0 && size > 0:
		return fmt.Errorf("%w: its blob is empty or no file", cache.ErrCorrupt)
	case !compressed && info.Size() != size:
		return fmt.Errorf("%w: its blob has %d bytes, not %d", cache.ErrCorrupt, info.Size(), size)
	}
	return nil
}
