package fatbin

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

const (
	wrapperSection = ".nvFatBinSegment"
	wrapperSize    = 24 // magic, version, pointer to a fatbin, pointer to a name
	wrapperData    = 8  // offset of the pointer to the fatbin
)

// linkSections are the sections of an object that nvlink reads, in the order of the thin object,
// with their alignment. nvlink removes unused kernels, variables and constants by the lists of
// those that host code refers to. If one object lacks the lists, nvlink removes nothing.
var linkSections = []struct {
	name  string
	align uint64
}{
	{linkableSection, 8}, {wrapperSection, 8}, {"__nv_module_id", 1},
	{".nvHRKE", 1}, {".nvHRKI", 1}, {".nvHRDE", 1}, {".nvHRDI", 1}, {".nvHRCE", 1}, {".nvHRCI", 1},
}

// ForLink returns the thin object that nvlink reads instead of object in the device link for code.
// It has only the sections that nvlink reads, with only the images of that architecture. So its
// bytes do not depend on the host code, the host compiler's options and the other architectures. An
// object without linkable device code becomes nearly empty, and nvlink skips it. Its __nv_module_id
// stays, by which nvlink identifies the objects of an earlier device link. An error reports an
// object that must be linked unchanged.
func ForLink(object []byte, code gencode.Code) ([]byte, error) {
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	t := thinner{object: o, code: code}
	return t.thin()
}

// thinner builds the thin object of object.
type thinner struct {
	object            *relocatable
	code              gencode.Code      // of the link; the zero value keeps all images
	refs              []string          // added to the lists of what host code refers to
	fatbins, wrappers int               // sections of the object, -1 for none
	numbers           map[int]int       // section of the object -> section of the thin one
	moved             map[uint64]uint64 // old offset of a fatbin -> new offset
}

func (t *thinner) thin() (_ []byte, err error) {
	t.numbers = map[int]int{}
	if t.fatbins, err = t.object.only(linkableSection); err != nil {
		return nil, err
	}
	if t.wrappers, err = t.object.only(wrapperSection); err != nil {
		return nil, err
	}
	w := objectWriter{machine: t.object.machine}
	if err := t.sections(&w); err != nil {
		return nil, err
	}
	if err := t.symbols(&w); err != nil {
		return nil, err
	}
	return w.bytes(), nil
}

func (t *thinner) sections(w *objectWriter) error {
	for _, want := range linkSections {
		at, err := t.object.only(want.name)
		if err != nil {
			return err
		}
		if at < 0 || at == t.wrappers && t.fatbins < 0 {
			continue
		}
		if err := t.object.plain(at); err != nil {
			return err
		}
		if relocs := t.object.relocationsOf(at); len(relocs) > 0 && at != t.wrappers {
			return fmt.Errorf("section %s has relocations", want.name)
		}
		content := t.object.content(at)
		if at == t.fatbins {
			if content, err = t.thinFatbins(content); err != nil {
				return fmt.Errorf("section %s: %w", want.name, err)
			}
		}
		if slices.Contains(refSections, want.name) {
			content = withRefs(content, t.refs)
		}
		t.numbers[at] = w.add(want.name, elf.Section64{Type: uint32(elf.SHT_PROGBITS),
			Flags: uint64(elf.SHF_ALLOC), Addralign: want.align}, content)
	}
	return nil
}

func (t *thinner) thinFatbins(content []byte) ([]byte, error) {
	list, err := splitContainers(content)
	if err != nil {
		return nil, err
	}
	t.moved = map[uint64]uint64{}
	var out []byte
	for _, c := range list {
		t.moved[c.at] = uint64(len(out)+7) &^ 7
		if t.code != (gencode.Code{}) {
			c = c.forLink(t.code)
		}
		out = c.appendTo(out)
	}
	return out, nil
}

// symbols writes the symbols of the kept sections and the relocations of the wrappers. They are
// sorted by place and name, since the compiler's order depends on the host code.
func (t *thinner) symbols(w *objectWriter) error {
	all, err := t.object.symbols()
	if err != nil {
		return err
	}
	relocs, err := t.relocations(all)
	if err != nil {
		return err
	}
	var list []symbol
	if len(relocs) > 0 { // they refer to the section symbol
		list = append(list, symbol{info: elf.ST_INFO(elf.STB_LOCAL, elf.STT_SECTION), section: t.numbers[t.fatbins]})
	}
	for _, s := range all {
		if t.numbers[s.section] == 0 || elf.ST_TYPE(s.info) == elf.STT_SECTION {
			continue // the compiler writes them only if something refers to them, perhaps host code
		}
		if s.section == t.fatbins {
			to, ok := t.moved[s.value]
			if !ok || s.size != 0 {
				return fmt.Errorf("symbol %s is not at the start of a fatbin", s.name)
			}
			s.value = to
		}
		if grown := uint64(len(w.contents[t.numbers[s.section]-1])); t.refs != nil && s.size == uint64(len(t.object.content(s.section))) {
			s.size = grown // the symbol of a list has the list's size
		}
		s.section = t.numbers[s.section]
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, compareSymbols)
	table := w.addSymbols(list)
	if len(relocs) > 0 {
		for i := range relocs {
			relocs[i].symbol = 1 // fatbins are in the first section, and this symbol has no name
		}
		w.addRelocations(".rela"+wrapperSection, t.numbers[t.wrappers], table, relocs)
	}
	return nil
}

