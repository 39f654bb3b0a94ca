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

	maxUnpackedBundle = 2 << 30 // no code of a program is larger
)

// splitCompressedBundle returns the entries of a compressed bundle, and where it ends.
func splitCompressedBundle(data []byte) (entries []BundleEntry, end int, err error) {
	if len(data) < bundleHeadSize {
		return nil, 0, errors.New("it is cut short")
	}
	le, size := binary.LittleEndian, uint64(len(data))
	var head, stated, unpacked uint64
	switch version := le.Uint16(data[4:]); version {
	case 1: // it extends to the next bundle
		head, stated, unpacked = 20, uint64(nextBundle(data)), uint64(le.Uint32(data[8:]))
	case 2:
		head, stated, unpacked = 24, uint64(le.Uint32(data[8:])), uint64(le.Uint32(data[12:]))
	case 3:
		head, stated, unpacked = 32, le.Uint64(data[8:]), le.Uint64(data[16:])
	default:
		return nil, 0, fmt.Errorf("it is compressed in a form that is not known: version %d", version)
	}
	switch {
	case stated < head || stated > size:
		return nil, 0, errors.New("it is longer than its file")
	case unpacked > maxBundleRatio*stated || unpacked > maxUnpackedBundle:
		return nil, 0, errors.New("it has impossible sizes")
	}
	bundle, err := decompress(le.Uint16(data[6:]), data[head:stated], int64(unpacked))
	if err != nil {
		return nil, 0, fmt.Errorf("decompressing it: %w", err)
	}
	if entries, _, err = splitBundle(bundle); err != nil {
		return nil, 0, fmt.Errorf("decompressed: %w", err)
	}
	return entries, int(stated), nil
}

// decompress returns the first bytes of a stream, at most size. method is 0 for zlib, 1 for zstd.
func decompress(method uint16, in []byte, size int64) ([]byte, error) {
	var stream io.Reader
	switch method {
	case 0:
		r, err := zlib.NewReader(bytes.NewReader(in))
		if err != nil {
			return nil, err
		}
		stream = r
	case 1:
		window := min(max(2*size, minBundleWindow), maxBundleWindow)
		d, err := zstd.NewReader(bytes.NewReader(in), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(window)))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		stream = d
	default:
		return nil, fmt.Errorf("method %d is not known", method)
	}
	return io.ReadAll(io.LimitReader(stream, size))
}

// nextBundle returns the offset of the second bundle of data, or the end. Bundles are aligned.
func nextBundle(data []byte) int {
	for off := bundleAlign; off < len(data); off += bundleAlign {
		if bytes.HasPrefix(data[off:], compressedBundleMagic) || bytes.HasPrefix(data[off:], bundleMagic[:4]) {
			return off
		}
	}
	return len(data)
}
