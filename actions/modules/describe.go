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
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache/regular"
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

// Verify reads the manifest in the named file and checks the artifacts beside it. It returns every
// difference from the manifest, and no problem for a correct manifest.
func Verify(name string) (*modinfo.Manifest, []modinfo.Problem) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, []modinfo.Problem{{Message: "is a folder; name the .json files in it"}}
	}
	text, err := regular.Read(name)
	if err != nil {
		return nil, []modinfo.Problem{{Message: "cannot be read: " + reason(err)}}
	}
	m, problems := modinfo.Decode(text)
	if m == nil {
		return nil, problems
	}
	for i, a := range m.Artifacts {
		if filepath.IsLocal(filepath.FromSlash(a.File)) { // Decode reports other names
			problems = append(problems, verifyArtifact(filepath.Dir(name), fmt.Sprintf("artifacts[%d]", i), a)...)
		}
	}
	return m, problems
}

// Load reads a manifest that a build wrote, and returns it also as an artifact of the kind
// "manifest".
func Load(name string) (m *modinfo.Manifest, self modinfo.Artifact, err error) {
	text, err := regular.Read(name)
	if err != nil {
		return nil, self, err
	}
	m, problems := modinfo.Decode(text)
	if problems != nil {
		return nil, self, fmt.Errorf("BUG: %s: %v", name, problems)
	}
	return m, modinfo.Artifact{File: filepath.Base(name), Kind: "manifest", Size: int64(len(text)), SHA256: Digest(text)}, nil
}

func verifyArtifact(dir, field string, given modinfo.Artifact) []modinfo.Problem {
	file, err := regular.Read(filepath.Join(dir, filepath.FromSlash(given.File)))
	if err != nil {
		return []modinfo.Problem{{Field: field + ".file", Message: fmt.Sprintf("is %s, which cannot be read: %s", given.File, reason(err))}}
	}
	found, err := Describe(file)
	found.File = given.File
	if found.Kind == given.Kind && SameArch(given.Kind, given.Arch, found.Arch) {
		found.Arch = given.Arch
	}
	if err != nil { // size and digest are known even so
		found.Kind, found.Arch, found.Images, found.Kernels = given.Kind, given.Arch, given.Images, given.Kernels
		unread := modinfo.Problem{Field: field + ".kind", Message: fmt.Sprintf("is %s, which the file %s is not: %v", given.Kind, given.File, err)}
		return append(modinfo.Compare(field, given, found), unread)
	}
	return modinfo.Compare(field, given, found)
}

// SameArch reports whether a file of the stated kind that records the architecture found may be for
// given. Bare LTO-IR does not record whether it is for a family: that of lto_100f is byte for byte
// that of lto_100. Before 13 it does not record either whether it is for one chip alone. What
// nvlink 13.0 to 13.2 generate from LTO-IR records too little: PTX of compute_90a names sm_90, a
// cubin for sm_100f sm_100. LLVM bitcode records nothing.
func SameArch(kind, given, found string) bool {
	switch kind {
	case "ltoir", "ptx":
		return given == found || strings.TrimRight(given, "af") == found
	case "cubin":
		return given == found || strings.TrimSuffix(given, "f") == found
	}
	return given == found || kind == "bitcode" && found == ""
}

// reason returns an error without the path, which the message already has.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
