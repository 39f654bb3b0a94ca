// Package devcode builds containers of device code for pretended compilers, in the format of the
// real ones. It does not know what the code in them means.
package devcode

import "encoding/binary"

// Container builds a fatbin from its entries.
func Container(entries []byte) []byte {
	head := []byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0}
	return append(binary.LittleEndian.AppendUint64(head, uint64(len(entries))), entries...)
}

// Entry builds an image of a fatbin. kind is 1 for PTX, 2 for machine code, 8 for LTO-IR. For sm_80
// arch is 80.
func Entry(kind uint16, arch int, content []byte) []byte {
	content = append(content, make([]byte, -len(content)&7)...)
	e := make([]byte, 0x40)
	binary.LittleEndian.PutUint16(e, kind)
	binary.LittleEndian.PutUint32(e[4:], uint32(len(e)))
	binary.LittleEndian.PutUint64(e[8:], uint64(len(content)))
	binary.LittleEndian.PutUint32(e[0x1c:], uint32(arch))
	return append(e, content...)
}

// LTOIR builds LTO-IR for compute_ARCH that contains text.
func LTOIR(text string, arch int) []byte {
	head := make([]byte, 0x20)
	copy(head, "\xed\x43\x4e\x7f")
	for i, word := range []uint16{1, uint16(arch * 10), 99} { // pairs: architecture, end
		binary.LittleEndian.PutUint16(head[0x18+2*i:], word)
	}
	return append(head, "\n"+text...)
}
