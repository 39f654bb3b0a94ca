package reapi

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Content is compressed for transfer if the server supports zstd and the content is large enough.
// Content that does not shrink costs a few bytes more. We send a blob as one frame. A server may send several frames, with skippable
// frames among them: bazel-remote starts with one over HTTP.

const (
	// Minimum size in bytes: a smaller blob shares a message with others, which saves more.
	compressFrom = 1 << 10
	// Servers limit the window that they accept; a larger one gains 1 % on objects.
	encoderWindow = 512 << 10
	// RFC 8878 recommends this limit for all; even streams of a few bytes may declare it.
	maxWindow = 8 << 20
)

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(encoderWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return e
}}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return d
}}

// encode writes src to dst as one frame. It completes the frame only if check returns no error for
// what was read.
func encode(dst io.Writer, src io.Reader, check func() error) error {
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	e.Reset(dst)
	defer e.Reset(nil)
	if _, err := io.Copy(e, src); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	return e.Close()
}

// decode writes the decompressed src, which should be b, to dst. It stops after one byte too many:
// a few bytes can decompress to more than any disk holds.
func decode(dst io.Writer, src io.Reader, b Blob) error {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	from := &decoding{of: b, from: src, d: d}
	if err := d.Reset(readerFunc(from.source)); err != nil {
		return from.why(err)
	}
	defer d.Reset(nil)
	_, err := io.Copy(dst, io.LimitReader(from, b.Size+1))
	return err
}

// decoding distinguishes errors of decompression from errors of the source.
type decoding struct {
	of   Blob
	from io.Reader
	err  error // of from
	d    *zstd.Decoder
}

// Read implements io.Reader.
func (r *decoding) Read(p []byte) (int, error) {
	n, err := r.d.Read(p)
	return n, r.why(err)
}

func (r *decoding) why(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case r.err != nil:
		return r.err
	}
	return fmt.Errorf("%w: what comes as %s is no zstd: %w", ErrWrong, r.of.Digest, err)
}

func (r *decoding) source(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// counter counts the bytes that it passes on.
type counter struct {
	from io.Reader
	to   io.Writer
	n    int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
