package modules

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// An AMD code object describes its kernels in a note of type 32 and name AMDGPU. The note is a
// MessagePack map, as the LLVM documentation "User Guide for AMDGPU Backend" describes for code
// object versions 3 and later.
const noteMetadata = 32

// readCodeObject describes an AMD code object.
func readCodeObject(e *elf.File) (modinfo.Artifact, error) {
	a := modinfo.Artifact{Kind: "hsaco", Kernels: []modinfo.Kernel{}}
	note, err := metadataNote(e)
	if err != nil {
		return a, err
	}
	value, err := decodeMessagePack(note)
	if err != nil {
		return a, fmt.Errorf("its metadata: %w", err)
	}
	meta, _ := value.(map[string]any)
	target, _ := meta["amdhsa.target"].(string)
	if a.Arch, err = gpuOf(target); err != nil {
		return a, err
	}
	kernels, _ := meta["amdhsa.kernels"].([]any)
	for _, k := range kernels {
		fields, _ := k.(map[string]any)
		kernel, ok := amdKernel(fields)
		if !ok {
			return a, errors.New("its metadata has a kernel without a name, size or parameters")
		}
		a.Kernels = append(a.Kernels, kernel)
	}
	sortKernels(a.Kernels)
	return a, nil
}

// metadataNote returns the metadata in the program's note segments.
func metadataNote(e *elf.File) ([]byte, error) {
	for _, p := range e.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, err
		}
		for len(notes) >= 12 {
			nameSize, size, kind := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:]), binary.LittleEndian.Uint32(notes[8:])
			name, rest, ok := padded(notes[12:], nameSize)
			desc, rest, ok2 := padded(rest, size)
			if !ok || !ok2 {
				return nil, errors.New("a note is longer than its segment")
			}
			if kind == noteMetadata && string(bytes.TrimRight(name, "\x00")) == "AMDGPU" {
				return desc, nil
			}
			notes = rest
		}
	}
	return nil, errors.New("it has no metadata of kernels; it is not linked, or older than code object version 3")
}

// padded splits off size bytes and the padding up to a multiple of four.
func padded(b []byte, size uint32) (taken, rest []byte, ok bool) {
	full := (uint64(size) + 3) &^ 3
	if uint64(size) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:size], b[min(full, uint64(len(b))):], true
}

// gpuOf returns gfx90a:xnack- for "amdgcn-amd-amdhsa--gfx90a:xnack-", and for
// "amdgcn-amd-amdhsa-unknown-gfx90a:xnack-", which clang 23 writes.
func gpuOf(target string) (string, error) {
	_, gpu, _ := strings.Cut(strings.TrimPrefix(target, "amdgcn-amd-amdhsa-"), "-")
	if c, err := gencode.Parse(gpu); err != nil || c.Kind != gencode.GFX || c.Name == gencode.SPIRVTarget {
		return "", fmt.Errorf("it is for %q, which is no GPU", target)
	}
	return gpu, nil
}

// amdKernel reads the metadata of one kernel. A launch uses .name; .symbol names the descriptor.
func amdKernel(fields map[string]any) (k modinfo.Kernel, ok bool) {
	name, named := fields[".name"].(string)
	size, sized := fields[".kernarg_segment_size"].(int64)
	k = modinfo.Kernel{Name: name, Demangled: Demangled(name), ParamBytes: int(size), Params: []modinfo.Param{}}
	args, _ := fields[".args"].([]any)
	for i, arg := range args {
		arg, _ := arg.(map[string]any)
		offset, ok1 := arg[".offset"].(int64)
		size, ok2 := arg[".size"].(int64)
		kind, ok3 := arg[".value_kind"].(string)
		if !ok1 || !ok2 || !ok3 {
			return k, false
		}
		k.Params = append(k.Params, modinfo.Param{Index: i, Offset: int(offset), Size: int(size), ValueKind: kind})
	}
	return k, named && sized
}

