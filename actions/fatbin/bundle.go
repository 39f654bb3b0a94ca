package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
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
