package fatbin

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Sizes of the records of ELF64.
const (
	elfHeaderSize     = 64
	sectionHeaderSize = 64
	symbolSize        = 24
	relaSize          = 24
)

// relocatable is a host object of a compiler or ld -r: ELF64, little endian, x86-64 or aarch64.
// Every section lies within data, and sections do not overlap, so that a walk over them takes
// linear time.
type relocatable struct {
	data     []byte
	machine  elf.Machine
	headers  uint64 // offset of the section headers
	sections []objectSection
	table    []symbol // see symbols
	order    []int    // of sections in the file; the number after the last section is the header table
}

type objectSection struct {
	elf.Section64
	label string // the name; Section64 has only its offset
}

type symbol struct {
	name    string
	info    byte
	other   byte
	section int
	value   uint64
	size    uint64
}

type relocation struct {
	offset uint64
	kind   uint32
	symbol uint32
	addend int64
}

func parseRelocatable(data []byte) (*relocatable, error) {
	if len(data) < elfHeaderSize || string(data[:4]) != elf.ELFMAG {
		return nil, errors.New("it is no ELF object")
	}
	var h elf.Header64
	if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil {
		return nil, fmt.Errorf("ELF header: %w", err)
	}
	o := &relocatable{data: data, machine: elf.Machine(h.Machine), headers: h.Shoff}
	switch {
	case h.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64) || h.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB):
		return nil, errors.New("it is no ELF object of 64 bits, little endian")
	case elf.Type(h.Type) != elf.ET_REL:
		return nil, errors.New("it is no relocatable object")
	case o.machine != elf.EM_X86_64 && o.machine != elf.EM_AARCH64:
		return nil, fmt.Errorf("it is an object for %v, neither x86-64 nor aarch64", o.machine)
	case h.Phnum != 0:
		return nil, errors.New("it is an object with program headers")
	case h.Shoff == 0:
		return o, nil
	case h.Shentsize != sectionHeaderSize:
		return nil, fmt.Errorf("its section headers have %d bytes", h.Shentsize)
	}
	return o, o.readSections(uint64(h.Shnum), uint32(h.Shstrndx))
}

// intermediate are the prefixes of sections with a compiler's intermediate code: gcc's for -flto,
// clang's for -ffat-lto-objects and -fembed-bitcode.
var intermediate = []string{".gnu.lto_", ".gnu.debuglto_", ".llvm.lto", ".llvmbc"}

// machineCode rejects an object that also has intermediate code. A linker uses that instead of the
// machine code, and the placeholder would stay in it.
func (o *relocatable) machineCode() error {
	for _, s := range o.sections {
		if slices.ContainsFunc(intermediate, func(start string) bool { return strings.HasPrefix(s.label, start) }) {
			return fmt.Errorf("it holds intermediate code (section %s), which would keep what was compiled in place of the device code", s.label)
		}
	}
	return nil
}

// readSections reads the headers. Numbers that do not fit into 16 bits are in section 0: an object
// with that many templates has 65280 sections or more.
func (o *relocatable) readSections(count uint64, names uint32) error {
	room := uint64(len(o.data))
	if o.headers > room || room-o.headers < sectionHeaderSize {
		return errors.New("its section headers lie outside the file")
	}
	first := o.header(0)
	if count == 0 {
		count = first.Size
	}
	if names == uint32(elf.SHN_XINDEX) {
		names = first.Link
	}
	if count > (room-o.headers)/sectionHeaderSize || uint64(names) >= count {
		return errors.New("its section headers lie outside the file")
	}
	o.sections = make([]objectSection, count)
	for i := range o.sections {
		o.sections[i].Section64 = o.header(i)
		if s := &o.sections[i]; s.fileSize() > room || s.fileSize() > 0 && s.Off > room-s.fileSize() {
			return fmt.Errorf("section %d lies outside the file", i)
		}
	}
	if err := o.sortSections(); err != nil {
		return err
	}
	table, left := o.content(int(names)), o.nameBudget()
	for i := range o.sections {
		o.sections[i].label = text0(table, o.sections[i].Name)
		if left -= len(o.sections[i].label); left < 0 {
			return errors.New("the names of its sections are longer than any real ones")
		}
	}
	return nil
}

// nameBudget limits the total length of names of a kind. Names may share bytes in their table, so
// that many long ones fit into a small file; in real objects few do.
func (o *relocatable) nameBudget() int { return 4 * len(o.data) }

func (o *relocatable) sortSections() error {
	o.order = make([]int, len(o.sections))
	for i := range o.order {
		o.order[i] = i + 1 // section 0 is empty
	}
	slices.SortFunc(o.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(o.place(a).Off, o.place(b).Off), cmp.Compare(a, b))
	})
	end := uint64(elfHeaderSize)
	for _, i := range o.order {
		if s := o.place(i); s.fileSize() > 0 {
			if s.Off < end {
				return errors.New("its sections lie over each other")
			}
			end = s.Off + s.Size
		}
	}
	return nil
}

