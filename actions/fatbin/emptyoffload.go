package fatbin

import (
	"encoding/binary"
	"strings"
)

// EmptyOffload returns empty HIP code for architectures in the form of clang's new offload driver:
// one OffloadBinary of version 1 after another. A dry run of clang-linker-wrapper accepts it as
// input.
func EmptyOffload(archs []string) []byte {
	var out []byte
	for _, arch := range archs {
		out = append(out, emptyOffload(arch)...)
	}
	return out
}

// Values in the entry of an image.
const (
	imageBitcode = 2
	offloadHIP   = 4
)

func emptyOffload(arch string) []byte {
	words := []string{"arch", arch, "triple", "amdgcn-amd-amdhsa"}
	// places is where the string offsets are, 16 bytes for each key and its value.
	const places = offloadHeadSize + offloadEntrySize
	text := places + 8*len(words)
	size := text + len(strings.Join(words, "\x00")) + 1
	size += -size & 7
	b := make([]byte, size)
	copy(b, offloadMagic)
	le := binary.LittleEndian
	for at, value := range map[int]int{4: 1, 8: size, 16: offloadHeadSize, 24: offloadEntrySize,
		offloadHeadSize: imageBitcode | offloadHIP<<16, offloadHeadSize + 8: places, offloadHeadSize + 16: len(words) / 2, offloadHeadSize + 24: size} {
		le.PutUint32(b[at:], uint32(value)) // the upper halves are 0
	}
	for i, w := range words {
		le.PutUint64(b[places+8*i:], uint64(text))
		text += copy(b[text:], w) + 1
	}
	return b
}
