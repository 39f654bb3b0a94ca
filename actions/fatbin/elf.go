package fatbin

import (
	"debug/elf"
	"fmt"
	"io"
)

// machineCUDA is the ELF machine number of cubins.
const machineCUDA = 190

// OpenELF reads the headers of an object, library, program or cubin.
func OpenELF(r io.ReaderAt) (*elf.File, error) { return elf.NewFile(currentELF{r}) }

// currentELF makes e_version what debug/elf wants: in cubins it is the version of the toolkit, 118 for 11.8.
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
	if e.Machine == machineCUDA {
		f.Kind = Cubin
		return f, nil
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

// readSections reads the two sections that nvcc puts device code into: __nv_relfatbin is still to be
// linked, .nv_fatbin is final.
func readSections(e *elf.File, size int64) (Member, error) {
	var m Member
	left := uint64(size)
	for _, s := range e.Sections {
		if s.Type == elf.SHT_NOBITS || s.Name != "__nv_relfatbin" && s.Name != ".nv_fatbin" {
			continue
		}
		if s.ReaderAt == nil {
			return m, fmt.Errorf("section %s is compressed as a whole, which no CUDA tool reads", s.Name)
		}
		if s.FileSize > left { // sections that lie over each other would be read over and over
			return m, fmt.Errorf("section %s is longer than its file", s.Name)
		}
		left -= s.FileSize
		images, err := readImages(s, int64(s.FileSize))
		if err != nil {
			return m, fmt.Errorf("section %s: %w", s.Name, err)
		}
		m.Images = append(m.Images, images...)
		m.Relocatable = m.Relocatable || s.Name == "__nv_relfatbin" && e.Type == elf.ET_REL
	}
	return m, nil
}
