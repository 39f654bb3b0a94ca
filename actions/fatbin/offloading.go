package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// The section .llvm.offloading of an object holds what clang's new offload driver leaves to
// clang-linker-wrapper: OffloadBinaries, one after another. Each is, little endian,
//
//	0   10 ff 10 ad     magic
//	4   u32             version: 1 (clang 15 to 22), 2 (23)
//	8   u64             size of this binary, a multiple of 8
//	16  u64             offset of the entries
//	24  u64             version 1: size of the one entry; version 2: number of entries
//
// An entry has the kind of the image and of the offloading (u16 each) and u32 flags. Then follow
// offset and number of its strings, and offset and size of its image. A string is the offset of the
// key and of the value, in version 2 also the length of the value. Offsets are from the start of
// the binary; keys and values end with a zero byte.
const (
	offloadingSection = ".llvm.offloading"

	offloadHeadSize  = 32
	offloadEntrySize = 40
	maxOffloadCount  = 4 << 10  // of entries; real ones have one for each architecture
	maxOffloadTotal  = 64 << 10 // of entries in a section: ld -r joins thousands of objects
	maxOffloadWords  = 16       // of an entry; clang writes three or four
	maxOffloadText   = 256      // of a key or a value
)

// Values in entries of OffloadBinaries.
const (
	imagePTX      = 5
	offloadOpenMP = 1
)

var offloadMagic = []byte{0x10, 0xff, 0x10, 0xad}

// readOffloading reads the OffloadBinaries of a section.
func readOffloading(r io.ReaderAt, size int64) ([]Image, error) {
	var out []Image
	total := uint64(0)
	for off := int64(0); ; {
		off = skipZeros(r, off, size)
		if off >= size {
			return out, nil
		}
		images, count, length, err := readOffloadBinary(r, off, size-off)
		if err != nil {
			return nil, fmt.Errorf("the offload binary at %d: %w", off, err)
		}
		if total += count; total > maxOffloadTotal {
			return nil, fmt.Errorf("%d entries are more than any real section has", total)
		}
		out = append(out, images...)
		off += length
	}
}

// readOffloadBinary reads one binary of at most size bytes. It returns the numbers of its entries
// and bytes.
func readOffloadBinary(r io.ReaderAt, off, size int64) (images []Image, count uint64, length int64, err error) {
	var h [offloadHeadSize]byte
	if _, err := r.ReadAt(h[:], off); err != nil {
		return nil, 0, 0, fmt.Errorf("it is cut short: %w", err)
	}
	le := binary.LittleEndian
	version, stated, entries := le.Uint32(h[4:]), le.Uint64(h[8:]), le.Uint64(h[16:])
	count = 1
	if version == 2 {
		count = le.Uint64(h[24:])
	}
	switch {
	case !bytes.Equal(h[:4], offloadMagic):
		return nil, 0, 0, errors.New("it has no header")
	case version != 1 && version != 2:
		return nil, 0, 0, fmt.Errorf("it has version %d, which is not known", version)
	case stated < offloadHeadSize || stated > uint64(size):
		return nil, 0, 0, errors.New("it is longer than its section")
	case count > maxOffloadCount || entries > stated || count*offloadEntrySize > stated-entries:
		return nil, 0, 0, errors.New("its entries lie outside of it")
	}
	b := offloadBinary{io.NewSectionReader(r, off, int64(stated)), version}
	for i := range int64(count) {
		img, ok, err := b.entry(int64(entries) + i*offloadEntrySize)
		if err != nil {
			return nil, 0, 0, err
		}
		if ok {
			images = append(images, img)
		}
	}
	return images, count, int64(stated), nil
}

type offloadBinary struct {
	*io.SectionReader
	version uint32
}

// entry describes an image. ok is false if it is neither AMD's nor NVIDIA's, or is for OpenMP.
func (b offloadBinary) entry(at int64) (img Image, ok bool, err error) {
	var h [offloadEntrySize]byte
	if _, err := b.ReadAt(h[:], at); err != nil {
		return Image{}, false, err
	}
	le := binary.LittleEndian
	image, size := le.Uint64(h[24:]), le.Uint64(h[32:])
	if image > uint64(b.Size()) || size > uint64(b.Size())-image {
		return Image{}, false, errors.New("an image lies outside of it")
	}
	words, err := b.strings(le.Uint64(h[8:]), le.Uint64(h[16:]))
	if err != nil || size < 4 || le.Uint16(h[2:]) == offloadOpenMP {
		return Image{}, false, err
	}
	var magic [4]byte
	if _, err := b.ReadAt(magic[:], int64(image)); err != nil {
		return Image{}, false, err
	}
	img = Image{Size: int64(size)}
	img.Image, ok = offloadImage(words, le.Uint16(h[:]), bytes.Equal(magic[:], bitcodeMagic))
	return img, ok, nil
}

