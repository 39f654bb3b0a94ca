package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// The sections that hold device code, and the word that marks such a section in C text.
const (
	linkableSection = "__nv_relfatbin"
	finalSection    = ".nv_fatbin"
	fatbinWord      = "fatbin_section "
)

func ptx(text string, arch int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 7.8\n.target sm_%d\n.address_size 64\n// %s\n", arch, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n// "))
	for line := range strings.Lines(text) {
		if name := kernelOf(line); name != "" {
			fmt.Fprintf(&b, ".visible .entry %s(.param .u64 %s_param_0)\n{\nret;\n}\n", name, name)
		}
	}
	return []byte(b.String())
}

// section is a section of an ELF file.
type section struct {
	name        string
	kind        elf.SectionType
	flags       elf.SectionFlag
	data        []byte
	link, info  uint32
	align, size uint64
}

// elfFile lays out the sections. The first one is empty, the names come last.
func elfFile(head elf.Header64, sections []section) []byte {
	var names []byte
	for _, s := range sections {
		names = append(append(names, s.name...), 0)
	}
	sections = append(sections, section{kind: elf.SHT_STRTAB, data: append(names, 0), align: 1})
	var body, table bytes.Buffer
	at := 0
	for _, s := range sections {
		for s.align > 1 && uint64(64+body.Len())%s.align != 0 {
			body.WriteByte(0)
		}
		h := elf.Section64{Name: uint32(at), Type: uint32(s.kind), Flags: uint64(s.flags), Off: uint64(64 + body.Len()), Size: uint64(len(s.data)),
			Link: s.link, Info: s.info, Addralign: s.align, Entsize: s.size}
		if s.kind == elf.SHT_NULL {
			h = elf.Section64{}
		}
		binary.Write(&table, binary.LittleEndian, h)
		body.Write(s.data)
		at += len(s.name) + 1
	}
	for body.Len()%8 != 0 {
		body.WriteByte(0)
	}
	head.Shoff, head.Ehsize, head.Shentsize = uint64(64+body.Len()), 64, 64
	head.Shnum, head.Shstrndx = uint16(len(sections)), uint16(len(sections)-1)
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, head)
	out.Write(body.Bytes())
	out.Write(table.Bytes())
	return out.Bytes()
}

// cubin builds machine code: a symbol and .nv.info for each kernel, and the text that it came from.
func cubin(text string, arch int) []byte {
	names, symbols := []byte{0}, make([]byte, elf.Sym64Size)
	sections := []section{{}, {name: ".strtab", kind: elf.SHT_STRTAB}, {name: ".symtab", kind: elf.SHT_SYMTAB, link: 1, info: 1, size: elf.Sym64Size},
		{name: ".source", kind: elf.SHT_PROGBITS, data: []byte(text)}}
	for line := range strings.Lines(text) {
		name := kernelOf(line)
		if name == "" {
			continue
		}
		sym := binary.LittleEndian.AppendUint32(nil, uint32(len(names)))
		symbols = append(append(symbols, append(sym, byte(elf.STB_GLOBAL<<4|elf.SymBind(elf.STT_FUNC)), 0x10, 3, 0)...), make([]byte, 16)...)
		names = append(append(names, name...), 0)
		info := []byte{4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		info = binary.LittleEndian.AppendUint32(info, 8<<18)
		sections = append(sections, section{name: ".nv.info." + name, kind: elf.SHT_LOPROC, data: append(info, 3, 0x19, 8, 0), link: 2})
	}
	sections[1].data, sections[2].data = names, symbols
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: 190, Version: 118, Flags: uint32(arch | arch<<16)}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01\x33\x07")
	return elfFile(head, sections)
}

// hostObject builds an object of the host compiler: code, the undefined symbols wants, and device
// code in its section.
func hostObject(code, fatbinSection string, fatbin []byte, wants []string) []byte {
	names, symbols := []byte{0}, make([]byte, elf.Sym64Size)
	symbol := func(name string, info byte, section uint16) {
		sym := binary.LittleEndian.AppendUint32(nil, uint32(len(names)))
		sym = binary.LittleEndian.AppendUint16(append(sym, info, 0), section)
		symbols = append(append(symbols, sym...), make([]byte, 16)...)
		names = append(append(names, name...), 0)
	}
	sections := []section{{}, {name: ".strtab", kind: elf.SHT_STRTAB}, {name: ".symtab", kind: elf.SHT_SYMTAB, link: 1, align: 8, size: elf.Sym64Size},
		{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, data: []byte(code), align: 1}}
	local := uint32(1)
	if fatbinSection != "" {
		fill := make([]byte, -len(fatbin)&7)
		sections = append(sections, section{name: fatbinSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, data: append(fatbin, fill...), align: 8})
		symbol("fatbinData", byte(elf.STB_LOCAL<<4|elf.SymBind(elf.STT_OBJECT)), 4)
		local = 2
	}
	for _, w := range wants {
		symbol(w, byte(elf.STB_GLOBAL<<4), 0)
	}
	sections[1].data, sections[2].data, sections[2].info = names, symbols, local
	head := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	return elfFile(head, sections)
}
