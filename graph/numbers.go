package graph

import (
	"encoding/binary"
	"unsafe"
)

// numbers is b as numbers, where it lies if the machine can read it there.
func numbers(b []byte) []uint32 {
	if len(b) == 0 {
		return nil
	}
	one := uint16(1)
	little := *(*byte)(unsafe.Pointer(&one)) == 1
	if little && uintptr(unsafe.Pointer(&b[0]))%4 == 0 {
		return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4)
	}
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}
