// Package modules describes the artifacts of modules: their kind and architecture, and which
// kernels they export with which parameters. It also checks manifests against the files beside
// them. It works on bytes alone, and knows nothing of toolkits, graphs or how a file was built.
package modules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// Magic numbers of files.
const (
	elfMagic    = "\x7fELF"
	fatbinMagic = "\x50\xed\x55\xba"
	ltoirMagic  = "\xed\x43\x4e\x7f"

	bitcodeMagic = "BC\xc0\xde"

	bundleMagic           = "__CLANG_OFFLOAD_BUNDLE__"
	compressedBundleMagic = "CCOB"
)

// Describe returns the description of a file: an artifact without its name and, for LTO-IR, its
// symbols. The architecture of bare LTO-IR lacks the "f" of a family, which the file does not
// record; that of LLVM bitcode is "".
func Describe(file []byte) (modinfo.Artifact, error) {
	a, err := describe(file)
	a.Size, a.SHA256 = int64(len(file)), Digest(file)
	return a, err
}

// Digest returns the SHA-256 of a file in the form of manifests.
func Digest(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

func describe(file []byte) (modinfo.Artifact, error) {
	has := func(magic string) bool { return bytes.HasPrefix(file, []byte(magic)) }
	switch {
	case has(elfMagic):
		return readELF(file)
	case has(fatbinMagic):
		return readFatbin(file)
	case has(ltoirMagic):
		f, err := fatbin.Read(file)
		if err != nil {
			return modinfo.Artifact{}, err
		}
		return modinfo.Artifact{Kind: "ltoir", Arch: f.Members[0].Images[0].Code().String()}, nil
	case has(bundleMagic):
		return readBundle(file)
	case has(bitcodeMagic):
		return modinfo.Artifact{Kind: "bitcode"}, nil
	case has(compressedBundleMagic):
		return modinfo.Artifact{}, errors.New("it is a compressed bundle of AMD code; make one without --offload-compress")
	}
	p, err := readPTX(file)
	if err != nil {
		return modinfo.Artifact{}, err
	}
	return modinfo.Artifact{Kind: "ptx", Arch: p.arch, Kernels: p.kernels()}, nil
}

// imageKinds maps a kind of code to the artifact kind of a file with only that code.
var imageKinds = map[gencode.Kind]string{gencode.SASS: "cubin", gencode.PTX: "ptx", gencode.LTO: "ltoir"}

// readFatbin describes a bare fatbin, image by image.
func readFatbin(file []byte) (modinfo.Artifact, error) {
	contents, err := fatbin.Contents(file)
	if err != nil {
		return modinfo.Artifact{}, err
	}
	a := modinfo.Artifact{Kind: "fatbin", Images: []modinfo.Image{}}
	for _, c := range contents {
		img := modinfo.Image{Kind: imageKinds[c.Kind], Arch: c.Code().String()}
		if c.Bytes != nil && c.Kind != gencode.LTO {
			inner, err := describe(c.Bytes)
			if err != nil {
				return a, fmt.Errorf("its image for %s: %w", img.Arch, err)
			}
			img.Kernels = inner.Kernels
		}
		a.Images = append(a.Images, img)
	}
	return a, nil
}

// Demangled returns the name of a kernel or function as in its source.
func Demangled(name string) string { return demangle.Filter(name) }

// Readable returns a symbol as in its source, with the mangled name.
func Readable(symbol string) string {
	if d := Demangled(symbol); d != symbol {
		return fmt.Sprintf("%s (%s)", d, symbol)
	}
	return symbol
}

func sortKernels(kernels []modinfo.Kernel) {
	slices.SortFunc(kernels, func(a, b modinfo.Kernel) int { return strings.Compare(a.Name, b.Name) })
}
