// Package object cuts and joins objects: it puts device code into a host object, and takes out of an object or an
// archive what a device link of one architecture reads. It works on bytes of little-endian ELF64 and knows no
// files and no tools.
package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes and offsets of ELF64.
const (
	headerSize  = 64
	sectionSize = 64
	symbolSize  = 24
	relaSize    = 24

	typeProgbits = 1
	typeSymtab   = 2
	typeStrtab   = 3
	typeRela     = 4
	typeNobits   = 8

	undefined = 0
	reserved  = 0xff00 // section numbers from here on are no sections
)

var order = binary.LittleEndian

// errForm is the fault of everything that is no relocatable ELF64 object of the usual form.
var errForm = errors.New("not a relocatable little-endian ELF64 object")

// object is a parsed object; its parts point into the file.
type object struct {
	file     []byte
	sections []section // by number
	symtab   int       // section number; 0 if there is none
}

type section struct {
	name string
	head []byte // 64 bytes
	data []byte // nil for NOBITS
}

func (s *section) word(at int) uint32 { return order.Uint32(s.head[at:]) }
func (s *section) kind() uint32       { return s.word(4) }
func (s *section) link() int          { return int(s.word(40)) }
func (s *section) info() int          { return int(s.word(44)) }
func (s *section) align() uint64      { return order.Uint64(s.head[48:]) }

// slice is b[off:off+n], or nil if b is too short.
func slice(b []byte, off, n uint64) []byte {
	if off > uint64(len(b)) || n > uint64(len(b))-off {
		return nil
	}
	return b[off : off+n : off+n]
}

func parse(file []byte) (*object, error) {
	if len(file) < headerSize || string(file[:7]) != "\x7fELF\x02\x01\x01" || order.Uint16(file[16:]) != 1 ||
		order.Uint16(file[58:]) != sectionSize {
		return nil, errForm
	}
	count := uint64(order.Uint16(file[60:]))
	table := slice(file, order.Uint64(file[40:]), count*sectionSize)
	names := int(order.Uint16(file[62:]))
	if count == 0 || table == nil || uint64(names) >= count {
		return nil, fmt.Errorf("%w: no section table", errForm) // also more than 65,279 sections
	}
	o := &object{file: file, sections: make([]section, count)}
	for i := range o.sections {
		s := &o.sections[i]
		s.head = table[i*sectionSize : (i+1)*sectionSize]
		if s.kind() == typeNobits || i == 0 {
			continue
		}
		if s.data = slice(file, order.Uint64(s.head[24:]), order.Uint64(s.head[32:])); s.data == nil {
			return nil, fmt.Errorf("%w: a section beyond the end", errForm)
		}
		if s.kind() == typeSymtab {
			o.symtab = i
		}
	}
	for i := range o.sections {
		name, ok := text(o.sections[names].data, o.sections[i].word(0))
		if !ok {
			return nil, fmt.Errorf("%w: a section without a name", errForm)
		}
		o.sections[i].name = name
	}
	return o, nil
}

// text is the string at an offset of a string table.
func text(table []byte, at uint32) (string, bool) {
	if uint64(at) >= uint64(len(table)) {
		return "", at == 0
	}
	s, _, ok := bytes.Cut(table[at:], []byte{0})
	return string(s), ok
}

// symbol is an entry of the symbol table.
type symbol struct {
	name        string
	info, other byte
	section     int
	value, size uint64
}

func (s symbol) local() bool { return s.info>>4 == 0 }

// symbols reads the symbol table; number 0 is the empty one.
func (o *object) symbols() ([]symbol, error) {
	if o.symtab == 0 {
		return nil, nil
	}
	t := &o.sections[o.symtab]
	if t.link() >= len(o.sections) || len(t.data)%symbolSize != 0 {
		return nil, fmt.Errorf("%w: a broken symbol table", errForm)
	}
	names := o.sections[t.link()].data
	out := make([]symbol, len(t.data)/symbolSize)
	for i := range out {
		e := t.data[i*symbolSize:]
		name, ok := text(names, order.Uint32(e))
		if !ok {
			return nil, fmt.Errorf("%w: a symbol without a name", errForm)
		}
		out[i] = symbol{name, e[4], e[5], int(order.Uint16(e[6:])), order.Uint64(e[8:]), order.Uint64(e[16:])}
	}
	return out, nil
}
