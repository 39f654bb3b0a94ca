package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Entry header fields, little endian, found by experiment with 11.8, 12.4 and 13.0 to 13.5.
const (
	headerSize   = 16
	entryMinSize = 0x40
	kindPTX      = 1
	kindELF      = 2
	kindNVVM     = 8
	kindConcat   = 0x100  // 13.4 and newer with --concat
	flagLZ4      = 0x2000 // up to 12.x, and 13.x with --compress-mode=speed
	flagZstd     = 0x8000 // 13.x otherwise
	flagPacked   = flagLZ4 | flagZstd
	flagSpecific = 0x100000 // sm_90a
	flagFamily   = 0x200000 // sm_100f
)

// readImages describes the images of a sequence of fatbins.
func readImages(data []byte) ([]Image, error) {
	containers, err := splitContainers(data)
	if err != nil {
		return nil, err
	}
	var out []Image
	for _, c := range containers {
		for _, e := range c.entries {
			head := int64(binary.LittleEndian.Uint32(e[4:]))
			images, err := imagesOf(e[:head], int64(len(e))-head)
			if err != nil {
				return nil, fmt.Errorf("the fatbin at %d: %w", c.at, err)
			}
			out = append(out, images...)
		}
	}
	return out, nil
}

// skipZeros returns the offset after the padding between pieces, in steps of 8 bytes, or at the
// end.
func skipZeros(data []byte, off int) int {
	rest := bytes.TrimLeft(data[min(off, len(data)):], "\x00")
	if len(rest) == 0 {
		return len(data)
	}
	return off + (len(data)-len(rest)-off)&^7
}

// imagesOf returns the images of an entry with its full header, or none for an unknown kind.
func imagesOf(head []byte, payload int64) (images []Image, err error) {
	img, ok := image(head, payload)
	switch {
	case ok:
		// Machine code of sm_100 and later has a record like .nv.compat there.
		if img.Kind != gencode.SASS {
			img.Options = text(head, pair(head, head[0x14:]))
		}
		img.Source = text(head, head[0x20:0x28])
		return []Image{img}, nil
	case binary.LittleEndian.Uint16(head) != kindConcat:
		return nil, nil
	}
	list, err := records(head)
	for _, r := range list {
		img, _ := image(r, 0)
		img.Unpacked, img.Source = recordSize(r), text(r, r[0x20:0x28])
		images = append(images, img)
	}
	return images, err
}

// records returns the records of an entry with machine code of several architectures, compressed
// together. A record is the header of an entry, with one difference. The field of its own size has
// the offset of its code in the decompressed data. No field has the length of a record, but a
// record's code begins where the code of the previous one ends.
func records(head []byte) (list [][]byte, err error) {
	count := pair(head, head[0x14:])
	if count == nil {
		return nil, errRecords
	}
	place, rest := int64(0), head[binary.LittleEndian.Uint32(head[0x14:])+8:]
	for ; uint32(len(list)) < binary.LittleEndian.Uint32(count); rest = rest[8:] {
		if len(rest) < entryMinSize {
			return nil, errRecords
		}
		size := recordSize(rest)
		if binary.LittleEndian.Uint16(rest) == kindELF && int64(binary.LittleEndian.Uint32(rest[4:])) == place && 0 < size && size <= maxUnpacked {
			list, place, rest = append(list, rest), place+size, rest[entryMinSize-8:]
		}
	}
	return list, nil
}

var errRecords = errors.New("it holds code of several architectures in a form that is not known")

func recordSize(record []byte) int64 { return int64(binary.LittleEndian.Uint64(record[8:])) }

