package fatbin

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// HostSymbols is what the host code of an object, a static library or a shared one says of names.
type HostSymbols struct {
	Wants    []string // what it refers to and others may define
	CUDA     []CUDAHost
	Unknown  string // why it may refer to more than Wants; "" if it does not
	Lookups  string // a function that it calls and that finds symbols by their names at run time; ""
	IsShared bool
}

// CUDAHost is the host side of an object that nvcc made.
type CUDAHost struct{ object *relocatable }

// lookups find kernels and variables of a program, or whatever it exports, by names that nobody knows before it runs.
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

// ReadHostSymbols reads what a host linker would: data is an object, a static library or a shared one.
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
		h.IsShared = true
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
	err = o.eachSymbol(func(int) bool { return true }, func(_ uint32, s symbol) {
		if elf.ST_TYPE(s.info) == elf.STT_FILE {
			files++
		}
		if refersTo(s, isCUDA) {
			h.Wants = append(h.Wants, s.name)
			if lookups[s.name] {
				h.Lookups = s.name
			}
		}
	})
	if isCUDA {
		h.CUDA = append(h.CUDA, CUDAHost{o})
		if files > 1 {
			return errors.New("it was joined of several objects, and what they refer to in each other does not show")
		}
	}
	return err
}

// refersTo reports a symbol that another object may define. A plain object may define one weakly that nvcc's object defines as
// well; all instances of templates in nvcc's are weak. A variable of C may be common to several.
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

// Names are those of the kernels and variables that are registered with the CUDA runtime by this host code and that wanted has, with
// how the lists of nvlink spell them. A kernel's host function has the kernel's name, and the text of the name stands in what is
// loaded. Where only a text stands that begins with the same function name, the two compilers may have spelled the parameters in two
// ways: then everything of that function name is meant, as in the lists of nvcc.
func (c CUDAHost) Names(wanted func(name string) bool) (map[string]string, error) {
	out := map[string]string{}
	var texts [][]byte
	err := c.object.eachSymbol(func(section int) bool { return section != 0 }, func(_ uint32, s symbol) {
		if elf.ST_BIND(s.info) == elf.STB_LOCAL || !wanted(s.name) {
			return
		}
		if texts == nil {
			texts = c.object.loaded()
		}
		if name := registered(texts, s.name); name != "" {
			out[s.name] = name
		}
	})
	return out, err
}

// loaded are the contents of the sections that are in memory when the program runs, without code.
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

func registered(texts [][]byte, name string) string {
	whole, stem := append([]byte(name), 0), functionName(name)
	found := ""
	for _, t := range texts {
		switch {
		case bytes.Contains(t, whole):
			return name
		case stem != "" && bytes.Contains(t, []byte(stem)):
			found = stem + "*"
		}
	}
	return found
}

// functionName is a mangled name up to its template arguments and parameters: _ZN2ns1k of _ZN2ns1kEPi. "" for one of another form.
func functionName(name string) string {
	rest, ok := strings.CutPrefix(name, "_Z")
	if !ok {
		return ""
	}
	rest, nested := strings.CutPrefix(rest, "N")
	for rest != "" {
		after := sourceName(rest)
		if after == rest {
			break
		}
		if rest = after; !nested {
			break
		}
	}
	if stem := strings.TrimSuffix(name, rest); len(stem) > len("_ZN") {
		return stem
	}
	return ""
}

// sourceName is what follows an identifier with its length before it.
func sourceName(s string) string {
	length, digits := 0, 0
	for digits < len(s) && digits < 6 && s[digits] >= '0' && s[digits] <= '9' {
		length, digits = 10*length+int(s[digits]-'0'), digits+1
	}
	if digits == 0 || length > len(s)-digits {
		return s
	}
	return s[digits+length:]
}
