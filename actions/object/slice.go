package object

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// linked are the sections that nvlink reads of an object: device code, the descriptor by which it finds it, the
// module id, and which kernels and variables the host code names. Without the descriptor nvlink finds no LTO-IR.
var linked = []string{relocatable, ".nvFatBinSegment", "__nv_module_id",
	".nvHRKE", ".nvHRKI", ".nvHRDE", ".nvHRDI", ".nvHRCE", ".nvHRCI"}

// ForLink gives what a device link for code reads of an object, as an object: the linked sections, with the images of
// that architecture only if there are any. Its bytes depend on neither host code nor other architectures.
//
// An object without relocatable device code gives one without sections: that there is one such switches off nvlink's
// removal of kernels.
func ForLink(file []byte, code gencode.Code) ([]byte, error) {
	o, err := parse(file)
	if err != nil {
		return nil, err
	}
	t := &thin{o: o, number: map[int]int{}}
	if err := t.choose(code); err != nil {
		return nil, err
	}
	if err := t.takeSymbols(); err != nil {
		return nil, err
	}
	if err := t.takeRelocations(); err != nil {
		return nil, err
	}
	return t.write(), nil
}

// thin is the object being made.
type thin struct {
	o        *object
	sections []made
	number   map[int]int // of a section in the original: in the new one
	symbols  []symbol    // locals first; section numbers are new ones
	symbol   map[int]int // of a symbol in the original: in the new one
}

// made is a section of the new object.
type made struct {
	name       string
	kind       uint32
	flags      uint64
	link, info int
	align      uint64
	entry      uint64
	data       []byte
}

func (t *thin) choose(code gencode.Code) error {
	t.sections = []made{{}}
	for _, name := range linked {
		found := 0
		for i := range t.o.sections {
			s := &t.o.sections[i]
			if s.name != name || s.kind() == typeRela {
				continue
			}
			if found++; found > 1 && len(s.data) > 0 {
				return fmt.Errorf("two sections %s", name)
			}
			data := s.data
			if name == relocatable {
				var err error
				if data, err = imagesFor(data, code); err != nil {
					return err
				}
			}
			t.number[i] = len(t.sections)
			t.sections = append(t.sections, made{name: name, kind: s.kind(), flags: order.Uint64(s.head[8:]), align: s.align(), data: data})
		}
	}
	if !slices.ContainsFunc(t.sections, func(m made) bool { return m.name == relocatable && len(m.data) > 0 }) {
		t.sections, t.number = t.sections[:1], map[int]int{}
	}
	return nil
}

// takeSymbols keeps the symbols of the chosen sections, in an order of their own.
func (t *thin) takeSymbols() error {
	all, err := t.o.symbols()
	if err != nil {
		return err
	}
	type numbered struct {
		symbol
		old int
	}
	var kept []numbered
	for i, s := range all {
		if n, ok := t.number[s.section]; ok && s.section != undefined && s.section < reserved {
			s.section = n
			kept = append(kept, numbered{s, i})
		}
	}
	slices.SortStableFunc(kept, func(a, b numbered) int {
		if a.local() != b.local() {
			if a.local() {
				return -1
			}
			return 1
		}
		if a.section != b.section {
			return a.section - b.section
		}
		return strings.Compare(a.name, b.name)
	})
	t.symbols, t.symbol = []symbol{{}}, map[int]int{}
	for _, k := range kept {
		t.symbol[k.old] = len(t.symbols)
		t.symbols = append(t.symbols, k.symbol)
	}
	return nil
}

// takeRelocations keeps those of the chosen sections; each must point to a kept symbol.
func (t *thin) takeRelocations() error {
	symtab := 0
	for i := range t.o.sections {
		s := &t.o.sections[i]
		target, ok := t.number[s.info()]
		if s.kind() != typeRela || !ok {
			continue
		}
		if len(s.data)%relaSize != 0 {
			return fmt.Errorf("%w: broken relocations", errForm)
		}
		data := bytes.Clone(s.data)
		for at := 0; at < len(data); at += relaSize {
			info := order.Uint64(data[at+8:])
			sym, ok := t.symbol[int(info>>32)]
			if !ok {
				return fmt.Errorf("%s points outside of the device code", s.name)
			}
			order.PutUint64(data[at+8:], uint64(sym)<<32|info&0xffffffff)
		}
		symtab++
		t.sections = append(t.sections, made{name: s.name, kind: typeRela, flags: order.Uint64(s.head[8:]), link: -1, info: target, align: 8, entry: relaSize, data: data})
	}
	return nil
}

