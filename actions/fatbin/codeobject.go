package fatbin

import (
	"bytes"
	"debug/elf"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// machineAMDGPU is the ELF machine number of AMD's code objects.
const machineAMDGPU = 224

// readCodeObject describes a bare code object. Since version 4 of the format its metadata names the
// target; the name of an older one stays empty.
func readCodeObject(e *elf.File, data []byte) (File, error) {
	img := Image{Image: gencode.Image{Kind: gencode.GFX}, Size: int64(len(data))}
	f := File{Kind: CodeObject}
	left := uint64(len(data))
	for _, s := range e.Sections {
		if s.Type != elf.SHT_NOTE {
			continue
		}
		notes, err := takeSection(s, data, &left)
		if err != nil {
			return f, err
		}
		if name, feature, ok := targetOf(metadataTarget(notes)); ok {
			img.Name, img.Feature = name, feature
		}
	}
	f.Members = []Member{{Images: []Image{img}}}
	return f, nil
}

// metadataTarget returns the value of amdhsa.target, "amdgcn-amd-amdhsa--gfx90a:xnack-". The
// metadata is a MessagePack note. A short text is its length plus 0xa0, a longer one is 0xd9 and
// its length, then its bytes. The key follows everything about kernels.
func metadataTarget(notes []byte) string {
	const key = "\xadamdhsa.target"
	at := bytes.LastIndex(notes, []byte(key))
	if at < 0 {
		return ""
	}
	value := notes[at+len(key):]
	n := 0
	switch {
	case len(value) > 0 && value[0]&0xe0 == 0xa0:
		n, value = int(value[0]&0x1f), value[1:]
	case len(value) > 1 && value[0] == 0xd9:
		n, value = int(value[1]), value[2:]
	}
	return string(value[:min(n, len(value))])
}
