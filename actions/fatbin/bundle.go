package fatbin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"

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
	maxBundleID    = 4 << 10
	maxBundleCount = 4 << 10
)

// bundleEntry locates code within a bundle.
type bundleEntry struct {
	id           string
	offset, size int64
}

// readBundles reads a sequence of bundles with zeros between them, as a linker writes it.
func readBundles(r io.ReaderAt, size int64) ([]Image, error) {
	var out []Image
	for off := int64(0); ; {
		off = skipZeros(r, off, size)
		if off >= size {
			return out, nil
		}
		images, length, err := readBundle(io.NewSectionReader(r, off, size-off))
		if err != nil {
			return nil, fmt.Errorf("the bundle at %d: %w", off, err)
		}
		out = append(out, images...)
		off += (length + 7) &^ 7
	}
}

// readBundle reads one bundle and returns where it ends.
func readBundle(r *io.SectionReader) ([]Image, int64, error) {
	var magic [bundleHeadSize]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil {
		return nil, 0, fmt.Errorf("it is cut short: %w", err)
	}
	switch {
	case bytes.HasPrefix(magic[:], bundleMagic):
		return readEntriesOf(r, r.Size())
	case bytes.HasPrefix(magic[:], compressedBundleMagic):
		return readCompressedBundle(r)
	}
	return nil, 0, errors.New("it has no header")
}

// readEntriesOf reads an uncompressed bundle. It reads r once, with increasing offsets.
func readEntriesOf(r io.ReaderAt, size int64) (images []Image, end int64, err error) {
	entries, end, err := readTable(r, size)
	if err != nil {
		return nil, 0, err
	}
	slices.SortStableFunc(entries, func(a, b bundleEntry) int { return cmp.Compare(a.offset, b.offset) })
	for _, e := range entries {
		end = max(end, e.offset+e.size)
		img, ok, err := codeAt(r, e)
		if err != nil {
			return nil, 0, err
		}
		if ok {
			images = append(images, img)
		}
	}
	return images, end, nil
}

// readTable returns the entries of a bundle and the end of their table. All of them lie within the
// bundle.
func readTable(r io.ReaderAt, size int64) (entries []bundleEntry, at int64, err error) {
	var head [bundleHeadSize]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, 0, err
	}
	count := binary.LittleEndian.Uint64(head[len(bundleMagic):])
	if count > maxBundleCount {
		return nil, 0, fmt.Errorf("%d entries are more than any real one has", count)
	}
	at = bundleHeadSize
	for range count {
		var h [bundleIDAt]byte
		if _, err := r.ReadAt(h[:], at); err != nil {
			return nil, 0, fmt.Errorf("entry at %d: %w", at, err)
		}
		offset, length := binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])
		n := binary.LittleEndian.Uint64(h[16:])
		if offset > uint64(size) || length > uint64(size)-offset || n > maxBundleID {
			return nil, 0, fmt.Errorf("the entry at %d has impossible sizes", at)
		}
		id := make([]byte, n)
		if _, err := r.ReadAt(id, at+bundleIDAt); err != nil {
			return nil, 0, fmt.Errorf("entry at %d: %w", at, err)
		}
		entries = append(entries, bundleEntry{string(id), int64(offset), int64(length)})
		at += bundleIDAt + int64(n)
	}
	return entries, at, nil
}

// BundleEntry is an entry of a bundle with its bytes.
type BundleEntry struct {
	ID    string
	Bytes []byte
}

// Bundled returns the entries of an uncompressed bundle, in the order of its table.
func Bundled(file []byte) ([]BundleEntry, error) {
	entries, _, err := readTable(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	var out []BundleEntry
	for _, e := range entries {
		out = append(out, BundleEntry{e.id, file[e.offset:][:e.size]})
	}
	return out, nil
}

// Magic numbers of AMD code.
var (
	bitcodeMagic = []byte("BC\xc0\xde")
	spirvMagic   = []byte{0x03, 0x02, 0x23, 0x07}
)

// codeAt describes the code of an entry. ok is false if it is not HIP code for an AMD processor.
func codeAt(r io.ReaderAt, e bundleEntry) (img Image, ok bool, err error) {
	name, feature, ok := targetOf(e.id)
	if !ok || e.size < 4 {
		return Image{}, false, nil
	}
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], e.offset); err != nil {
		return Image{}, false, fmt.Errorf("code of %s: %w", e.id, err)
	}
	img = Image{Image: gencode.Image{Kind: gencode.GFX, Name: name, Feature: feature}, Size: e.size}
	switch {
	case bytes.Equal(magic[:], bitcodeMagic):
		img.Kind = gencode.Bitcode
	case name == gencode.SPIRVTarget && bytes.Equal(magic[:], spirvMagic):
		img.Kind = gencode.SPIRV
	case string(magic[:]) != "\x7fELF":
		return Image{}, false, nil
	}
	return img, true, nil
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
