package reapi

import (
	"cmp"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/cache/disk"
)

// Content is compressed for transfer if the server supports zstd and the content is large enough.
// Content that does not shrink costs a few bytes more. We send a blob as one frame. A server may
// send several frames, with skippable frames among them: bazel-remote starts with one over HTTP.

// compressFrom is the minimum size in bytes: a smaller blob shares a message with others, which
// saves more.
const compressFrom = 1 << 10

// encode writes src to dst as one frame. It completes the frame only if check returns no error for
// what was read.
func encode(dst io.Writer, src io.Reader, check func() error) error {
	e := disk.Encoders.Get().(*zstd.Encoder)
	defer disk.Encoders.Put(e)
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
	d := disk.Decoders.Get().(*zstd.Decoder)
	defer disk.Decoders.Put(d)
	from, to := &counter{from: src}, &counter{to: dst}
	err := d.Reset(from)
	if err == nil {
		defer d.Reset(nil)
		_, err = io.Copy(to, io.LimitReader(d, b.Size+1))
	}
	if err == nil || from.err != nil || to.err != nil {
		return cmp.Or(from.err, to.err)
	}
	return fmt.Errorf("%w: what comes as %s is no zstd: %w", ErrWrong, b.Digest, err)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// counter counts the bytes that it passes on, and keeps the error that ends that.
type counter struct {
	from io.Reader
	to   io.Writer
	n    int64
	err  error
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.n += int64(n); err != io.EOF {
		c.err = err
	}
	return n, err
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n, c.err = c.n+int64(n), err
	return n, err
}
