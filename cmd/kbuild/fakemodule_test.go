package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/cmd/internal/pretend/devcode"
)

// What the fake compiler makes for modules is read again, so it has the form of the real thing:
// PTX, cubins, fatbins and LTO-IR with the kernels of the source and the text of the source inside.

// writeCompiled writes what the options ask for. An object is text.
func (f fakeArgs) writeCompiled(text string) error {
	write := func(name string, content []byte) error { return os.WriteFile(name, content, 0o666) }
	arch := func(code string) int {
		n, _ := strconv.Atoi(strings.TrimRight(code[strings.Index(code, "_")+1:], "a"))
		return n
	}
	switch {
	case f.keepDir != "":
		stem := filepath.Join(f.keepDir, strings.TrimSuffix(filepath.Base(f.inputs[0]), ".cu"))
		return errors.Join(write(stem+".ltoir", devcode.LTOIR(text, arch(f.codes[0]))), write(stem+".ptx", fakePTX(text, arch(f.codes[0]))))
	case f.has["-ptx"]:
		return write(f.out, fakePTX(text, arch(f.codes[0])))
	case f.has["-cubin"]:
		return write(f.out, fakeCubin(text, arch(f.codes[0])))
	case f.has["-fatbin"]:
		var entries []byte
		for _, code := range f.codes {
			kind, content := uint16(2), fakeCubin
			switch code[0] {
			case 'c':
				kind, content = 1, fakePTX
			case 'l':
				kind, content = 8, devcode.LTOIR
			}
			entries = append(entries, devcode.Entry(kind, arch(code), content(text, arch(code)))...)
		}
		return write(f.out, devcode.Container(entries))
	}
	return write(f.out, []byte(text))
}

// fakeFatbinary wraps one image.
func fakeFatbinary() int {
	if splitToolkit() {
		return splitFatbinary(os.Args[1:])
	}
	var create string
	var entries []byte
	for i, arg := range os.Args {
		if arg == "--create" {
			create = os.Args[i+1]
		}
		spec, nvvm := strings.CutPrefix(arg, "--image3=kind=nvvm,sm=")
		kind := uint16(8)
		if !nvvm {
			spec, kind = strings.TrimPrefix(arg, "--image3=kind=ptx,sm="), 1
		}
		if nvvm || spec != arg {
			sm, file, _ := strings.Cut(spec, ",file=")
			n, _ := strconv.Atoi(sm)
			text, err := os.ReadFile(file)
			if err != nil {
				return 1
			}
			entries = append(entries, devcode.Entry(kind, n, text)...)
		}
	}
	if create == "" || os.WriteFile(create, devcode.Container(entries), 0o666) != nil {
		return 1
	}
	return 0
}

var fakeKernelRE = regexp.MustCompile(`__global__ void (\w+)\(([^)]*)\)`)

// fakeParams are the sizes of a kernel's parameters: pointers have 8 bytes, all others 4.
func fakeParams(list string) (sizes []int) {
	for _, p := range strings.Split(list, ",") {
		switch {
		case strings.Contains(p, "*"):
			sizes = append(sizes, 8)
		case strings.TrimSpace(p) != "":
			sizes = append(sizes, 4)
		}
	}
	return sizes
}

func fakePTX(text string, arch int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 7.8\n.target sm_%d\n.address_size 64\n// %s\n", arch, strings.ReplaceAll(text, "\n", "\n// "))
	for _, m := range fakeWants.FindAllStringSubmatch(text, -1) {
		fmt.Fprintf(&b, ".extern .func %s\n();\n", m[1])
	}
	for _, m := range fakeHas.FindAllStringSubmatch(text, -1) {
		fmt.Fprintf(&b, ".visible .func %s()\n{\nret;\n}\n", m[1])
	}
	for _, m := range fakeKernelRE.FindAllStringSubmatch(text, -1) {
		var params []string
		for i, size := range fakeParams(m[2]) {
			params = append(params, fmt.Sprintf(".param .u%d %s_param_%d", 8*size, m[1], i))
		}
		fmt.Fprintf(&b, ".visible .entry %s(%s)\n{\nret;\n}\n", m[1], strings.Join(params, ", "))
	}
	return []byte(b.String())
}

// fakeCubin is an ELF file with a symbol and .nv.info for each kernel; the text of the source is a
// section.
func fakeCubin(text string, arch int) []byte {
	type section struct {
		name string
		kind elf.SectionType
		data []byte
		link uint32
	}
	names, symbols := []byte{0}, make([]byte, elf.Sym64Size)
	sections := []section{{}, {".strtab", elf.SHT_STRTAB, nil, 0}, {".symtab", elf.SHT_SYMTAB, nil, 1}, {".source", elf.SHT_PROGBITS, []byte(text), 0}}
	for _, m := range fakeKernelRE.FindAllStringSubmatch(text, -1) {
		sym := binary.LittleEndian.AppendUint32(nil, uint32(len(names)))
		symbols = append(append(symbols, append(sym, byte(elf.STB_GLOBAL<<4|elf.SymBind(elf.STT_FUNC)), 0x10, 3, 0)...), make([]byte, 16)...)
		names = append(append(names, m[1]...), 0)
		var info []byte
		end := 0
		for i, size := range fakeParams(m[2]) {
			end = (end + size - 1) / size * size
			info = append(info, 4, 0x17, 12, 0, 0, 0, 0, 0, byte(i), 0, byte(end), byte(end>>8))
			info = binary.LittleEndian.AppendUint32(info, uint32(size)<<18)
			end += size
		}
		sections = append(sections, section{".nv.info." + m[1], elf.SHT_LOPROC, append(info, 3, 0x19, byte(end), byte(end>>8)), 2})
	}
	sections[1].data, sections[2].data = names, symbols
	var body, table bytes.Buffer
	var shstrtab []byte
	for _, s := range sections {
		shstrtab = append(append(shstrtab, s.name...), 0)
	}
	sections = append(sections, section{"", elf.SHT_STRTAB, append(shstrtab, 0), 0})
	at := 0
	for _, s := range sections {
		h := elf.Section64{Name: uint32(at), Type: uint32(s.kind), Off: uint64(64 + body.Len()), Size: uint64(len(s.data)), Link: s.link}
		if s.kind == elf.SHT_SYMTAB {
			h.Entsize = elf.Sym64Size
		}
		binary.Write(&table, binary.LittleEndian, h)
		body.Write(s.data)
		at += len(s.name) + 1
	}
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: 190, Version: 118, Shoff: uint64(64 + body.Len()), Flags: uint32(arch | arch<<16),
		Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1)}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01\x33\x07")
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, head)
	out.Write(body.Bytes())
	out.Write(table.Bytes())
	return out.Bytes()
}
