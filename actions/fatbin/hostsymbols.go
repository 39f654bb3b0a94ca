package fatbin

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// HostSymbols lists the names that the host code of an object, a static library or a shared one
// refers to.
type HostSymbols struct {
	Wants   []string // symbols that it refers to and other files may define
	CUDA    []CUDAHost
	Unknown string // why it may refer to more than Wants; "" if it does not
	Lookups string // a called function that finds symbols by name at run time; ""
}

// CUDAHost is the host side of an nvcc object.
type CUDAHost struct{ object *relocatable }

// lookups are functions that find kernels, variables or other symbols of a program by name. The
// names are unknown before the program runs.
var lookups = map[string]bool{
	"dlsym": true, "dlvsym": true, "cuGetProcAddress": true, "cuGetProcAddress_v2": true,
	"cudaGetDriverEntryPoint": true, "cudaGetDriverEntryPoint_ptsz": true,
	"cudaGetDriverEntryPointByVersion": true, "cudaGetDriverEntryPointByVersion_ptsz": true,
	"cuModuleGetFunction": true, "cuModuleGetGlobal": true, "cuModuleGetGlobal_v2": true, "cuModuleGetTexRef": true, "cuModuleGetSurfRef": true,
	"cuModuleEnumerateFunctions": true, "cuLibraryGetKernel": true, "cuLibraryGetGlobal": true, "cuLibraryGetManaged": true,
	"cuLibraryGetUnifiedFunction": true, "cuLibraryEnumerateKernels": true,
	"cudaLibraryGetKernel": true, "cudaLibraryGetGlobal": true, "cudaLibraryGetManaged": true, "cudaLibraryGetUnifiedFunction": true,
	"cudaLibraryEnumerateKernels": true,
}

// ReadHostSymbols reads the symbols that a host linker would read. data is an object, a static
// library or a shared one.
func ReadHostSymbols(data []byte) HostSymbols {
	var h HostSymbols
	switch {
	case bytes.HasPrefix(data, []byte(arMagic)):
		members, err := splitArchive(data)
		if err != nil {
			return HostSymbols{Unknown: err.Error()}
		}
		for _, m := range members {
			if err := h.add(m.content); err != nil {
				h.Unknown = fmt.Sprintf("its member %s: %s", m.name, err)
			}
		}
	case isSharedObject(data):
		if err := h.addShared(data); err != nil {
			h.Unknown = err.Error()
		}
	default:
		if err := h.add(data); err != nil {
			h.Unknown = err.Error()
		}
	}
	return h
}

func (h *HostSymbols) add(object []byte) error {
	if bytes.HasPrefix(object, bitcodeMagic) || bytes.HasPrefix(object, []byte("\xde\xc0\x17\x0b")) {
		return errors.New("it is intermediate code of the host compiler")
	}
	o, err := parseRelocatable(object)
	if err != nil {
		return err
	}
	isCUDA := false
	for i := range o.sections {
		isCUDA = isCUDA || o.sections[i].label == wrapperSection
		if strings.HasPrefix(o.sections[i].label, ".gnu.lto_") {
			return errors.New("it is intermediate code of the host compiler")
		}
	}
	files := 0
	all, err := o.symbols()
	for _, s := range all {
		if elf.ST_TYPE(s.info) == elf.STT_FILE {
			files++
		}
		if refersTo(s, isCUDA) {
			h.Wants = append(h.Wants, unversioned(s.name))
			if lookups[s.name] {
				h.Lookups = s.name
			}
		}
	}
	if isCUDA {
		h.CUDA = append(h.CUDA, CUDAHost{o})
		switch linkable, _ := o.only(linkableSection); {
		case files > 1:
			return errors.New("it was joined from several objects, whose references to each other are not visible")
		case files == 0 && linkable >= 0:
			return errors.New("it was stripped, and whether it was joined from several objects is not visible")
		}
	}
	return err
}

// refersTo reports whether another object may define a symbol. A plain object may weakly define a
// symbol that nvcc's object defines as well; template instances in nvcc's object are all weak. A C
// variable may be common to several objects.
func refersTo(s symbol, isCUDA bool) bool {
	switch {
	case elf.ST_BIND(s.info) == elf.STB_LOCAL || s.name == "":
		return false
	case s.section == 0 || s.section == specialSection+int(elf.SHN_COMMON):
		return true
	}
	return !isCUDA && elf.ST_BIND(s.info) != elf.STB_GLOBAL
}

func isSharedObject(data []byte) bool {
	return len(data) > 18 && string(data[:4]) == elf.ELFMAG && elf.Type(data[16]) == elf.ET_DYN && data[17] == 0
}

func (h *HostSymbols) addShared(data []byte) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	list, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Section == elf.SHN_UNDEF || elf.ST_BIND(s.Info) != elf.STB_GLOBAL {
			h.Wants = append(h.Wants, s.Name)
		}
	}
	return nil
}