// write lays the object out: header, sections, section table.
func (t *thin) write() []byte {
	names, table := []byte{0}, []byte(nil)
	locals := 0
	for _, s := range t.symbols {
		if s.local() {
			locals++
		}
		name := uint32(0)
		if s.name != "" {
			name = uint32(len(names))
			names = append(append(names, s.name...), 0)
		}
		table = order.AppendUint32(table, name)
		table = append(table, s.info, s.other)
		table = order.AppendUint16(table, uint16(s.section))
		table = order.AppendUint64(table, s.value)
		table = order.AppendUint64(table, s.size)
	}
	symtab := len(t.sections)
	all := append(slices.Clone(t.sections),
		made{name: ".symtab", kind: typeSymtab, link: symtab + 1, info: locals, align: 8, entry: symbolSize, data: table},
		made{name: ".strtab", kind: typeStrtab, align: 1, data: names},
		made{name: ".shstrtab", kind: typeStrtab, align: 1})
	titles := []byte{0}
	place := make([]uint32, len(all))
	for i := 1; i < len(all); i++ {
		place[i] = uint32(len(titles))
		titles = append(append(titles, all[i].name...), 0)
	}
	all[len(all)-1].data = titles

	out := bytes.Clone(t.o.file[:headerSize])
	heads := make([]byte, sectionSize)
	for i := 1; i < len(all); i++ {
		m := all[i]
		if m.link < 0 {
			m.link = symtab
		}
		out = padded(out, max(1, m.align))
		heads = order.AppendUint32(heads, place[i])
		heads = order.AppendUint32(heads, m.kind)
		for _, v := range []uint64{m.flags, 0, uint64(len(out)), uint64(len(m.data))} {
			heads = order.AppendUint64(heads, v)
		}
		heads = order.AppendUint32(heads, uint32(m.link))
		heads = order.AppendUint32(heads, uint32(m.info))
		heads = order.AppendUint64(heads, m.align)
		heads = order.AppendUint64(heads, m.entry)
		out = append(out, m.data...)
	}
	out = padded(out, 8)
	order.PutUint64(out[40:], uint64(len(out)))
	order.PutUint16(out[60:], uint16(len(all)))
	order.PutUint16(out[62:], uint16(len(all)-1))
	return append(out, heads...)
}

// padded fills up with zeros; an alignment that is no small power of two is taken for none.
func padded(b []byte, align uint64) []byte {
	if align > 4096 || align&(align-1) != 0 {
		return b
	}
	for uint64(len(b))%align != 0 {
		b = append(b, 0)
	}
	return b
}

// Layout of fatbins, see actions/fatbin.
const (
	fatbinMagic  = 0xba55ed50
	fatbinHead   = 16
	entryMin     = 0x40
	flagSpecific = 0x100000
)

// imagesFor keeps the images of exactly code's architecture, whatever their kind, or all if there is none: a link may
// take one of an older architecture then.
func imagesFor(data []byte, code gencode.Code) ([]byte, error) {
	var kept []byte
	for rest := data; len(rest) > 0; {
		if len(bytes.Trim(rest, "\x00")) == 0 {
			break
		}
		if len(rest) < fatbinHead || order.Uint32(rest) != fatbinMagic || order.Uint16(rest[6:]) != fatbinHead {
			return nil, fmt.Errorf("device code of an unknown form")
		}
		body := slice(rest, fatbinHead, order.Uint64(rest[8:]))
		if body == nil {
			return nil, fmt.Errorf("device code beyond the end of its section")
		}
		images, err := entriesFor(body, code)
		if err != nil {
			return nil, err
		}
		if images != nil {
			head := bytes.Clone(rest[:fatbinHead])
			order.PutUint64(head[8:], uint64(len(images)))
			kept = padded(append(append(kept, head...), images...), 8)
		}
		next := min(len(rest), (fatbinHead+len(body)+7)&^7)
		rest = rest[next:]
	}
	if kept == nil {
		return data, nil
	}
	return kept, nil
}

func entriesFor(body []byte, code gencode.Code) ([]byte, error) {
	var kept []byte
	for len(body) > 0 {
		if len(body) < entryMin {
			return nil, fmt.Errorf("device code of an unknown form")
		}
		head, size := uint64(order.Uint32(body[4:])), order.Uint64(body[8:])
		if head < entryMin || head > uint64(len(body)) || size > uint64(len(body))-head {
			return nil, fmt.Errorf("an image beyond the end of its fatbin")
		}
		entry := body[:head+size]
		specific := order.Uint64(body[0x28:])&flagSpecific != 0
		if int(order.Uint32(body[0x1c:])) == code.Num && specific == (code.Suffix != "") {
			kept = append(kept, entry...)
		}
		body = body[len(entry):]
	}
	return kept, nil
}
