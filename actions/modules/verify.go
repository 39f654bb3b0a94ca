package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

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
