package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Content is an image with its decompressed bytes. They are nil where only NVIDIA's tools can read
// them: the LTO-IR of 12.4 and later is scrambled in fatbins.
type Content struct {
	Image
	Bytes []byte
}

const (
	flagScrambled = 0x10000
	maxUnpacked   = 1 << 30 // of one image
)

// Contents returns the images of a bare fatbin with their bytes, in the order of the file.
func Contents(file []byte) ([]Content, error) {
	containers, err := splitContainers(file)
	if err != nil {
		return nil, err
	}
	var out []Content
	for _, c := range containers {
		for _, e := range c.entries {
			images, err := contentsOf(e)
			if err != nil {
				return nil, err
			}
			out = append(out, images...)
		}
	}
	return out, nil
}

// contentsOf returns the images of one entry. An entry that --concat wrote has several, in
// sequence.
func contentsOf(e []byte) (out []Content, err error) {
	head := binary.LittleEndian.Uint32(e[4:])
	images, err := imagesOf(e[:head], int64(len(e))-int64(head))
	if len(images) == 0 {
		return nil, err
	}
	code, err := unpack(e, e[head:])
	if err != nil {
		return nil, fmt.Errorf("the image for %s: %w", images[0].Code(), err)
	}
	if len(images) == 1 {
		return []Content{{images[0], code}}, nil
	}
	for _, img := range images {
		if img.Unpacked > int64(len(code)) {
			return nil, fmt.Errorf("the image for %s: it has impossible sizes", img.Code())
		}
		out = append(out, Content{img, code[:img.Unpacked]})
		code = code[img.Unpacked:]
	}
	return out, nil
}

// maxLZ4Ratio and maxZstdRatio are the largest possible compression ratios: 255 bytes for one of a
// length, a block of 128 KiB for four bytes.
const maxLZ4Ratio, maxZstdRatio = 255, 32 << 10

// unpack decompresses an entry; it returns nil if it is scrambled. A payload is padded to eight
// bytes.
func unpack(head, payload []byte) ([]byte, error) {
	flags := binary.LittleEndian.Uint64(head[0x28:])
	ratio := uint64(maxLZ4Ratio)
	switch {
	case flags&flagScrambled != 0:
		return nil, nil
	case flags&flagPacked == 0:
		return payload, nil
	case flags&flagZstd != 0:
		ratio = maxZstdRatio
	}
	packed, size := uint64(binary.LittleEndian.Uint32(head[0x10:])), binary.LittleEndian.Uint64(head[0x38:])
	if packed > uint64(len(payload)) || size > maxUnpacked || size > ratio*packed {
		return nil, errors.New("it has impossible sizes")
	}
	if flags&flagZstd != 0 {
		return unpackZstd(payload[:packed], int(size))
	}
	return unpackLZ4(payload[:packed], int(size))
}

// unpackZstd allows a stream one block more than the stated size: for sizes below a block, the
// reader otherwise rejects some valid streams.
func unpackZstd(in []byte, size int) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(size)+128<<10))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	out, err := d.DecodeAll(in, make([]byte, 0, size))
	if err == nil && len(out) != size {
		err = errors.New("it has another size than it says")
	}
	if err != nil {
		return nil, fmt.Errorf("unpacking it: %w", err)
	}
	return out, nil
}

var errLZ4 = errors.New("it is no LZ4")

// unpackLZ4 decompresses one LZ4 block: literals alternate with copies of earlier output. A token
// has both lengths, four bits each; a length of 15 continues in the following bytes. The last
// sequence has no copy.
func unpackLZ4(in []byte, size int) ([]byte, error) {
	out := make([]byte, 0, size)
	for len(in) > 0 {
		token := in[0]
		literals, rest, ok := lz4Length(int(token>>4), in[1:])
		if !ok || literals > len(rest) || literals > size-len(out) {
			return nil, errLZ4
		}
		out, in = append(out, rest[:literals]...), rest[literals:]
		if len(in) == 0 {
			break
		}
		if len(in) < 2 {
			return nil, errLZ4
		}
		back := int(binary.LittleEndian.Uint16(in))
		length, rest, ok := lz4Length(int(token&15), in[2:])
		length += 4
		if !ok || back == 0 || back > len(out) || length > size-len(out) {
			return nil, errLZ4
		}
		for range length { // byte by byte: the source may overlap the destination
			out = append(out, out[len(out)-back])
		}
		in = rest
	}
	if len(out) != size {
		return nil, errLZ4
	}
	return out, nil
}

