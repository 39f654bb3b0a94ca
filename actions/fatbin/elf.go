package fatbin

import (
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

func readELF(r io.ReaderAt, size int64) (File, error) {
	e, err := OpenELF(io.NewSectionReader(r, 0, size))
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
		return readCodeObject(e, size)
	}
	m, err := readSections(e, size)
	if err != nil {
		return f, err
	}
	if m.Images != nil || m.Relocatable {
		f.Members = []Member{m}
	}
	return f, nil
}

// readSections reads the sections that compilers write device code to.
func readSections(e *elf.File, size int64) (Member, error) {
	var m Member
	left := uint64(size)
	for _, s := range e.Sections {
		read := formatOf(s.Name)
		if s.Type == elf.SHT_NOBITS || read == nil {
			continue
		}
		if err := takeSection(s, &left); err != nil {
			return m, err
		}
		images, err := read(s, int64(s.FileSize))
		if err != nil {
			return m, fmt.Errorf("section %s: %w", s.Name, err)
		}
		m.Images = append(m.Images, images...)
		if s.Name == linkableSection && m.Versions == nil {
			if m.Versions, err = readVersions(s.Open()); err != nil {
				return m, fmt.Errorf("section %s: %w", s.Name, err)
			}
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

// formatOf returns the reader of a section with device code; nil for other sections. Clang writes
// bitcode to one section per target, with the id in its name, and final code to a single section.
func formatOf(section string) func(io.ReaderAt, int64) ([]Image, error) {
	switch section {
	case linkableSection, finalSection:
		return readImages
	case bundleSection:
		return readBundles
	case offloadingSection:
		return readOffloading
	}
	id, ok := strings.CutPrefix(section, string(bundleMagic))
	if !ok {
		return nil
	}
	return func(r io.ReaderAt, size int64) ([]Image, error) {
		img, ok, err := codeAt(r, bundleEntry{id: id, size: size})
		if !ok {
			return nil, err
		}
		return []Image{img}, nil
	}
}

// takeSection checks that a section's bytes are uncompressed, and that no bytes are read
// repeatedly: sections may overlap. left is how much of the file may still be read.
func takeSection(s *elf.Section, left *uint64) error {
	if s.ReaderAt == nil {
		return fmt.Errorf("section %s is compressed as a whole, which no compiler does", s.Name)
	}
	if s.FileSize > *left {
		return fmt.Errorf("section %s is longer than its file", s.Name)
	}
	*left -= s.FileSize
	return nil
}
