package fatbin

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A compressed bundle is "CCOB", a version and a method of 2 bytes each, two sizes, 8 bytes of a
// hash, and the compressed bundle. The sizes are that of the whole and that of the bundle in it.
// They have 8 bytes in version 3 and 4 before. Version 1 has no total size: it extends to the next
// bundle. The layout is LLVM's (llvm/lib/Object/OffloadBundle.cpp); it was checked with files of
// clang 19 (version 2) and 22 (version 3).
const (
	maxBundleRatio  = 1 << 10 // of the bundle to its compressed size
	minBundleWindow = 1 << 20 // any zstd stream may require it
	maxBundleWindow = 1 << 28 // the limit for large ones; LLVM's require half of it
)

type compressedHead struct {
	size      int64 // size of the head
	end       int64 // end of the compressed bundle
	unpacked  int64
	method    uint16 // 0 zlib, 1 zstd
	stretches bool   // extends to the next bundle
}

func parseCompressedHead(h [bundleHeadSize]byte, size int64) (compressedHead, error) {
	le := binary.LittleEndian
	c := compressedHead{end: size, method: le.Uint16(h[6:])}
	end, unpacked := uint64(size), uint64(0)
	switch version := le.Uint16(h[4:]); version {
	case 1:
		c.size, unpacked, c.stretches = 20, uint64(le.Uint32(h[8:])), true
	case 2:
		c.size, end, unpacked = 24, uint64(le.Uint32(h[8:])), uint64(le.Uint32(h[12:]))
	case 3:
		c.size, end, unpacked = 32, le.Uint64(h[8:]), le.Uint64(h[16:])
	default:
		return c, fmt.Errorf("it is compressed in a form that is not known: version %d", version)
	}
	if end < uint64(c.size) || end > uint64(size) {
		return c, errors.New("it is longer than its file")
	}
	if unpacked > maxBundleRatio*end {
		return c, errors.New("it has impossible sizes")
	}
	c.end, c.unpacked = int64(end), int64(unpacked)
	return c, nil
}

// readCompressedBundle reads a compressed bundle up to the start of its last code, and returns
// where it ends. The stored size of each image is unknown, since they are compressed together.
func readCompressedBundle(r *io.SectionReader) ([]Image, int64, error) {
	var h [bundleHeadSize]byte
	if _, err := r.ReadAt(h[:], 0); err != nil {
		return nil, 0, fmt.Errorf("it is cut short: %w", err)
	}
	head, err := parseCompressedHead(h, r.Size())
	if err != nil {
		return nil, 0, err
	}
	if head.stretches {
		head.end = nextBundle(r)
	}
	stream, err := head.decompress(io.NewSectionReader(r, head.size, head.end-head.size))
	if err != nil {
		return nil, 0, fmt.Errorf("decompressing it: %w", err)
	}
	defer stream.Close()
	images, _, err := readEntriesOf(&forwardReader{r: stream}, head.unpacked)
	if err != nil {
		return nil, 0, fmt.Errorf("decompressed: %w", err)
	}
	for i := range images {
		images[i].Unpacked, images[i].Size = images[i].Size, 0
	}
	return images, head.end, nil
}

func (c compressedHead) decompress(r io.Reader) (io.ReadCloser, error) {
	switch c.method {
	case 0:
		return zlib.NewReader(r)
	case 1:
		window := min(max(2*c.unpacked, minBundleWindow), maxBundleWindow)
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(window)))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("method %d is not known", c.method)
}

// nextBundle returns the offset of the second bundle of r, or the end of r. Bundles are aligned.
func nextBundle(r *io.SectionReader) int64 {
	var magic [4]byte
	for off := int64(bundleAlign); off < r.Size(); off += bundleAlign {
		if n, _ := r.ReadAt(magic[:], off); n == len(magic) &&
			(bytes.Equal(magic[:], compressedBundleMagic) || bytes.HasPrefix(bundleMagic, magic[:])) {
			return off
		}
	}
	return r.Size()
}

// forwardReader makes a stream an io.ReaderAt with increasing offsets.
type forwardReader struct {
	r  io.Reader
	at int64
}

func (f *forwardReader) ReadAt(b []byte, off int64) (int, error) {
	if off < f.at {
		return 0, errors.New("its entries lie over each other")
	}
	n, err := io.CopyN(io.Discard, f.r, off-f.at)
	f.at += n
	if err != nil {
		return 0, err
	}
	got, err := io.ReadFull(f.r, b)
	f.at += int64(got)
	return got, err
}
