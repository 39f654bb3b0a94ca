package fatbin

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

var ptxVersionRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\.version\s+([0-9]+)\.([0-9]+)`) })

// VersionOf says what made device code of NVIDIA's: the toolkit that linkers compare with their own
// is in machine code, and the versions of the languages are in PTX and LTO-IR. It is zero where the
// code does not tell.
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

// releaseOf is 135 for a cubin of 13.5: up to ABI version 7 it is the ELF version, then it is in a
// note, whose words are two of 16 bits, the release, and one more.
func releaseOf(cubin []byte) int {
	e, err := OpenELF(bytes.NewReader(cubin))
	if err != nil || e.Machine != machineCUDA {
		return 0
	}
	if e.ABIVersion < 8 {
		return int(binary.LittleEndian.Uint16(cubin[versionAt:]))
	}
	const nameSize, described = 12, 12 + 12 // three words and the name come before
	if s := e.Section(".note.nv.cuinfo"); s != nil {
		if note, err := s.Data(); err == nil && len(note) >= described+6 && binary.LittleEndian.Uint32(note) == nameSize {
			return int(binary.LittleEndian.Uint16(note[described+4:]))
		}
	}
	return 0
}

func readVersions(r io.Reader) (map[gencode.Kind]gencode.Version, error) {
	section, err := io.ReadAll(r)
	return versionsOf(section), err
}

// versionsOf are the newest versions in a section of device code, by kind. Of each fatbin one image
// of a kind is looked into: one toolkit has made all of them.
func versionsOf(section []byte) map[gencode.Kind]gencode.Version {
	containers, err := splitContainers(section)
	if err != nil {
		return nil // who reads the images says it
	}
	newest := map[gencode.Kind]gencode.Version{}
	for _, c := range containers {
		seen := map[gencode.Kind]bool{}
		for _, e := range c.entries {
			kind := gencode.SASS // of --concat
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

// versionOfEntry is the version of the first image of an entry. That of LTO-IR which is scrambled
// is half known: the header of the entry has it for the container.
func versionOfEntry(e []byte) gencode.Version {
	const most = 64 << 20 // to be unpacked for a number
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