// compareSymbols sorts local symbols first, as ELF requires.
func compareSymbols(a, b symbol) int {
	local := func(s symbol) int {
		if elf.ST_BIND(s.info) == elf.STB_LOCAL {
			return 0
		}
		return 1
	}
	return cmp.Or(local(a)-local(b), a.section-b.section, cmp.Compare(a.value, b.value), strings.Compare(a.name, b.name),
		cmp.Compare(a.size, b.size), cmp.Compare(a.info, b.info), cmp.Compare(a.other, b.other))
}

// relocations returns those of the wrappers, with the new offset of the fatbin as addend.
func (t *thinner) relocations(symbols []symbol) (out []relocation, err error) {
	if t.wrappers < 0 || t.fatbins < 0 {
		return nil, nil
	}
	size := uint64(len(t.object.content(t.wrappers)))
	absolute := map[elf.Machine]uint32{elf.EM_X86_64: uint32(elf.R_X86_64_64), elf.EM_AARCH64: uint32(elf.R_AARCH64_ABS64)}
	lists := t.object.relocationsOf(t.wrappers)
	if len(lists) > 1 {
		return nil, fmt.Errorf("section %s has its relocations in %d sections", wrapperSection, len(lists))
	}
	for _, i := range lists {
		if out, err = t.object.relocations(i); err != nil {
			return nil, err
		}
	}
	for i, r := range out {
		s := symbols[r.symbol]
		place, known := t.moved[s.value+uint64(r.addend)]
		switch {
		case r.kind != absolute[t.object.machine], r.offset%wrapperSize != wrapperData, r.offset >= size:
			return nil, fmt.Errorf("section %s has a relocation of an unknown form", wrapperSection)
		case s.section != t.fatbins || !known:
			return nil, fmt.Errorf("section %s points to no fatbin", wrapperSection)
		}
		out[i] = relocation{offset: r.offset, kind: r.kind, addend: int64(place)}
	}
	slices.SortFunc(out, func(a, b relocation) int { return cmp.Compare(a.offset, b.offset) })
	return out, nil
}

// nvcc lists what the host code of an object refers to in sections of the object. They contain
// names of kernels (K), variables (D) and constants (C), of internal (I) and of external (E)
// linkage, each ended by a zero byte. The names are patterns: "_Z4used*" matches any parameters and
// template arguments, a name without a star only itself (nvlink 11.8 and 13.5). nvlink removes what
// no pattern of any object matches. Its options -kernels-used and -variables-used replace these
// lists, whereas a name in a section adds to them.

// refSections are the lists that names of host code are added to. A caller does not know whether a
// name is a kernel or a variable; in the wrong list it matches nothing.
var refSections = []string{".nvHRKE", ".nvHRDE", ".nvHRCE"}

// WithHostRefs returns object for nvlink, with names added to what its host code refers to. It must
// be an object that nvlink searches for names.
func WithHostRefs(object []byte, names []string) ([]byte, error) {
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	for _, want := range append([]string{linkableSection}, refSections...) {
		if at, err := o.only(want); at < 0 || err != nil {
			return nil, errors.New("it has no section " + want)
		}
	}
	t := thinner{object: o, refs: names}
	return t.thin()
}

// ArchiveWithHostRefs is WithHostRefs for a static library: it adds the names to the first member
// that accepts them.
func ArchiveWithHostRefs(archive []byte, names []string) ([]byte, error) {
	members, err := splitArchive(archive)
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if content, err := WithHostRefs(m.content, names); err == nil {
			members[i].content = content
			return joinArchive(members), nil
		}
	}
	return nil, errors.New("no member of the archive takes names")
}

// withRefs appends names to a list. An empty list is one zero byte.
func withRefs(list []byte, names []string) []byte {
	if len(names) == 0 {
		return list
	}
	out := slices.Clone(bytes.TrimLeft(list, "\x00"))
	for _, n := range names {
		out = append(append(out, n...), 0)
	}
	return out
}