// place returns a section, or the section header table as if it were one.
func (o *relocatable) place(i int) objectSection {
	if i < len(o.sections) {
		return o.sections[i]
	}
	return objectSection{Section64: elf.Section64{Type: uint32(elf.SHT_PROGBITS), Off: o.headers,
		Size: sectionHeaderSize * uint64(len(o.sections)), Addralign: 8}}
}

func (o *relocatable) header(i int) elf.Section64 {
	b, le := o.data[o.headers+sectionHeaderSize*uint64(i):], binary.LittleEndian
	return elf.Section64{
		Name: le.Uint32(b), Type: le.Uint32(b[4:]), Flags: le.Uint64(b[8:]), Addr: le.Uint64(b[16:]),
		Off: le.Uint64(b[24:]), Size: le.Uint64(b[32:]), Link: le.Uint32(b[40:]), Info: le.Uint32(b[44:]),
		Addralign: le.Uint64(b[48:]), Entsize: le.Uint64(b[56:]),
	}
}

// fileSize returns the bytes of the section in the file. Section 0 has none: its size may be the
// number of sections.
func (s *objectSection) fileSize() uint64 {
	if t := elf.SectionType(s.Type); t == elf.SHT_NOBITS || t == elf.SHT_NULL {
		return 0
	}
	return s.Size
}

// content returns the section's bytes, a slice of the object.
func (o *relocatable) content(i int) []byte {
	if s := &o.sections[i]; s.fileSize() > 0 {
		return o.data[s.Off : s.Off+s.Size : s.Off+s.Size]
	}
	return nil
}

// only returns the number of the single section with the name, or -1 if none has it.
func (o *relocatable) only(name string) (int, error) {
	found := -1
	for i := range o.sections {
		if o.sections[i].label != name || elf.SectionType(o.sections[i].Type) == elf.SHT_NULL {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("it has more than one section %s", name)
		}
		found = i
	}
	return found, nil
}

// plain returns an error if a section's bytes are not its content.
func (o *relocatable) plain(i int) error {
	s := &o.sections[i]
	if elf.SectionType(s.Type) != elf.SHT_PROGBITS || elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED != 0 {
		return fmt.Errorf("section %s holds no plain bytes", s.label)
	}
	return nil
}

// specialSection is added to the reserved section numbers, which do not name sections: a file may
// have more than 65280 sections.
const specialSection = int(elf.SHN_LORESERVE) << 16

// symbols returns the symbols by number. The section is 0 for undefined symbols, and at least
// specialSection for other symbols without a section.
func (o *relocatable) symbols() ([]symbol, error) {
	table := -1
	var wide []byte // section numbers that do not fit into 16 bits
	for i := range o.sections {
		if elf.SectionType(o.sections[i].Type) != elf.SHT_SYMTAB {
			continue
		}
		if table >= 0 {
			return nil, errors.New("it has more than one symbol table")
		}
		table = i
	}
	if table < 0 || o.table != nil {
		return o.table, nil
	}
	s := &o.sections[table]
	if s.Entsize != symbolSize || int(s.Link) >= len(o.sections) {
		return nil, errors.New("its symbol table is damaged")
	}
	for i := range o.sections {
		if elf.SectionType(o.sections[i].Type) == elf.SHT_SYMTAB_SHNDX && int(o.sections[i].Link) == table {
			wide = o.content(i)
		}
	}
	le, body, names, left := binary.LittleEndian, o.content(table), o.content(int(s.Link)), o.nameBudget()
	list := make([]symbol, len(body)/symbolSize)
	for n := range list {
		b := body[n*symbolSize:]
		section := int(le.Uint16(b[6:]))
		switch {
		case section == int(elf.SHN_XINDEX) && (n+1)*4 <= len(wide):
			section = int(le.Uint32(wide[n*4:]))
		case section >= int(elf.SHN_LORESERVE):
			section += specialSection
		}
		list[n] = symbol{name: text0(names, le.Uint32(b)), info: b[4], other: b[5],
			section: section, value: le.Uint64(b[8:]), size: le.Uint64(b[16:])}
		if left -= len(list[n].name); left < 0 {
			return nil, errors.New("the names of its symbols are longer than any real ones")
		}
	}
	o.table = list
	return list, nil
}

// relocationsOf returns the numbers of the sections that hold relocations of section i.
func (o *relocatable) relocationsOf(i int) []int {
	var list []int
	for n := range o.sections {
		t := elf.SectionType(o.sections[n].Type)
		if (t == elf.SHT_REL || t == elf.SHT_RELA) && int(o.sections[n].Info) == i {
			list = append(list, n)
		}
	}
	return list
}