func image(h []byte, payload int64) (Image, bool) {
	img := Image{Image: gencode.Image{Num: int(binary.LittleEndian.Uint32(h[0x1c:]))}, Size: payload}
	switch binary.LittleEndian.Uint16(h) {
	case kindPTX:
		img.Kind = gencode.PTX
	case kindELF:
		img.Kind = gencode.SASS
	case kindNVVM:
		img.Kind = gencode.LTO
	default:
		return Image{}, false
	}
	flags := binary.LittleEndian.Uint64(h[0x28:])
	switch {
	case flags&flagSpecific != 0:
		img.Suffix = "a"
	case flags&flagFamily != 0:
		img.Suffix = "f"
	}
	if flags&flagPacked != 0 {
		img.Unpacked = max(0, int64(binary.LittleEndian.Uint64(h[0x38:])))
	}
	return img, true
}

// pair follows a reference within an entry's header to two words, the offset and the length of a
// text. It returns nil if the reference is invalid.
func pair(head, ref []byte) []byte {
	at := int64(binary.LittleEndian.Uint32(ref))
	if at == 0 || at+8 > int64(len(head)) {
		return nil
	}
	return head[at : at+8]
}

// text returns the text at an offset and length within an entry's header.
func text(head, place []byte) string {
	if place == nil {
		return ""
	}
	at, n := int64(binary.LittleEndian.Uint32(place)), int64(binary.LittleEndian.Uint32(place[4:]))
	if at == 0 || n == 0 || at+n > int64(len(head)) {
		return ""
	}
	return string(bytes.TrimRight(head[at:at+n], "\x00 "))
}

// The head of bare LTO-IR contains pairs of words, a name and a value.
const (
	ltoirPairs     = 0x18 // offset of the first pair
	ltoirArch      = 1    // the architecture times ten
	ltoirSpecific  = 0x20 // 1 for lto_90a (13.x); lto_100f and lto_100 are equal, byte for byte
	ltoirPairsEnd  = 99
	ltoirPairsMost = 64
)

// readLTOIR describes bare LTO-IR from its head.
func readLTOIR(data []byte) (File, error) {
	head := data[:min(len(data), ltoirPairs+4*ltoirPairsMost)]
	img := Image{Image: gencode.Image{Kind: gencode.LTO}, Size: int64(len(data))}
	for pairs := head[min(ltoirPairs, len(head)):]; len(pairs) >= 4; pairs = pairs[4:] {
		switch name, value := binary.LittleEndian.Uint16(pairs), binary.LittleEndian.Uint16(pairs[2:]); {
		case name == ltoirArch:
			img.Num = int(value) / 10
		case name == ltoirSpecific && value == 1:
			img.Suffix = "a"
		case name == ltoirPairsEnd:
			pairs = pairs[:4]
		}
	}
	if img.Num == 0 {
		return File{}, errors.New("the LTO-IR is cut short")
	}
	versions := map[gencode.Kind]gencode.Version{gencode.LTO: VersionOf(gencode.LTO, head)}
	return File{Kind: LTOIR, Members: []Member{{Images: []Image{img}, Relocatable: true, Versions: versions}}}, nil
}

// isLinkable reports whether a bare fatbin is for a link, and not loaded as it is. It then holds
// LTO-IR, or machine code of nvcc -dc, which is an ELF object while final code is a program. PTX
// alone may be either, and nvlink accepts it.
func isLinkable(data []byte, images []Image) bool {
	has := func(k gencode.Kind) bool {
		return slices.ContainsFunc(images, func(i Image) bool { return i.Kind == k })
	}
	if has(gencode.LTO) || !has(gencode.SASS) {
		return len(images) > 0
	}
	contents, err := Contents(data)
	return err == nil && slices.ContainsFunc(contents, func(c Content) bool {
		return c.Kind == gencode.SASS && len(c.Bytes) > 18 && elf.Type(binary.LittleEndian.Uint16(c.Bytes[16:])) == elf.ET_REL
	})
}

// container is one fatbin of a section, which may hold several: ld -r and some build systems join
// objects. Its entries are slices of the section's bytes.
type container struct {
	at      uint64 // its offset in the section
	head    []byte
	entries [][]byte // header and payload of each
}

