package manifest

import (
	"path/filepath"
	"slices"
	"strings"
)

// A toolchain block names the compiler to use. The CUDA toolkit is found on the system, is in a
// given folder, or is pinned: NVIDIA's own wheels, which a lock file lists.

var toolchainKinds = []string{"cuda", "hip"}

func (l *loader) decodeToolchain(b *block) {
	if !slices.Contains(toolchainKinds, b.name) {
		l.unknown(b.nameRng, "toolchain", b.name, toolchainKinds, "no toolchain named %q", b.name)
		return
	}
	var t struct {
		Toolchain
		From string `attr:"from"`
	}
	r := l.reader(b, nil)
	t.AttrPos = r.decode(&t)
	t.Pos, t.Pinned = position(b.rng), t.From == "pypi"
	r.toolkit(t.Toolchain)
	if t.Pinned {
		t.LockFile = strings.TrimSuffix(l.project.File, filepath.Ext(l.project.File)) + ".lock"
		if text, err := l.fsys.ReadFile(t.LockFile); err == nil {
			l.project.Files, l.project.sources[t.LockFile] = append(l.project.Files, t.LockFile), text
		}
	}
	l.project.Toolchains[b.name] = t.Toolchain
}

var releaseRE = pattern(`^[0-9]{1,9}(\.[0-9]{1,9}){2,3}$`)

// toolkit reports attributes of the CUDA toolkit that conflict.
func (r *reader) toolkit(t Toolchain) {
	for _, name := range []string{"from", "path", "parts"} {
		if r.b.name != "cuda" && r.find(name) != nil {
			r.fault(name, "", "%s is for toolchain \"cuda\"", name)
			return
		}
	}
	const one = "Remove one of them."
	switch {
	case t.Path != "" && t.Pinned:
		r.fault("path", one, "path names a toolkit, and from = \"pypi\" another")
	case t.Path != "" && t.Compiler != "":
		r.fault("compiler", one, "compiler names a program, and path the toolkit whose nvcc compiles")
	case t.Pinned && t.Compiler != "":
		r.fault("compiler", one, "compiler names a program, and the nvcc of from = \"pypi\" compiles")
	case t.Pinned && t.Version == "":
		r.fault("from", `For example: version = "13.5.0".`,
			"from = \"pypi\" needs a version, which is missing")
	case t.Pinned && !releaseRE().MatchString(t.Version):
		r.fault("version", `For example: version = "13.5.0".`,
			"from = \"pypi\" needs one exact version, and this is %q", t.Version)
	case t.Pinned && versionNumbers(t.Version)[0] < 13:
		r.fault("version", "PyPI has nvcc from 13.0.0 on. Install this one, and name its folder: "+
			`path = "/usr/local/cuda".`,
			"CUDA %s is not on PyPI", t.Version)
	case !t.Pinned && len(t.Parts) > 0:
		r.fault("parts", "", "parts is for from = \"pypi\"")
	}
}
