package fatbin

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// A clang offload bundle is the magic, the number of entries, the entries, and their code. An entry
// is the offset of its code from the start of the bundle, its size, the length of its id, and the
// id. All numbers have 8 bytes, little endian. The id names a kind, a target triple and a target
// ID:
//
//	host-x86_64-unknown-linux               empty: the bundler requires it
//	hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-  final
//	hip-amdgcn-amd-amdhsa-gfx906            not linked yet, with clang before 16
//	hipv4-spirv64-amd-amdhsa--amdgcnspirv   SPIR-V; hip- if the bundle has nothing else
//
// A bundle does not record its length: it ends with the last of its code. Entries of other
// languages and processors are skipped.
const (
	bundleHeadSize = 32 // magic and number of entries
	bundleIDAt     = 24 // within an entry
	maxBundleCount = 4 << 10
)

// BundleEntry is an entry of a bundle with its code.
type BundleEntry struct {
	ID    string
	Bytes []byte
}

// readBundles describes a sequence of bundles with zeros between them, as a linker writes it.
func readBundles(data []byte) ([]Image, error) {
	var out []Image
	for off := 0; ; {
		if off = skipZeros(data, off); off >= len(data) {
			return out, nil
		}
		var entries []BundleEntry
		var length int
		err := errors.New("it has no header")
		rest, compressed := data[off:], false
		switch {
		case bytes.HasPrefix(rest, bundleMagic):
			entries, length, err = splitBundle(rest)
		case bytes.HasPrefix(rest, compressedBundleMagic):
			compressed = true
			entries, length, err = splitCompressedBundle(rest)
		}
		if err != nil {
			return nil, fmt.Errorf("the bundle at %d: %w", off, err)
		}
		for _, e := range entries {
			img, ok := codeOf(e.ID, e.Bytes)
			if compressed { // together with others
				img.Unpacked, img.Size = img.Size, 0
			}
			if ok {
				out = append(out, img)
			}
		}
		off += (length + 7) &^ 7
	}
}

// splitBundle returns the entries of an uncompressed bundle, in the order of its table, and where
// the bundle ends.
func splitBundle(data []byte) (entries []BundleEntry, end int, err error) {
	if len(data) < bundleHeadSize {
		return nil, 0, errors.New("it is cut short")
	}
	count := binary.LittleEndian.Uint64(data[len(bundleMagic):])
	if count > maxBundleCount {
		return nil, 0, fmt.Errorf("%d entries are more than any real one has", count)
	}
	at := bundleHeadSize
	for range count {
		h := data[at:]
		if len(h) < bundleIDAt {
			return nil, 0, fmt.Errorf("the entry at %d is cut short", at)
		}
		offset, length := binary.LittleEndian.Uint64(h), binary.LittleEndian.Uint64(h[8:])
		n, size := binary.LittleEndian.Uint64(h[16:]), uint64(len(data))
		if offset > size || length > size-offset || n > uint64(len(h)-bundleIDAt) {
			return nil, 0, fmt.Errorf("the entry at %d has impossible sizes", at)
		}
		id := string(h[bundleIDAt:][:n])
		entries = append(entries, BundleEntry{id, data[offset:][:length]})
		at, end = at+bundleIDAt+int(n), max(end, int(offset+length))
	}
	return entries, max(at, end), nil
}

// Bundled returns the entries of an uncompressed bundle, in the order of its table.
func Bundled(file []byte) ([]BundleEntry, error) {
	entries, _, err := splitBundle(file)
	return entries, err
}

// Magic numbers of AMD code.
var (
	bitcodeMagic = []byte("BC\xc0\xde")
	spirvMagic   = []byte{0x03, 0x02, 0x23, 0x07}
)

// codeOf describes the code of an entry. ok is false if it is not HIP code for an AMD processor.
func codeOf(id string, code []byte) (img Image, ok bool) {
	name, feature, ok := targetOf(id)
	img = Image{Image: gencode.Image{Kind: gencode.GFX, Name: name, Feature: feature}, Size: int64(len(code))}
	switch {
	case bytes.HasPrefix(code, bitcodeMagic):
		img.Kind = gencode.Bitcode
	case name == gencode.SPIRVTarget && bytes.HasPrefix(code, spirvMagic):
		img.Kind = gencode.SPIRV
	case !bytes.HasPrefix(code, []byte(elf.ELFMAG)):
		return Image{}, false
	}
	return img, ok
}

var targetRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:hip(?:v[0-9]+)?-)?(?:amdgcn-amd-amdhsa-[a-z]*-?(gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?)((?::[a-z]+[+-])*)|` +
		`spirv64-amd-amdhsa-[a-z]*-?(amdgcnspirv))$`)
})

// targetOf parses the target ID in the id of a bundle's entry or in the metadata of a code object.
// The triple before it has three or four parts, of which the fourth may be empty.
func targetOf(id string) (name, feature string, ok bool) {
	m := targetRE().FindStringSubmatch(id)
	if m == nil {
		return "", "", false
	}
	return m[1] + m[3], m[2], true
}

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
