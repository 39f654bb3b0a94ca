package fatbin

import (
	"debug/elf"
	"encoding/binary"
)

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