// splitContainers splits a section's content into fatbins; only padding may remain. It is stricter
// than readImages, which only describes: a wrong split would be written to an object.
func splitContainers(content []byte) ([]container, error) {
	var out []container
	for off := 0; off < len(content); {
		rest := content[off:]
		if padding := len(rest) - len(bytes.TrimLeft(rest, "\x00")); padding > 0 {
			if padding < len(rest) && (off+padding)%8 != 0 {
				return nil, fmt.Errorf("no fatbin header at %d", off)
			}
			off += padding
			continue
		}
		if len(rest) < headerSize || !bytes.Equal(rest[:4], fatbinMagic) || off%8 != 0 {
			return nil, fmt.Errorf("no fatbin header at %d", off)
		}
		head := uint64(binary.LittleEndian.Uint16(rest[6:]))
		size := binary.LittleEndian.Uint64(rest[8:])
		if head < headerSize || head > uint64(len(rest)) || size > uint64(len(rest))-head {
			return nil, fmt.Errorf("the fatbin at %d is longer than its section", off)
		}
		entries, err := splitEntries(rest[head : head+size])
		if err != nil {
			return nil, fmt.Errorf("the fatbin at %d: %w", off, err)
		}
		out = append(out, container{at: uint64(off), head: rest[:head], entries: entries})
		off += int(head + size)
	}
	return out, nil
}

func splitEntries(body []byte) ([][]byte, error) {
	var out [][]byte
	for len(body) > 0 {
		if len(body) < entryMinSize {
			return nil, errors.New("an entry is cut short")
		}
		head := uint64(binary.LittleEndian.Uint32(body[4:]))
		payload := binary.LittleEndian.Uint64(body[8:])
		if head < entryMinSize || head > uint64(len(body)) || payload > uint64(len(body))-head {
			return nil, errors.New("an entry has impossible sizes")
		}
		out = append(out, body[:head+payload])
		body = body[head+payload:]
	}
	return out, nil
}

// forLink keeps the images that a device link for code may choose among. The rules were measured
// with nvlink 11.8 and 12.4. With -dlto nvlink prefers LTO-IR of an older architecture to machine
// code of the exact one; without -dlto it is the other way round. So an image of the exact
// architecture replaces all others of its kind, and machine code also replaces PTX. If a kind has
// no exact image, its older ones stay. If no image would stay, all do, and nvlink reports the
// error. Entries of unknown kinds always stay.
func (c container) forLink(code gencode.Code) container {
	exact := map[gencode.Kind]bool{}
	for _, e := range c.entries {
		if img, known := image(e, 0); known && img.Num == code.Num && img.Suffix == code.Suffix {
			exact[img.Kind] = true
		}
	}
	chosen := false
	var kept [][]byte
	for _, e := range c.entries {
		img, known := image(e, 0)
		wanted := known && chooses(img.Image, code, exact)
		if wanted || !known {
			kept = append(kept, e)
		}
		chosen = chosen || wanted
	}
	if chosen {
		c.entries = kept
	}
	return c
}

// chooses reports whether a link for code may use img. exact holds the kinds of images that the
// fatbin has for exactly this architecture.
func chooses(img gencode.Image, code gencode.Code, exact map[gencode.Kind]bool) bool {
	switch {
	case img.Kind == gencode.PTX && exact[gencode.SASS]:
		return img.Num == code.Num && img.Suffix == code.Suffix
	case !exact[img.Kind]:
		return img.Num <= code.Num
	case img.Kind == gencode.PTX:
		return img.Num == code.Num // nvlink 12.4 uses compute_90a in a link for sm_90, and fails
	}
	return img.Num == code.Num && img.Suffix == code.Suffix
}

// appendTo appends the container at the next multiple of 8.
func (c container) appendTo(out []byte) []byte {
	out = append(out, make([]byte, -len(out)&7)...)
	start := len(out)
	out = append(out, c.head...)
	for _, e := range c.entries {
		out = append(out, e...)
	}
	binary.LittleEndian.PutUint64(out[start+8:], uint64(len(out)-start-len(c.head)))
	return out
}