// Names returns the wanted kernels and variables that this host code registers with the CUDA
// runtime. A kernel's host function has the kernel's name, and a loaded section contains the name
// as a text. unknown is a wanted symbol that is registered by a name that is not known: it is an
// alias (.set, .symver), it was renamed, or the two compilers spell its parameters differently.
func (c CUDAHost) Names(wants map[string][]string) (names []string, unknown string, err error) {
	all, err := c.object.symbols()
	if err != nil {
		return nil, "", err
	}
	var texts [][]byte
	others := map[place]string{} // wanted names that no text contains
	for _, s := range all {
		name := unversioned(s.name)
		if s.section == 0 || elf.ST_BIND(s.info) == elf.STB_LOCAL || wants[name] == nil {
			continue
		}
		if texts == nil {
			texts = c.object.loaded()
		}
		if isText(texts, name) {
			names = append(names, name)
		} else {
			others[s.place()] = name
		}
	}
	if len(others) == 0 {
		return names, "", nil
	}
	registered, err := c.object.registered()
	for _, s := range all {
		other := others[s.place()]
		if s.section == 0 || s.name == "" || other == "" {
			continue
		}
		// The assembler resolves references to a static function; gcc creates foo.localalias.
		static := elf.ST_BIND(s.info) == elf.STB_LOCAL && !strings.HasPrefix(s.name, other)
		if static || registered[s.place()] || isText(texts, s.name) {
			unknown = max(unknown, other)
		}
	}
	return names, unknown, err
}

// place is the address of a symbol.
type place struct {
	section int
	value   uint64
}

func (s symbol) place() place { return place{s.section, s.value} }

// unversioned returns the name that other objects refer to k@@V1 by, which .symver writes.
func unversioned(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}

// registrar is part of the name of the function that registers kernels and variables.
const registrar = "__nv_cudaEntityRegisterCallback"

// registered returns the places that the registering function refers to.
func (o *relocatable) registered() (map[place]bool, error) {
	var by symbol // an object has one; the largest is used
	all, err := o.symbols()
	for _, s := range all {
		defined := s.section > 0 && s.section < len(o.sections)
		if defined && elf.ST_TYPE(s.info) == elf.STT_FUNC && strings.Contains(s.name, registrar) && s.size >= by.size {
			by = s
		}
	}
	if err != nil || by.name == "" {
		return nil, err
	}
	places := map[place]bool{}
	for _, i := range o.relocationsOf(by.section) {
		list, err := o.relocations(i)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if by.has(by.section, r.offset) {
				places[all[r.symbol].place()] = true
			}
		}
	}
	return places, nil
}

// loaded returns the contents of the sections that are loaded with the program, without code.
func (o *relocatable) loaded() [][]byte {
	out := [][]byte{nil}
	for i := range o.sections {
		s := &o.sections[i]
		if flags := elf.SectionFlag(s.Flags); flags&elf.SHF_ALLOC != 0 && flags&elf.SHF_EXECINSTR == 0 && s.label != linkableSection && s.label != ".nv_fatbin" {
			out = append(out, o.content(i))
		}
	}
	return out
}

// isText reports whether texts contain name, and not only as the end of a longer one.
func isText(texts [][]byte, name string) bool {
	whole := append([]byte(name), 0)
	for _, t := range texts {
		for at := 0; ; at++ {
			n := bytes.Index(t[at:], whole)
			if n < 0 {
				break
			}
			if at += n; at == 0 || !isNameByte(t[at-1]) {
				return true
			}
		}
	}
	return false
}

func isNameByte(b byte) bool {
	return b == '_' || b == '$' || b >= 0x80 || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}

// registersAll is part of the name of the function that runs before main. The optimizer inlines the
// registrar into it.
const registersAll = "__sti____cudaRegisterAll"

// HostUses reports whether the host code of an object refers to a local variable that wanted
// accepts. References that register the variable with the CUDA runtime do not count. HostUses
// returns false if the object cannot be read.
func HostUses(object []byte, wanted func(symbol string) bool) bool {
	o, err := parseRelocatable(object)
	if err != nil {
		return false
	}
	all, err := o.symbols()
	if err != nil {
		return false
	}
	var variables, registrars []symbol
	for _, s := range all {
		switch {
		case s.section == 0 || s.section >= specialSection:
		case elf.ST_TYPE(s.info) == elf.STT_FUNC && (strings.Contains(s.name, registrar) || strings.Contains(s.name, registersAll)):
			registrars = append(registrars, s)
		case elf.ST_TYPE(s.info) == elf.STT_OBJECT && elf.ST_BIND(s.info) == elf.STB_LOCAL && wanted(s.name):
			variables = append(variables, s)
		}
	}
	if len(variables) == 0 {
		return false
	}
	for i := range o.sections {
		if elf.SectionFlag(o.sections[i].Flags)&elf.SHF_ALLOC == 0 {
			continue
		}
		for _, n := range o.relocationsOf(i) {
			relocations, err := o.relocations(n)
			if err != nil {
				return false
			}
			for _, r := range relocations {
				if slices.ContainsFunc(registrars, func(s symbol) bool { return s.has(i, r.offset) }) {
					continue
				}
				to := all[r.symbol]
				at := to.value + uint64(r.addend)
				if o.machine == elf.EM_X86_64 && relativeToNext[elf.R_X86_64(r.kind)] {
					at += 4
				}
				if slices.ContainsFunc(variables, func(v symbol) bool { return v.has(to.section, at) }) {
					return true
				}
			}
		}
	}
	return false
}

// has reports whether a symbol covers an offset of a section.
func (s symbol) has(section int, offset uint64) bool {
	return s.section == section && offset-s.value < max(s.size, 1)
}

// relativeToNext are the relocations whose addend is reduced by 4, since the processor counts from
// the end of the instruction.
var relativeToNext = map[elf.R_X86_64]bool{elf.R_X86_64_PC32: true, elf.R_X86_64_PLT32: true, elf.R_X86_64_GOTPCREL: true,
	elf.R_X86_64_GOTPCRELX: true, elf.R_X86_64_REX_GOTPCRELX: true}
