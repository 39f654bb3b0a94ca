package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
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
	flagLZ4      = 0x2000 // up to 12.x, and 13.x with --compress-mode=speed
	flagZstd     = 0x8000 // 13.x otherwise
	flagPacked   = flagLZ4 | flagZstd
	flagSpecific = 0x100000 // sm_90a
	flagFamily   = 0x200000 // sm_100f
	maxHeader    = 64 << 10
)

// readImages walks a sequence of fatbins.
func readImages(r io.ReaderAt, size int64) ([]Image, error) {
	var out []Image
	var head [headerSize]byte
	for off := int64(0); off+headerSize <= size; {
		if _, err := r.ReadAt(head[:], off); err != nil {
			return nil, fmt.Errorf("fatbin header at %d: %w", off, err)
		}
		if !bytes.Equal(head[:4], fatbinMagic) {
			next := skipZeros(r, off, size)
			if next == off {
				return nil, fmt.Errorf("no fatbin header at %d", off)
			}
			off = next
			continue
		}
		start := off + int64(binary.LittleEndian.Uint16(head[6:]))
		length := int64(binary.LittleEndian.Uint64(head[8:]))
		if length < 0 || start < off+headerSize || length > size-start {
			return nil, fmt.Errorf("the fatbin at %d is longer than its file", off)
		}
		images, err := readEntries(r, start, start+length)
		if err != nil {
			return nil, err
		}
		out = append(out, images...)
		off = (start + length + 7) &^ 7
	}
	return out, nil
}

// skipZeros passes over the padding between fatbins, in steps of 8 bytes, and at the end.
func skipZeros(r io.ReaderAt, off, size int64) int64 {
	var block [4096]byte
	for off < size {
		n, _ := r.ReadAt(block[:min(int64(len(block)), size-off)], off)
		zeros := n - len(bytes.TrimLeft(block[:n], "\x00"))
		if zeros == n && off+int64(n) == size {
			return size
		}
		off += int64(zeros) &^ 7
		if n < len(block) || zeros < n {
			break
		}
	}
	return off
}

func readEntries(r io.ReaderAt, off, end int64) ([]Image, error) {
	var out []Image
	for off+entryMinSize <= end {
		var h [entryMinSize]byte
		if _, err := r.ReadAt(h[:], off); err != nil {
			return nil, fmt.Errorf("fatbin entry at %d: %w", off, err)
		}
		headLen := int64(binary.LittleEndian.Uint32(h[4:]))
		payload := int64(binary.LittleEndian.Uint64(h[8:]))
		if headLen < entryMinSize || headLen > maxHeader || payload < 0 || payload > end-off || off+headLen+payload > end {
			return nil, fmt.Errorf("the fatbin entry at %d has impossible sizes", off)
		}
		if img, ok := image(h[:], payload); ok {
			if img.Kind != gencode.SASS { // machine code of sm_100 and later has a record like .nv.compat in that place
				img.Options = text(r, off, headLen, pair(r, off, headLen, h[0x14:]))
			}
			img.Source = text(r, off, headLen, h[0x20:0x28])
			out = append(out, img)
		}
		off += headLen + payload
	}
	return out, nil
}

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

// pair follows a reference within an entry's header to two words, the place and the length of a
// text; nil if it leads nowhere.
func pair(r io.ReaderAt, off, headLen int64, ref []byte) []byte {
	at := int64(binary.LittleEndian.Uint32(ref))
	if at == 0 || at+8 > headLen {
		return nil
	}
	words := make([]byte, 8)
	if _, err := r.ReadAt(words, off+at); err != nil {
		return nil
	}
	return words
}

// text reads the text whose place and length within an entry's header are given.
func text(r io.ReaderAt, off, headLen int64, place []byte) string {
	if place == nil {
		return ""
	}
	at, n := int64(binary.LittleEndian.Uint32(place)), int64(binary.LittleEndian.Uint32(place[4:]))
	if at == 0 || n == 0 || at+n > headLen {
		return ""
	}
	b := make([]byte, n) // at most headLen, which is at most maxHeader
	if _, err := r.ReadAt(b, off+at); err != nil {
		return ""
	}
	return string(bytes.TrimRight(b, "\x00 "))
}

// readLTOIR reads the head of bare LTO-IR: the architecture times ten is at 0x1a. Whether it is for
// one chip only (lto_90a) is not in there.
func readLTOIR(r io.ReaderAt, size int64) (File, error) {
	var num [2]byte
	if _, err := r.ReadAt(num[:], 0x1a); err != nil {
		return File{}, fmt.Errorf("the LTO-IR is cut short: %w", err)
	}
	img := Image{Image: gencode.Image{Kind: gencode.LTO, Num: int(binary.LittleEndian.Uint16(num[:])) / 10}, Size: size}
	return File{Kind: LTOIR, Members: []Member{{Images: []Image{img}, Relocatable: true}}}, nil
}

// isLinkable tells a bare fatbin for a link from one that is loaded as it is: it holds LTO-IR, or machine code that nvcc -dc made, which
// is an ELF object where final code is a program. PTX alone may be either, and nvlink takes it.
func isLinkable(r io.ReaderAt, size int64, images []Image) bool {
	has := func(k gencode.Kind) bool {
		return slices.ContainsFunc(images, func(i Image) bool { return i.Kind == k })
	}
	if has(gencode.LTO) || !has(gencode.SASS) {
		return len(images) > 0
	}
	file, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err != nil {
		return false
	}
	contents, err := Contents(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(contents, func(c Content) bool {
		return c.Kind == gencode.SASS && len(c.Bytes) > 18 && elf.Type(binary.LittleEndian.Uint16(c.Bytes[16:])) == elf.ET_REL
	})
}