// readBundle describes a bundle of hipcc --genco, code object by code object.
func readBundle(file []byte) (modinfo.Artifact, error) {
	a := modinfo.Artifact{Kind: "fatbin", Images: []modinfo.Image{}}
	entries, err := fatbin.Bundled(file)
	if err != nil {
		return a, fmt.Errorf("the table of the bundle is damaged: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.ID, "host-") {
			continue
		}
		inner, err := readELF(e.Bytes)
		if err != nil {
			return a, fmt.Errorf("its code for %s: %w", e.ID, err)
		}
		a.Images = append(a.Images, modinfo.Image{Kind: inner.Kind, Arch: inner.Arch, Kernels: inner.Kernels})
	}
	return a, nil
}

var errMessagePack = errors.New("it is no MessagePack, or cut short")

const maxNesting = 16

// decodeMessagePack decodes one value to the types of encoding/json, with int64 for numbers: nil,
// bool, int64, string, []any, map[string]any. It rejects floating-point numbers, binary data and
// extensions, which the metadata of code objects never has.
func decodeMessagePack(b []byte) (any, error) {
	d := messagePack{b}
	v, ok := d.value(0)
	if !ok {
		return nil, errMessagePack
	}
	return v, nil
}

type messagePack struct{ rest []byte }

// take returns the next n bytes.
func (d *messagePack) take(n int) ([]byte, bool) {
	if n > len(d.rest) {
		return nil, false
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b, true
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (d *messagePack) number(size int) (uint64, bool) {
	b, ok := d.take(size)
	if !ok {
		return 0, false
	}
	var full [8]byte
	copy(full[8-size:], b)
	return binary.BigEndian.Uint64(full[:]), true
}

func (d *messagePack) value(depth int) (any, bool) {
	head, ok := d.take(1)
	if !ok || depth > maxNesting {
		return nil, false
	}
	switch c := head[0]; {
	case c < 0x80:
		return int64(c), true
	case c < 0x90:
		return d.mapOf(uint64(c&0x0f), depth)
	case c < 0xa0:
		return d.listOf(uint64(c&0x0f), depth)
	case c < 0xc0:
		return d.text(uint64(c & 0x1f))
	case c == 0xc0:
		return nil, true
	case c == 0xc2 || c == 0xc3:
		return c == 0xc3, true
	case c >= 0xcc && c <= 0xcf:
		n, ok := d.number(1 << (c - 0xcc))
		return int64(n), ok && n < 1<<63
	case c >= 0xd0 && c <= 0xd3:
		size := 1 << (c - 0xd0)
		n, ok := d.number(size)
		return int64(n<<(64-8*size)) >> (64 - 8*size), ok
	case c >= 0xd9 && c <= 0xdb:
		return d.sized(c-0xd9, depth, func(n uint64, _ int) (any, bool) { return d.text(n) })
	case c == 0xdc || c == 0xdd:
		return d.sized(c-0xdc+1, depth, d.listOf)
	case c == 0xde || c == 0xdf:
		return d.sized(c-0xde+1, depth, d.mapOf)
	case c >= 0xe0:
		return int64(int8(c)), true
	}
	return nil, false
}

// sized reads a length of 1<<log bytes, and passes it to read.
func (d *messagePack) sized(log byte, depth int, read func(uint64, int) (any, bool)) (any, bool) {
	n, ok := d.number(1 << log)
	if !ok || n > uint64(len(d.rest)) { // every element takes a byte
		return nil, false
	}
	return read(n, depth)
}

func (d *messagePack) text(n uint64) (any, bool) {
	b, ok := d.take(int(n))
	return string(b), ok
}

func (d *messagePack) listOf(n uint64, depth int) (any, bool) {
	list := []any{}
	for range n {
		v, ok := d.value(depth + 1)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, true
}

func (d *messagePack) mapOf(n uint64, depth int) (any, bool) {
	m := map[string]any{}
	for range n {
		key, ok := d.value(depth + 1)
		name, isText := key.(string)
		if !ok || !isText {
			return nil, false
		}
		if m[name], ok = d.value(depth + 1); !ok {
			return nil, false
		}
	}
	return m, true
}
