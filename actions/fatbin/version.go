package fatbin

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strconv"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

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
