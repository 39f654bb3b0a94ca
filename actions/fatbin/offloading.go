package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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

// readOffloading describes the OffloadBinaries of a section.
func readOffloading(data []byte) (out []Image, err error) {
	total := uint64(0)
	for off := 0; ; {
		if off = skipZeros(data, off); off >= len(data) {
			return out, nil
		}
		b := offloadBinary{bytes: data[off:]}
		entries, count, err := b.table()
		if err != nil {
			return nil, fmt.Errorf("the offload binary at %d: %w", off, err)
		}
		if total += count; total > maxOffloadTotal {
			return nil, fmt.Errorf("%d entries are more than any real section has", total)
		}
		for ; count > 0; count-- {
			img, ok, err := b.entry(entries)
			if err != nil {
				return nil, fmt.Errorf("the offload binary at %d: %w", off, err)
			}
			if ok {
				out = append(out, img)
			}
			entries = entries[offloadEntrySize:]
		}
		off += len(b.bytes)
	}
}

type offloadBinary struct {
	bytes   []byte
	version uint32
}

// table reads the header of a binary, and cuts bytes after the binary off. It returns the entries
// and their number.
func (b *offloadBinary) table() (entries []byte, count uint64, err error) {
	if len(b.bytes) < offloadHeadSize {
		return nil, 0, errors.New("it is cut short")
	}
	le, h, size := binary.LittleEndian, b.bytes, uint64(len(b.bytes))
	b.version = le.Uint32(h[4:])
	stated, at := le.Uint64(h[8:]), le.Uint64(h[16:])
	count = 1
	if b.version == 2 {
		count = le.Uint64(h[24:])
	}
	switch {
	case !bytes.HasPrefix(h, offloadMagic):
		return nil, 0, errors.New("it has no header")
	case b.version != 1 && b.version != 2:
		return nil, 0, fmt.Errorf("it has version %d, which is not known", b.version)
	case stated < offloadHeadSize || stated > size:
		return nil, 0, errors.New("it is longer than its section")
	case count > maxOffloadCount || at > stated || count*offloadEntrySize > stated-at:
		return nil, 0, errors.New("its entries lie outside of it")
	}
	b.bytes = h[:stated]
	return b.bytes[at:], count, nil
}

// entry describes an image. ok is false if it is neither AMD's nor NVIDIA's, or is for OpenMP.
func (b *offloadBinary) entry(h []byte) (img Image, ok bool, err error) {
	le, all := binary.LittleEndian, uint64(len(b.bytes))
	image, size := le.Uint64(h[24:]), le.Uint64(h[32:])
	if image > all || size > all-image {
		return Image{}, false, errors.New("an image lies outside of it")
	}
	words, err := b.strings(le.Uint64(h[8:]), le.Uint64(h[16:]))
	if err != nil || size < 4 || le.Uint16(h[2:]) == offloadOpenMP {
		return Image{}, false, err
	}
	img = Image{Size: int64(size)}
	bitcode := bytes.HasPrefix(b.bytes[image:], bitcodeMagic)
	img.Image, ok = offloadImage(words, le.Uint16(h), bitcode)
	return img, ok, nil
}

// strings returns the keys and values of an entry.
func (b *offloadBinary) strings(at, count uint64) (map[string]string, error) {
	size, all := uint64(16), uint64(len(b.bytes))
	if b.version == 2 {
		size = 24
	}
	if count > maxOffloadWords || at > all || count*size > all-at {
		return nil, errors.New("its strings lie outside of it")
	}
	words, le := map[string]string{}, binary.LittleEndian
	for pair := b.bytes[at:]; count > 0; count, pair = count-1, pair[size:] {
		words[b.text(le.Uint64(pair))] = b.text(le.Uint64(pair[8:]))
	}
	return words, nil
}

// text returns the zero-terminated text at an offset, or "" if it is not terminated nearby.
func (b *offloadBinary) text(at uint64) string {
	if at >= uint64(len(b.bytes)) {
		return ""
	}
	t := b.bytes[at:]
	if end := bytes.IndexByte(t[:min(maxOffloadText, len(t))], 0); end >= 0 {
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

// EmptyOffload returns empty HIP code for architectures in the form of clang's new offload driver:
// one OffloadBinary of version 1 after another. A dry run of clang-linker-wrapper accepts it as
// input.
func EmptyOffload(archs []string) []byte {
	var out []byte
	for _, arch := range archs {
		out = append(out, emptyOffload(arch)...)
	}
	return out
}

// Values in the entry of an image.
const (
	imageBitcode = 2
	offloadHIP   = 4
)

func emptyOffload(arch string) []byte {
	words := []string{"arch", arch, "triple", "amdgcn-amd-amdhsa"}
	// places is where the string offsets are, 16 bytes for each key and its value.
	const places = offloadHeadSize + offloadEntrySize
	text := places + 8*len(words)
	size := text + len(strings.Join(words, "\x00")) + 1
	size += -size & 7
	b := make([]byte, size)
	copy(b, offloadMagic)
	le := binary.LittleEndian
	for at, value := range map[int]int{4: 1, 8: size, 16: offloadHeadSize, 24: offloadEntrySize,
		offloadHeadSize: imageBitcode | offloadHIP<<16, offloadHeadSize + 8: places, offloadHeadSize + 16: len(words) / 2, offloadHeadSize + 24: size} {
		le.PutUint32(b[at:], uint32(value)) // the upper halves are 0
	}
	for i, w := range words {
		le.PutUint64(b[places+8*i:], uint64(text))
		text += copy(b[text:], w) + 1
	}
	return b
}