// strings returns the keys and values of an entry.
func (b offloadBinary) strings(at, count uint64) (map[string]string, error) {
	size := uint64(16)
	if b.version == 2 {
		size = 24
	}
	if count > maxOffloadWords || at > uint64(b.Size()) || count*size > uint64(b.Size())-at {
		return nil, errors.New("its strings lie outside of it")
	}
	words := map[string]string{}
	for i := range count {
		var pair [16]byte
		if _, err := b.ReadAt(pair[:], int64(at+i*size)); err != nil {
			return nil, err
		}
		key, value := b.text(binary.LittleEndian.Uint64(pair[:])), b.text(binary.LittleEndian.Uint64(pair[8:]))
		words[key] = value
	}
	return words, nil
}

// text returns the zero-terminated text at an offset, or "" if it is not terminated nearby.
func (b offloadBinary) text(at uint64) string {
	if at >= uint64(b.Size()) {
		return ""
	}
	t := make([]byte, min(maxOffloadText, b.Size()-int64(at)))
	n, _ := b.ReadAt(t, int64(at))
	if end := bytes.IndexByte(t[:n], 0); end >= 0 {
		return string(t[:end])
	}
	return ""
}

// offloadImage returns the image that the strings of an entry describe. Clang's bitcode for NVIDIA
// is not LTO-IR: it is named by the architecture.
func offloadImage(words map[string]string, kind uint16, bitcode bool) (gencode.Image, bool) {
	triple, arch := words["triple"], words["arch"]
	if strings.HasPrefix(triple, "amdgcn-") || strings.HasPrefix(triple, "spirv64-amd-") {
		if !strings.Contains(arch, ":") {
			arch += settings(words["feature"])
		}
		vendor, _, _ := strings.Cut(triple, "-")
		name, feature, ok := targetOf(vendor + "-amd-amdhsa--" + arch)
		kind := gencode.GFX
		switch {
		case bitcode:
			kind = gencode.Bitcode
		case name == gencode.SPIRVTarget:
			kind = gencode.SPIRV
		}
		return gencode.Image{Kind: kind, Name: name, Feature: feature}, ok
	}
	c, err := gencode.Parse(arch)
	switch {
	case !strings.HasPrefix(triple, "nvptx64-") || err != nil || c.Kind != gencode.SASS:
		return gencode.Image{}, false
	case bitcode:
		return gencode.Image{Kind: gencode.Bitcode, Name: arch}, true
	case kind == imagePTX:
		return gencode.Image(c.As(gencode.PTX)), true
	}
	return gencode.Image(c), true
}

// settings converts features to a target ID's form: ":sramecc+:xnack-" for
// "-xnack,+sramecc,-xnack". Clang 17 writes them only as features, 23 after the architecture as
// well.
func settings(features string) string {
	var s []string
	for _, f := range strings.Split(features, ",") {
		if name := strings.TrimLeft(f, "+-"); len(name) == len(f)-1 && (name == "xnack" || name == "sramecc") {
			s = append(s, ":"+name+f[:1])
		}
	}
	slices.Sort(s)
	return strings.Join(slices.Compact(s), "")
}

// Lacks returns the codes that a file does not have in any form: their code was lost in a link, or
// never generated.
func (f File) Lacks(codes []gencode.Code) []gencode.Code {
	return slices.DeleteFunc(slices.Clone(codes), func(c gencode.Code) bool {
		return slices.ContainsFunc(f.Members, func(m Member) bool { return m.Has(c) })
	})
}

// Has reports whether m has code for c. AMD code must be for the exact target: gfx90a:xnack- does
// not count as gfx90a.
func (m Member) Has(c gencode.Code) bool {
	return slices.ContainsFunc(m.Images, func(i Image) bool {
		return i.Code().String() == c.String() || gencode.SameTarget(i.Code(), c)
	})
}
