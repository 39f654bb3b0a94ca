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
