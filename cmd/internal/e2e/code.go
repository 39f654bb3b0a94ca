package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// ELFs returns the architectures of the machine code in a file, sorted, without duplicates.
func (p *Project) ELFs(file string) string {
	out, _ := p.Run("cuobjdump", "--list-elf", file)
	archs := regexp.MustCompile(`sm_\d+[a-z]?`).FindAllString(out, -1)
	slices.Sort(archs)
	return strings.Join(slices.Compact(archs), " ")
}

// image is the machine code for one architecture. It is parsed as ELF: a disassembler would show no
// more of what the tests compare, and takes a fifth of a second to start.
type image struct {
	name     string // cuobjdump's name, which ends in the architecture
	sections []*elf.Section
	symbols  []elf.Symbol // from the first non-empty one on
}

// images returns the images in a file, sorted by name.
func (p *Project) images(file string) (list []image) {
	p.T.Helper()
	x := p.In(p.T.TempDir())
	x.Run("cuobjdump", "--extract-elf", "all", filepath.Join(p.Dir, file))
	cubins, _ := filepath.Glob(x.Dir + "/*.cubin")
	if len(cubins) == 0 {
		p.T.Fatalf("no cubin in %s", file)
	}
	for _, c := range cubins {
		text, err := os.ReadFile(c)
		if err != nil || len(text) < 64 {
			p.T.Fatalf("%s: %d bytes, %v", c, len(text), err)
		}
		binary.LittleEndian.PutUint32(text[20:], uint32(elf.EV_CURRENT)) // NVIDIA writes CUDA's version
		f, err := elf.NewFile(bytes.NewReader(text))
		if err != nil {
			p.T.Fatal(err)
		}
		m := image{name: strings.TrimPrefix(filepath.Base(c), strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))), sections: f.Sections}
		if m.symbols, err = f.Symbols(); err != nil {
			p.T.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// content returns a section's data; nil if it takes no space in the file.
func (p *Project) content(s *elf.Section) []byte {
	p.T.Helper()
	if s.Type == elf.SHT_NOBITS {
		return nil
	}
	text, err := s.Data()
	if err != nil {
		p.T.Fatal(err)
	}
	return text
}

// relocation is a location in a section that holds the address of a symbol.
type relocation struct {
	offset, kind, addend uint64
	symbol               elf.Symbol
}

// relocations returns the relocations of the section with the given index.
func (p *Project) relocations(m image, section int) (list []relocation) {
	p.T.Helper()
	for _, s := range m.sections {
		size := map[elf.SectionType]int{elf.SHT_REL: 16, elf.SHT_RELA: 24}[s.Type]
		if size == 0 || s.Info != uint32(section) {
			continue
		}
		for text := p.content(s); len(text) >= size; text = text[size:] {
			info := binary.LittleEndian.Uint64(text[8:])
			r := relocation{offset: binary.LittleEndian.Uint64(text), kind: info & 0xffffffff}
			if size == 24 {
				r.addend = binary.LittleEndian.Uint64(text[16:])
			}
			if n := info >> 32; n > 0 {
				r.symbol = m.symbols[n-1]
			}
			list = append(list, r)
		}
	}
	return list
}

// Functions returns the kernels and functions in a file's machine code that were not inlined. A
// function occurs once per image.
func (p *Project) Functions(file string) (names []string) {
	p.T.Helper()
	for _, m := range p.images(file) {
		for _, s := range m.sections {
			if name, ok := strings.CutPrefix(s.Name, ".text."); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Calls returns the functions that a kernel calls in a program's machine code, over all
// architectures. These are the functions that it has relocations for, and those in its own section.
func (p *Project) Calls(file, kernel string) string {
	p.T.Helper()
	var found []string
	for _, m := range p.images(file) {
		for i, s := range m.sections {
			if !strings.HasPrefix(s.Name, ".text.") || !strings.Contains(s.Name, kernel) {
				continue
			}
			symbols := slices.DeleteFunc(slices.Clone(m.symbols), func(s elf.Symbol) bool { return s.Section != elf.SectionIndex(i) })
			for _, r := range p.relocations(m, i) {
				symbols = append(symbols, r.symbol)
			}
			for _, f := range symbols {
				if elf.ST_TYPE(f.Info) == elf.STT_FUNC && ".text."+f.Name != s.Name {
					found = append(found, f.Name)
				}
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// ModuleID matches module ids in an object or archive. nvcc derives them from the absolute path,
// kbuild does not. Names of static variables contain them.
var ModuleID = regexp.MustCompile(`_[0-9a-f]{8}_[0-9]+_[0-9A-Za-z_]*?_(?:cu|cpp)_[0-9A-Za-z_]{1,8}`)

// DeviceCode returns a file's machine code, constants, variables and symbol positions. It omits
// what depends on the module id: the ids themselves, hashes of them in names, and nvcc's process
// id.
func (p *Project) DeviceCode(file string) string {
	p.T.Helper()
	var out strings.Builder
	for _, m := range p.images(file) {
		var parts []string
		for i, s := range m.sections {
			if s.Flags&elf.SHF_ALLOC == 0 {
				continue
			}
			part := fmt.Sprintf("%s %v %v align %d registers %d size %d\n%x\n", s.Name, s.Type, s.Flags, s.Addralign, s.Info>>24, s.Size, p.content(s))
			for _, r := range p.relocations(m, i) {
				part += fmt.Sprintf("  at %#x kind %d %s%+d\n", r.offset, r.kind, r.symbol.Name, r.addend)
			}
			for _, y := range m.symbols {
				if y.Section == elf.SectionIndex(i) {
					part += fmt.Sprintf("  %s at %#x size %d info %#x %#x\n", y.Name, y.Value, y.Size, y.Info, y.Other)
				}
			}
			part = ModuleID.ReplaceAllString(part, "<id>")
			parts = append(parts, regexp.MustCompile(`__nv_static_\d+_<id>(_\d+)?_`).ReplaceAllString(part, "__nv_static_N_<id>_"))
		}
		slices.Sort(parts)
		fmt.Fprintf(&out, "%s\n%s", m.name, strings.Join(parts, ""))
	}
	return out.String()
}

// Manifest decodes the manifest of a module.
func (p *Project) Manifest(name string) modinfo.Manifest {
	p.T.Helper()
	m, problems := modinfo.Decode(p.Read(name))
	if problems != nil {
		p.T.Fatalf("%s: %v", name, problems)
	}
	return *m
}

// Kernels returns the kernels that a manifest's artifacts export.
func (p *Project) Kernels(manifest string) string {
	p.T.Helper()
	var list []string
	for _, a := range p.Manifest(manifest).Artifacts {
		text, err := json.Marshal([]any{a.File, a.Kernels, a.Images, a.LTOSymbols})
		if err != nil {
			p.T.Fatal(err)
		}
		list = append(list, ModuleID.ReplaceAllString(string(text), "<id>"))
	}
	return strings.Join(list, "\n")
}
