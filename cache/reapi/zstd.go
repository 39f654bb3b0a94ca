package reapi

import (
	"bufio"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Content is compressed on the way where the server offers zstd, where there is enough of it, and
// where it shrinks. A blob is one frame when it is sent. What comes may be several, and frames to
// be skipped among them: bazel-remote begins with one over HTTP.

const (
	compressFrom  = 1 << 10   // bytes; a smaller blob goes with others in one message, which saves more
	sampleSize    = 64 << 10  // of the content, to see whether it shrinks
	encoderWindow = 512 << 10 // servers bound the window that they take; a larger one gains 1 % on objects
	maxWindow     = 8 << 20   // which RFC 8878 advises all to take and none to exceed; streams of a few bytes declare it too
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

// shrinks looks at the beginning of content.
func shrinks(src *bufio.Reader) bool {
	sample, _ := src.Peek(sampleSize)
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	return len(e.EncodeAll(sample, nil)) <= len(sample)-len(sample)/8
}

// encode writes src to dst as one frame, which ends only if check finds nothing wrong with what was
// read.
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

// decode writes to dst what src decodes to, which should be a blob. It ends with the first byte
// more: a few bytes can decode to more than any disk holds.
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

// decoding tells the errors of what is decoded from those of where it comes from.
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

// counter counts the bytes that pass.
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
