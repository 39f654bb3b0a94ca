// Package fatbin finds device code in files: objects, archives, shared libraries, programs and bare
// fatbins. It reads bytes and knows nothing of toolkits; it never trusts a size that a file states.
package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Kind of file.
type Kind int

const (
	Object Kind = iota
	Archive
	Shared
	Executable
	Fatbin // bare
	Cubin
)

func (k Kind) String() string {
	return [...]string{"object", "archive", "shared library", "executable", "fatbin", "cubin"}[k]
}

// File is what was found.
type File struct {
	Kind    Kind
	Members []Member // with device code, in order; one, unless it is an archive
}

// Member is an object with device code.
type Member struct {
	Name        string  `json:"name"`
	Relocatable bool    `json:"relocatable"` // has __nv_relfatbin: takes part in a device link
	Images      []Image `json:"images"`
}

// Image is one piece of device code.
type Image struct {
	gencode.Image
	Size    int64  // bytes as stored
	Options string // what cicc was told, "" if it is not recorded
}

// Code is the image's architecture as it is written in a manifest: lto_80.
func (i Image) Code() gencode.Code {
	return gencode.Code{Kind: i.Kind, Num: i.Num, Suffix: i.Suffix}
}

// MarshalJSON writes {"code":"sm_80","size":N,"options":"..."}.
func (i Image) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"code":%q,"size":%d,"options":%q}`, i.Code(), i.Size, i.Options), nil
}

// ReadFile reads the named file.
func ReadFile(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("%s is no regular file", name)
	}
	file, err := Read(f, info.Size())
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return file, nil
}

// fatbinMagic starts a fatbin header.
var fatbinMagic = []byte{0x50, 0xed, 0x55, 0xba}

// Read finds the device code in r, which has size bytes. Archives are read member by member.
func Read(r io.ReaderAt, size int64) (File, error) {
	var magic [8]byte
	if n, err := r.ReadAt(magic[:], 0); n < 4 {
		return File{}, fmt.Errorf("too short: %w", err)
	}
	switch {
	case string(magic[:]) == "!<arch>\n":
		return readArchive(r, size)
	case string(magic[:]) == "!<thin>\n":
		return File{}, errors.New("it is a thin archive, which holds names instead of objects; make an ordinary one (ar without T)")
	case bytes.Equal(magic[:4], fatbinMagic):
		images, err := readImages(io.NewSectionReader(r, 0, size), size)
		return File{Kind: Fatbin, Members: []Member{{Images: images}}}, err
	case string(magic[:4]) == "\x7fELF":
		return readELF(r, size)
	}
	return File{}, errors.New("it is no object, archive, library, program or fatbin")
}

// machineCUDA is the ELF machine number of cubins.
const machineCUDA = 190

func readELF(r io.ReaderAt, size int64) (File, error) {
	e, err := elf.NewFile(io.NewSectionReader(r, 0, size))
	if err != nil {
		return File{}, err
	}
	kinds := map[elf.Type]Kind{elf.ET_REL: Object, elf.ET_EXEC: Executable, elf.ET_DYN: Shared}
	f := File{Kind: kinds[e.Type]}
	if e.Type == elf.ET_DYN && e.Section(".interp") != nil {
		f.Kind = Executable
	}
	if e.Machine == machineCUDA {
		f.Kind = Cubin
		return f, nil
	}
	m, err := readSections(e)
	if err != nil {
		return f, err
	}
	if m.Images != nil || m.Relocatable {
		f.Members = []Member{m}
	}
	return f, nil
}

// readSections reads the two sections that nvcc puts device code into: __nv_relfatbin is still to be
// linked, .nv_fatbin is final.
func readSections(e *elf.File) (Member, error) {
	var m Member
	for _, s := range e.Sections {
		if s.Type == elf.SHT_NOBITS || s.Name != "__nv_relfatbin" && s.Name != ".nv_fatbin" {
			continue
		}
		images, err := readImages(s, int64(s.FileSize))
		if err != nil {
			return m, fmt.Errorf("section %s: %w", s.Name, err)
		}
		m.Images = append(m.Images, images...)
		m.Relocatable = m.Relocatable || s.Name == "__nv_relfatbin" && e.Type == elf.ET_REL
	}
	return m, nil
}

// Entry header fields, little endian, found by experiment with 11.8 and 12.4.
const (
	headerSize   = 16
	entryMinSize = 0x40
	kindPTX      = 1
	kindELF      = 2
	kindNVVM     = 8
	flagSpecific = 0x100000 // sm_90a
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
			if allZero(head[:8]) {
				off += 8 // padding between fatbins
				continue
			}
			return nil, fmt.Errorf("no fatbin header at %d", off)
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

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
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
			img.Options = options(r, off, headLen, h[:])
			out = append(out, img)
		}
		off += headLen + payload
	}
	return out, nil
}

func image(h []byte, payload int64) (Image, bool) {
	kinds := map[uint16]gencode.Kind{kindPTX: gencode.PTX, kindELF: gencode.SASS, kindNVVM: gencode.LTO}
	kind, ok := kinds[binary.LittleEndian.Uint16(h)]
	if !ok {
		return Image{}, false
	}
	img := Image{Image: gencode.Image{Kind: kind, Num: int(binary.LittleEndian.Uint32(h[0x1c:]))}, Size: payload}
	if binary.LittleEndian.Uint64(h[0x28:])&flagSpecific != 0 {
		img.Suffix = "a"
	}
	return img, true
}

// options reads the text at the options record: u32 offset and u32 length within the header.
func options(r io.ReaderAt, off, headLen int64, h []byte) string {
	rec := int64(binary.LittleEndian.Uint32(h[0x14:]))
	if rec == 0 || rec+8 > headLen {
		return ""
	}
	head := make([]byte, headLen)
	if _, err := r.ReadAt(head, off); err != nil {
		return ""
	}
	str, n := int64(binary.LittleEndian.Uint32(head[rec:])), int64(binary.LittleEndian.Uint32(head[rec+4:]))
	if str < 0 || n < 0 || str+n > headLen {
		return ""
	}
	return string(bytes.TrimRight(head[str:str+n], "\x00 "))
}
