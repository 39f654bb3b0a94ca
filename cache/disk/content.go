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
	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A blob holds content as is, or as a zstd frame under a name that ends in ".zst". Content is
// compressed if that saves a quarter or more, as for PTX, objects and libraries. It is not
// compressed if the file system can share its blocks with the build tree: a clone costs less than
// any compression. In both formats the name is the digest of the content, which a restore checks.

const (
	compressedEnding = ".zst"
	compressFrom     = 8 << 10  // minimum size in bytes: smaller content would save no disk blocks
	sampleSize       = 64 << 10 // bytes of the content to try compression on
	// Limit of the decoder's window: it bounds the memory that a damaged frame can request. RFC
	// 8878 recommends this limit for all; even servers' frames of a few bytes may declare it.
	maxWindow = 8 << 20
	// A larger window gains 1 % on objects, and servers limit the window that they accept.
	encoderWindow = 512 << 10
)

// blobName returns the file name of content in either format.
func (s *Store) blobName(d cache.Digest, compressed bool) string {
	name := d.String()
	dir := name[:2]
	if compressed {
		name += compressedEnding
	}
	return s.path("blobs", dir, name)
}

// splitBlobName is the inverse of blobName; ok is false for other files.
func splitBlobName(name string) (d cache.Digest, compressed, ok bool) {
	name, compressed = strings.CutSuffix(name, compressedEnding)
	d, err := cache.ParseDigest(name)
	return d, compressed, err == nil
}

// findBlob returns the name and stat of content in the format that exists.
func (s *Store) findBlob(d cache.Digest) (name string, compressed bool, info fs.FileInfo, err error) {
	for _, compressed := range [2]bool{false, true} {
		name = s.blobName(d, compressed)
		if info, err = os.Lstat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, compressed, info, err
		}
	}
	return "", false, nil, err
}

// openBlob opens content in the format that exists.
func (s *Store) openBlob(d cache.Digest) (f *os.File, compressed bool, err error) {
	for _, compressed := range [2]bool{false, true} {
		if f, err = regular.Open(s.blobName(d, compressed), os.O_RDONLY, 0); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, compressed, err
		}
	}
	return nil, false, err
}

// Encoders holds free encoders of zstd. Their frames have no checksum: readers check the digest.
var Encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(encoderWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return e
}}

// Decoders holds free decoders of zstd.
var Decoders = sync.Pool{New: func() any {
	d, err := newDecoder(nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return d
}}

func newDecoder(src io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// write copies about size bytes from src to dst, which is empty, and hashes them. It chooses the
// format and returns it in compressed.
func (t *transfer) write(dst *os.File, src io.Reader, size int64) (d cache.Digest, n int64, compressed bool, err error) {
	if f, ok := src.(*os.File); ok && t.clone(dst, f) {
		d, n, err = t.run(nil, dst) // cloned without reading it, so dst is read for the digest
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
	e := Encoders.Get().(*zstd.Encoder)
	defer Encoders.Put(e)
	return len(e.EncodeAll(sample, (*buf)[:0])) <= len(sample)-len(sample)/4
}

func (t *transfer) compress(dst io.Writer, src io.Reader) (cache.Digest, int64, error) {
	e := Encoders.Get().(*zstd.Encoder)
	defer Encoders.Put(e)
	e.Reset(dst)
	d, n, err := t.run(e, src)
	if end := e.Close(); err == nil {
		err = end
	}
	e.Reset(nil)
	return d, n, err
}

// read copies content out of a blob and hashes it; dst may be nil. It stops after size+1 bytes, so
// content that is too long fails the digest check, whatever the frame promises.
func (t *transfer) read(dst io.Writer, blob *os.File, compressed bool, size int64) (cache.Digest, int64, error) {
	if !compressed {
		return t.run(dst, blob)
	}
	d := Decoders.Get().(*zstd.Decoder)
	defer Decoders.Put(d)
	if err := d.Reset(blob); err != nil {
		return cache.Digest{}, 0, readError{err}
	}
	defer d.Reset(nil)
	return t.run(dst, io.LimitReader(d, size+1))
}

// hashBlob returns the digest and length of the content in a blob's file.
func hashBlob(ctx context.Context, b blobFile) (cache.Digest, int64, error) {
	f, err := regular.Open(b.name, os.O_RDONLY, 0)
	if err != nil {
		return cache.Digest{}, 0, err
	}
	defer f.Close()
	t := transfer{ctx: ctx}
	return t.read(nil, f, b.compressed, 1<<50)
}

// wrongSize returns an error if a blob cannot hold size bytes. The size of compressed content is
// known only after reading it.
func wrongSize(info fs.FileInfo, compressed bool, size int64) error {
	switch {
	case !info.Mode().IsRegular() || info.Size() == 0 && size > 0:
		return fmt.Errorf("%w: its blob is empty or no file", cache.ErrCorrupt)
	case !compressed && info.Size() != size:
		return fmt.Errorf("%w: its blob has %d bytes, not %d", cache.ErrCorrupt, info.Size(), size)
	}
	return nil
}

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
	// On btrfs, XFS and bcachefs dst then shares the blocks of src; its offset stays at the start.
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return true
	}
	t.store.copies.Store(true)
	return false
}

// run copies and hashes. dst may be nil.
func (t *transfer) run(dst io.Writer, src io.Reader) (cache.Digest, int64, error) {
	from := io.Reader(transferSource{t, src})
	if dst != nil {
		from = io.TeeReader(from, transferSink{t, dst})
	}
	return cache.DigestReader(from)
}

// transferSource reads until the context of a transfer ends. All its errors are readErrors.
type transferSource struct {
	*transfer
	io.Reader
}

func (s transferSource) Read(b []byte) (n int, err error) {
	if err = s.ctx.Err(); err == nil {
		n, err = s.Reader.Read(b)
	}
	if err != nil && err != io.EOF {
		err = readError{err}
	}
	return n, err
}

type transferSink struct {
	*transfer
	io.Writer
}

func (s transferSink) Write(b []byte) (int, error) {
	if s.fault != nil {
		if err := s.fault("write"); err != nil {
			return 0, err
		}
	}
	return s.Writer.Write(b)
}