func lz4Length(n int, in []byte) (length int, rest []byte, ok bool) {
	if n < 15 {
		return n, in, true
	}
	for i, b := range in {
		n += int(b)
		if b < 255 {
			return n, in[i+1:], true
		}
	}
	return 0, nil, false
}

var ptxVersionRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\.version\s+([0-9]+)\.([0-9]+)`) })

// VersionOf returns the version of NVIDIA device code. For machine code it is the toolkit, which
// linkers compare with their own; for PTX and LTO-IR it is the version of the language. It is zero
// if the code does not record it.
func VersionOf(kind gencode.Kind, code []byte) (v gencode.Version) {
	switch {
	case kind == gencode.PTX:
		if m := ptxVersionRE().FindSubmatch(code); m != nil {
			v[0], _ = strconv.Atoi(string(m[1]))
			v[1], _ = strconv.Atoi(string(m[2]))
		}
	case kind == gencode.LTO && len(code) >= 8 && bytes.HasPrefix(code, ltoirMagic):
		for i := range v {
			v[i] = int(code[4+i])
		}
	case kind == gencode.SASS:
		if n := releaseOf(code); n > 0 {
			v[0], v[1] = n/10, n%10
		}
	}
	return v
}

// releaseOf returns 135 for a cubin of 13.5. Up to ABI version 7 it is the ELF version. Later it is
// in a note, after a 16-bit word in the description.
func releaseOf(cubin []byte) int {
	e, err := OpenELF(bytes.NewReader(cubin))
	if err != nil || e.Machine != machineCUDA {
		return 0
	}
	if e.ABIVersion < 8 {
		return int(binary.LittleEndian.Uint16(cubin[versionAt:]))
	}
	const nameSize, described = 12, 12 + 12 // three words and the name precede
	if s := e.Section(".note.nv.cuinfo"); s != nil {
		if note, err := s.Data(); err == nil && len(note) >= described+6 && binary.LittleEndian.Uint32(note) == nameSize {
			return int(binary.LittleEndian.Uint16(note[described+4:]))
		}
	}
	return 0
}

// versionsOf returns the newest versions in a section of device code, by kind. It reads one image
// per kind of each fatbin, since one toolkit generated all of them.
func versionsOf(section []byte) map[gencode.Kind]gencode.Version {
	containers, err := splitContainers(section)
	if err != nil {
		return nil // the reader of the images reports it
	}
	newest := map[gencode.Kind]gencode.Version{}
	for _, c := range containers {
		seen := map[gencode.Kind]bool{}
		for _, e := range c.entries {
			kind := gencode.SASS // for --concat
			if img, known := image(e, 0); known {
				kind = img.Kind
			}
			if seen[kind] {
				continue
			}
			seen[kind] = true
			if v := versionOfEntry(e); v.Newer(newest[kind]) {
				newest[kind] = v
			}
		}
	}
	return newest
}

// versionOfEntry returns the version of the first image of an entry. For scrambled LTO-IR only the
// version of the container is known, from the entry's header.
func versionOfEntry(e []byte) gencode.Version {
	const most = 64 << 20 // limit for decompression
	if binary.LittleEndian.Uint64(e[0x28:])&flagPacked != 0 && binary.LittleEndian.Uint64(e[0x38:]) > most {
		return gencode.Version{}
	}
	contents, err := contentsOf(e)
	switch {
	case err != nil || len(contents) == 0:
		return gencode.Version{}
	case contents[0].Bytes == nil:
		return gencode.Version{int(binary.LittleEndian.Uint16(e[0x1a:])), int(binary.LittleEndian.Uint16(e[0x18:]))}
	}
	return VersionOf(contents[0].Kind, contents[0].Bytes)
}
