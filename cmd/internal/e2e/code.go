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

// ELFs are the architectures of the machine code in a file, sorted, each once.
func (p *Project) ELFs(file string) string {
	out, _ := p.Run("cuobjdump", "--list-elf", file)
	archs := regexp.MustCompile(`sm_\d+[a-z]?`).FindAllString(out, -1)
	slices.Sort(archs)
	return strings.Join(slices.Compact(archs), " ")
}

// image is the machine code for one architecture. Its ELF file is read as it is: a disassembler
// would say no more of what is compared here, and takes a fifth of a second to start.
type image struct {
	name     string // as cuobjdump calls it, which ends in the architecture
	sections []*elf.Section
	symbols  []elf.Symbol // beginning with the first that is not empty
}

// images are the images in a file, by their names.
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
		binary.LittleEndian.PutUint32(text[20:], uint32(elf.EV_CURRENT)) // where NVIDIA has the version of CUDA
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

// content is what a section holds; nil for one that takes no room in the file.
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

// relocation is a place in a section that holds the address of a symbol.
type relocation struct {
	offset, kind, addend uint64
	symbol               elf.Symbol
}

// relocations are those of the section with an index.
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

// Functions are the kernels and functions in the machine code of a file that were not inlined, one
// for each that an image has.
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

// Calls are the functions that a kernel calls in the machine code of a program, over all
// architectures: what it has the address of, and what is beside it in its section.
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

// ModuleID are the ids in an object or archive: nvcc's are made of the absolute path, kbuild's are
// not, and names of static variables hold them.
var ModuleID = regexp.MustCompile(`_[0-9a-f]{8}_[0-9]+_[0-9A-Za-z_]*?_(?:cu|cpp)_[0-9A-Za-z_]{1,8}`)

// DeviceCode is the machine code in a file, its constants and variables, and what there is at which
// place, without what differs between two module ids: the ids, and what names hold for them:
// hashes, and nvcc's process id.
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

// Manifest reads the manifest of a module.
func (p *Project) Manifest(name string) modinfo.Manifest {
	p.T.Helper()
	m, problems := modinfo.Decode(p.Read(name))
	if problems != nil {
		p.T.Fatalf("%s: %v", name, problems)
	}
	return *m
}

// Kernels are what a manifest says that its artifacts export.
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
