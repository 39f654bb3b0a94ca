// Package fatbin finds device code of NVIDIA and AMD in files: objects, archives, shared libraries,
// programs, bare fatbins and bundles. It also replaces the device code of an object, and reduces
// objects to what a device link reads. It works on bytes alone, knows nothing of toolkits, and
// never trusts a size that a file states.
package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Kind is the kind of a file.
type Kind int

const (
	Object Kind = iota
	Archive
	Shared
	Executable
	Fatbin // bare
	Cubin
	LTOIR      // bare LTO-IR, as `nvcc --keep` writes it
	Bundle     // clang offload bundle, as `hipcc --genco` writes it
	CodeObject // of an AMD processor
	Bitcode    // bare LLVM bitcode
)

func (k Kind) String() string {
	return [...]string{"object", "archive", "shared library", "executable", "fatbin", "cubin", "LTO-IR", "offload bundle", "code object", "bitcode"}[k]
}

// File is the device code of a file.
type File struct {
	Kind    Kind
	Members []Member // with device code, in order; an archive may have several
}

// Member is an object with device code.
type Member struct {
	Name string `json:"name"`
	// Relocatable reports that it takes part in a device link: it has __nv_relfatbin, AMD bitcode
	// or .llvm.offloading, or is a bare file for a link.
	Relocatable bool `json:"relocatable"`
	// NewDriver reports that it has .llvm.offloading, and takes part only in device links of
	// clang's new offload driver.
	NewDriver bool    `json:"new_driver,omitempty"`
	Images    []Image `json:"images"`

	// Fatbins are the symbols by which its host code refers to HIP code that is not linked yet:
	// "__hip_fatbin", "__hip_fatbin_7fc235930abc2441".
	Fatbins []string `json:"-"`

	// Versions are the newest versions of its code for NVIDIA's linker, by kind.
	Versions map[gencode.Kind]gencode.Version `json:"-"`
}

// Image is one piece of device code.
type Image struct {
	gencode.Image
	Size     int64  // bytes as stored; 0 if it is compressed together with other images
	Unpacked int64  // bytes after decompression; 0 if it is not compressed
	Options  string // options of cicc (LTO-IR) or ptxas (PTX), "" if not recorded
	Source   string // source file as the command spelled it; recorded only with -g and -lineinfo
}

// MarshalJSON writes
// {"code":"sm_80","kind":"SASS","size":N,"unpacked":N,"options":"...","source":"..."}. It omits
// unpacked and source if they are empty.
func (i Image) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Code     string `json:"code"`
		Kind     string `json:"kind"`
		Size     int64  `json:"size"`
		Unpacked int64  `json:"unpacked,omitempty"`
		Options  string `json:"options"`
		Source   string `json:"source,omitempty"`
	}{i.Code().String(), i.Kind.String(), i.Size, i.Unpacked, i.Options, i.Source})
}

// ReadFile finds the device code in the named file, which may be large: it is mapped.
func ReadFile(name string) (file File, err error) {
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	var data []byte
	if info.Size() > 0 {
		data, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
		if err != nil {
			return File{}, fmt.Errorf("reading %s: %w", name, err)
		}
		defer unix.Munmap(data)
	}
	// Where a program truncates the file, a read faults.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("reading %s: it was truncated meanwhile", name)
		default:
			panic(p)
		}
	}()
	if file, err = Read(data); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return file, nil
}

// Magic numbers of bare files of device code.
var (
	fatbinMagic = []byte{0x50, 0xed, 0x55, 0xba}
	ltoirMagic  = []byte{0xed, 0x43, 0x4e, 0x7f}
)

// Read finds the device code in the content of a file.
func Read(data []byte) (File, error) {
	has := func(magic []byte) bool { return bytes.HasPrefix(data, magic) }
	switch {
	case len(data) < 4:
		return File{}, errors.New("too short")
	case has([]byte(arMagic)):
		return readArchive(data)
	case has([]byte("!<thin>\n")):
		return File{}, errors.New("it is a thin archive, which holds names instead of objects; make an ordinary one (ar without T)")
	case has(fatbinMagic):
		images, err := readImages(data)
		m := Member{Images: images, Relocatable: err == nil && isLinkable(data, images)}
		if m.Relocatable {
			m.Versions = versionsOf(data)
		}
		return File{Kind: Fatbin, Members: []Member{m}}, err
	case has(ltoirMagic):
		return readLTOIR(data)
	case has([]byte(elf.ELFMAG)):
		return readELF(data)
	case has(bundleMagic[:min(len(data), len(bundleMagic))]), has(compressedBundleMagic):
		images, err := readBundles(data)
		return File{Kind: Bundle, Members: []Member{{Images: images}}}, err
	case has(bitcodeMagic): // its target is deep inside
		img := Image{Image: gencode.Image{Kind: gencode.Bitcode}, Size: int64(len(data))}
		return File{Kind: Bitcode, Members: []Member{{Images: []Image{img}}}}, nil
	}
	return File{}, errors.New("it is no object, archive, library, program, fatbin or bundle")
}
