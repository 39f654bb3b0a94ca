package modules

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// Machine numbers of device code in ELF.
const (
	machineCUDA   elf.Machine = 190
	machineAMDGPU elf.Machine = 224
)

// readELF describes a cubin or an AMD code object.
func readELF(file []byte) (modinfo.Artifact, error) {
	e, err := fatbin.OpenELF(bytes.NewReader(file))
	if err != nil {
		return modinfo.Artifact{}, err
	}
	switch e.Machine {
	case machineCUDA:
		return readCubin(e, binary.LittleEndian.Uint32(file[48:])) // NewFile read the header
	case machineAMDGPU:
		return readCodeObject(e)
	}
	return modinfo.Artifact{}, fmt.Errorf("it is ELF for %v, not device code", e.Machine)
}

// In a cubin the symbol of a kernel has the bit 0x10 of st_other, and .nv.info.NAME describes its
// parameters. That section is a list of attributes, as .nv.compat is, each with a format and a
// number. They were found with 11.8, 12.4 and 13.5, and checked against the output of cuobjdump
// -elf:
//
//	format 1 no value, 2 a byte, 3 a word of 16 bits: four bytes in all
//	format 4 a length of 16 bits, and that many bytes
//	0x17 parameter: u32 index, always 0; u16 ordinal; u16 offset; u32 with the size from bit 18 on
//	0x45 parameter, if one is larger than 4 KiB (12.4): the same, with a u16 for the size
//	0x19 all parameters: their size in bytes, without padding at the end
//	0x09 of .nv.compat: 1 if the code is for one chip alone
const (
	entryPoint = 0x10 // of st_other

	formatByte, formatHalf, formatSized = 2, 3, 4

	attrParam, attrParamBytes, attrParamV2 = 0x17, 0x19, 0x45

	compatSpecific = 0x09
)

// archRE matches the architecture option of ptxas or nvlink in the notes of tools: "-arch sm_100f
// -m 64". The first note is that of the tool that wrote the file.
var archRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-arch sm_([0-9]+)(f?)[^0-9a-z]`) })

// cubinArch reads the architecture from e_flags: the low byte up to ABI version 7, the next one
// since 8. Code for one chip alone has a bit there, and since 8 an attribute of .nv.compat. Only a
// note records code for a family.
func cubinArch(e *elf.File, flags uint32) gencode.Code {
	c := gencode.Code{Kind: gencode.SASS, Num: int(flags & 0xff)}
	specific := flags&0x800 != 0
	if e.ABIVersion >= 8 {
		c.Num, specific = int(flags>>8&0xff), false
		eachAttribute(sectionData(e, ".nv.compat"), func(format, attr byte, value uint16, _ []byte) {
			specific = specific || format == formatByte && attr == compatSpecific && value&0xff == 1
		})
	}
	m := archRE().FindSubmatch(sectionData(e, ".note.nv.tkinfo"))
	switch {
	case specific:
		c.Suffix = "a"
	case m != nil && string(m[1]) == strconv.Itoa(c.Num):
		c.Suffix = string(m[2])
	}
	return c
}

// sectionData returns the content of a section; nil if the section is missing or unreadable.
func sectionData(e *elf.File, name string) []byte {
	if s := e.Section(name); s != nil {
		data, _ := s.Data()
		return data
	}
	return nil
}

func readCubin(e *elf.File, flags uint32) (modinfo.Artifact, error) {
	a := modinfo.Artifact{Kind: "cubin", Arch: cubinArch(e, flags).String(), Kernels: []modinfo.Kernel{}}
	symbols, err := e.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return a, err
	}
	for _, s := range symbols {
		bind := elf.ST_BIND(s.Info)
		exported := bind == elf.STB_GLOBAL || bind == elf.STB_WEAK
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Other&entryPoint == 0 || s.Section == elf.SHN_UNDEF || !exported {
			continue
		}
		k := modinfo.Kernel{Name: s.Name, Demangled: Demangled(s.Name)}
		if info := e.Section(".nv.info." + s.Name); info != nil {
			text, err := info.Data()
			if err == nil {
				k.ParamBytes, k.Params, err = readInfo(text)
			}
			if err != nil {
				return a, fmt.Errorf("%s: %w", info.Name, err)
			}
		}
		a.Kernels = append(a.Kernels, k)
	}
	sortKernels(a.Kernels)
	return a, nil
}

// readInfo reads the parameters in a .nv.info section of a kernel.
func readInfo(text []byte) (size int, params []modinfo.Param, err error) {
	params = []modinfo.Param{}
	err = eachAttribute(text, func(format, attr byte, value uint16, data []byte) {
		switch {
		case format == formatHalf && attr == attrParamBytes:
			size = int(value)
		case attr == attrParam && len(data) >= 12:
			params = append(params, param(data, int(binary.LittleEndian.Uint32(data[8:])>>18)))
		case attr == attrParamV2 && len(data) >= 12:
			params = append(params, param(data, int(binary.LittleEndian.Uint16(data[8:]))))
		}
	})
	if err != nil {
		return 0, nil, err
	}
	slices.SortFunc(params, func(a, b modinfo.Param) int { return a.Index - b.Index })
	return size, params, nil
}

// eachAttribute calls each for the attributes in a section; data is nil for formats without a
// length.
func eachAttribute(text []byte, each func(format, attr byte, value uint16, data []byte)) error {
	for len(text) > 0 {
		if len(text) < 4 {
			return errors.New("an attribute is cut short")
		}
		format, attr, value := text[0], text[1], binary.LittleEndian.Uint16(text[2:])
		text = text[4:]
		var data []byte
		if format == formatSized {
			if int(value) > len(text) {
				return errors.New("an attribute is longer than its section")
			}
			data, text = text[:value], text[value:]
		}
		each(format, attr, value, data)
	}
	return nil
}

func param(data []byte, size int) modinfo.Param {
	return modinfo.Param{Index: int(binary.LittleEndian.Uint16(data[4:])), Offset: int(binary.LittleEndian.Uint16(data[6:])), Size: size}
}