// relocations returns the relocations in section i. Their symbols exist.
func (o *relocatable) relocations(i int) (list []relocation, err error) {
	s := &o.sections[i]
	if elf.SectionType(s.Type) != elf.SHT_RELA || s.Entsize != relaSize || s.Size%relaSize != 0 {
		return nil, fmt.Errorf("the relocations of %s are not in the form of this machine", s.label)
	}
	symbols, err := o.symbols()
	le := binary.LittleEndian
	for b := o.content(i); len(b) > 0 && err == nil; b = b[relaSize:] {
		r := relocation{offset: le.Uint64(b), kind: le.Uint32(b[8:]), symbol: le.Uint32(b[12:]), addend: int64(le.Uint64(b[16:]))}
		if int64(r.symbol) >= int64(len(symbols)) {
			err = fmt.Errorf("the relocations of %s refer to no symbol", s.label)
		}
		list = append(list, r)
	}
	return list, err
}

// text0 returns the zero-terminated text at an offset of a table.
func text0(table []byte, at uint32) string {
	if uint64(at) >= uint64(len(table)) {
		return ""
	}
	text, _, _ := bytes.Cut(table[at:], []byte{0})
	return string(text)
}

// alignUp rounds up to a multiple of align. ok is false if that overflows or align is not a power
// of two.
func alignUp(n, align uint64) (rounded uint64, ok bool) {
	if align <= 1 {
		return n, true
	}
	rounded = (n + align - 1) &^ (align - 1)
	return rounded, bits.OnesCount64(align) == 1 && rounded >= n
}

// objectWriter writes a relocatable object.
type objectWriter struct {
	machine  elf.Machine
	sections []objectSection // without section 0
	contents [][]byte
}

// add adds a section and returns its number.
func (w *objectWriter) add(name string, s elf.Section64, content []byte) int {
	s.Size = uint64(len(content))
	w.sections = append(w.sections, objectSection{Section64: s, label: name})
	w.contents = append(w.contents, content)
	return len(w.sections)
}

// addSymbols adds the symbol table and returns its number. Local symbols come first in list.
func (w *objectWriter) addSymbols(list []symbol) int {
	le, body, names := binary.LittleEndian, make([]byte, symbolSize), []byte{0}
	locals := 1
	for _, s := range list {
		name := 0
		if s.name != "" {
			name = len(names)
			names = append(append(names, s.name...), 0)
		}
		if elf.ST_BIND(s.info) == elf.STB_LOCAL {
			locals++
		}
		body = le.AppendUint32(body, uint32(name))
		body = append(body, s.info, s.other)
		body = le.AppendUint16(body, uint16(s.section))
		body = le.AppendUint64(le.AppendUint64(body, s.value), s.size)
	}
	table := w.add(".symtab", elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: uint32(len(w.sections) + 2),
		Info: uint32(locals), Addralign: 8, Entsize: symbolSize}, body)
	w.add(".strtab", elf.Section64{Type: uint32(elf.SHT_STRTAB), Addralign: 1}, names)
	return table
}

func (w *objectWriter) addRelocations(name string, of, symbols int, list []relocation) {
	le, body := binary.LittleEndian, []byte(nil)
	for _, r := range list {
		body = le.AppendUint32(le.AppendUint32(le.AppendUint64(body, r.offset), r.kind), r.symbol)
		body = le.AppendUint64(body, uint64(r.addend))
	}
	w.add(name, elf.Section64{Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_INFO_LINK), Link: uint32(symbols),
		Info: uint32(of), Addralign: 8, Entsize: relaSize}, body)
}

// bytes adds the section name table and returns the file.
func (w *objectWriter) bytes() []byte {
	const label = ".shstrtab"
	names := []byte{0}
	for i := range w.sections {
		w.sections[i].Name = uint32(len(names))
		names = append(append(names, w.sections[i].label...), 0)
	}
	s := elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_STRTAB), Addralign: 1}
	w.add(label, s, append(append(names, label...), 0))

	out := make([]byte, elfHeaderSize)
	align := func(n uint64) { out = append(out, make([]byte, -uint64(len(out))&(max(n, 1)-1))...) }
	for i := range w.sections {
		align(w.sections[i].Addralign)
		w.sections[i].Off = uint64(len(out))
		out = append(out, w.contents[i]...)
	}
	align(8)
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(w.machine), Version: 1, Ehsize: elfHeaderSize,
		Shoff: uint64(len(out)), Shentsize: sectionHeaderSize, Shnum: uint16(len(w.sections) + 1), Shstrndx: uint16(len(w.sections))}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	out = append(out, make([]byte, sectionHeaderSize)...)
	for i := range w.sections {
		out = encode(out, w.sections[i].Section64)
	}
	copy(out, encode(nil, h))
	return out
}

func encode(out []byte, record any) []byte {
	out, err := binary.Append(out, binary.LittleEndian, record)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return out
}
