package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

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

// chooses reports whether a link for code may use img. exact are the kinds of which the fatbin has
// an image for the exact architecture.
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
