package fatbin

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// machineCUDA is the ELF machine number of cubins.
const machineCUDA = 190

// OpenELF reads the headers of an object, library, program or cubin.
func OpenELF(r io.ReaderAt) (*elf.File, error) { return elf.NewFile(currentELF{r}) }

// currentELF sets e_version to the value that debug/elf requires. In cubins e_version is the
// version of the toolkit, 118 for 11.8.
type currentELF struct{ io.ReaderAt }

const versionAt = 20

// ReadAt implements io.ReaderAt.
func (r currentELF) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, off)
	for i, v := range [4]byte{1} {
		if at := int64(versionAt+i) - off; at >= 0 && at < int64(n) {
			b[at] = v
		}
	}
	return n, err
}

func readELF(data []byte) (File, error) {
	e, err := OpenELF(bytes.NewReader(data))
	if err != nil {
		return File{}, err
	}
	kinds := map[elf.Type]Kind{elf.ET_REL: Object, elf.ET_EXEC: Executable, elf.ET_DYN: Shared}
	f := File{Kind: kinds[e.Type]}
	if e.Type == elf.ET_DYN && e.Section(".interp") != nil {
		f.Kind = Executable
	}
	switch e.Machine {
	case machineCUDA:
		f.Kind = Cubin
		return f, nil
	case machineAMDGPU:
		return readCodeObject(e, data)
	}
	m, err := readSections(e, data)
	if err != nil {
		return f, err
	}
	if m.Images != nil || m.Relocatable {
		f.Members = []Member{m}
	}
	return f, nil
}

// readSections reads the sections that compilers write device code to.
func readSections(e *elf.File, data []byte) (Member, error) {
	var m Member
	left := uint64(len(data))
	for _, s := range e.Sections {
		if s.Type == elf.SHT_NOBITS || !hasDeviceCode(s.Name) {
			continue
		}
		content, err := takeSection(s, data, &left)
		if err != nil {
			return m, err
		}
		images, err := sectionImages(s.Name, content)
		if err != nil {
			return m, fmt.Errorf("section %s: %w", s.Name, err)
		}
		m.Images = append(m.Images, images...)
		if s.Name == linkableSection && m.Versions == nil {
			m.Versions = versionsOf(content)
		}
		linkable := s.Name == linkableSection || s.Name == offloadingSection || slices.ContainsFunc(images, func(i Image) bool { return i.Kind == gencode.Bitcode })
		m.Relocatable = m.Relocatable || linkable && e.Type == elf.ET_REL
		m.NewDriver = m.NewDriver || s.Name == offloadingSection && len(images) > 0
	}
	if m.Relocatable && !m.NewDriver && e.Section(linkableSection) == nil {
		var err error
		m.Fatbins, err = wantedFatbins(e)
		return m, err
	}
	return m, nil
}

// wantedFatbins returns the symbols of HIP code that host code refers to and that is not linked
// yet. Up to clang 18 all objects have the same symbol, later each has its own.
func wantedFatbins(e *elf.File) (names []string, err error) {
	list, err := e.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	for _, s := range list {
		if s.Section == elf.SHN_UNDEF && strings.HasPrefix(s.Name, "__hip_fatbin") {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// hasDeviceCode reports whether compilers write device code to a section. Clang writes bitcode to
// one section per target, with the id in its name, and final code to a single section.
func hasDeviceCode(section string) bool {
	return slices.Contains([]string{linkableSection, finalSection, bundleSection, offloadingSection}, section) ||
		strings.HasPrefix(section, string(bundleMagic))
}

// sectionImages describes the device code of a section.
func sectionImages(section string, content []byte) ([]Image, error) {
	switch section {
	case linkableSection, finalSection:
		return readImages(content)
	case bundleSection:
		return readBundles(content)
	case offloadingSection:
		return readOffloading(content)
	}
	if img, ok := codeOf(strings.TrimPrefix(section, string(bundleMagic)), content); ok {
		return []Image{img}, nil
	}
	return nil, nil
}

// takeSection returns the bytes of a section, if they are uncompressed. No bytes are read
// repeatedly: sections may overlap. left is how much of the file may still be read.
func takeSection(s *elf.Section, data []byte, left *uint64) ([]byte, error) {
	switch size := uint64(len(data)); {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		return nil, fmt.Errorf("section %s is compressed as a whole, which no compiler does", s.Name)
	case s.FileSize > *left || s.Offset > size || s.FileSize > size-s.Offset:
		return nil, fmt.Errorf("section %s is longer than its file", s.Name)
	}
	*left -= s.FileSize
	return data[s.Offset:][:s.FileSize], nil
}

// machineAMDGPU is the ELF machine number of AMD's code objects.
const machineAMDGPU = 224

// readCodeObject describes a bare code object. Since version 4 of the format its metadata names the
// target; the name of an older one stays empty.
func readCodeObject(e *elf.File, data []byte) (File, error) {
	img := Image{Image: gencode.Image{Kind: gencode.GFX}, Size: int64(len(data))}
	f := File{Kind: CodeObject}
	left := uint64(len(data))
	for _, s := range e.Sections {
		if s.Type != elf.SHT_NOTE {
			continue
		}
		notes, err := takeSection(s, data, &left)
		if err != nil {
			return f, err
		}
		if name, feature, ok := targetOf(metadataTarget(notes)); ok {
			img.Name, img.Feature = name, feature
		}
	}
	f.Members = []Member{{Images: []Image{img}}}
	return f, nil
}

// metadataTarget returns the value of amdhsa.target, "amdgcn-amd-amdhsa--gfx90a:xnack-". The
// metadata is a MessagePack note. A short text is its length plus 0xa0, a longer one is 0xd9 and
// its length, then its bytes. The key follows everything about kernels.
func metadataTarget(notes []byte) string {
	const key = "\xadamdhsa.target"
	at := bytes.LastIndex(notes, []byte(key))
	if at < 0 {
		return ""
	}
	value := notes[at+len(key):]
	n := 0
	switch {
	case len(value) > 0 && value[0]&0xe0 == 0xa0:
		n, value = int(value[0]&0x1f), value[1:]
	case len(value) > 1 && value[0] == 0xd9:
		n, value = int(value[1]), value[2:]
	}
	return string(value[:min(n, len(value))])
}
