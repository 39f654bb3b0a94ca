package manifest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A toolchain block names the compiler to use. The CUDA toolkit is found on the system, is in a
// given folder, or is pinned: NVIDIA's own wheels, which a lock file lists.

var toolchainKinds = []string{"cuda", "hip"}

func (l *loader) decodeToolchain(b *block) {
	if !slices.Contains(toolchainKinds, b.name) {
		l.errorAt(b.nameRng, knownNames("toolchain", toolchainKinds), "no toolchain named %q%s", b.name, didYouMean(b.name, toolchainKinds))
		return
	}
	r := l.reader(b, nil)
	var t Toolchain
	t.Compiler, _ = r.text("compiler")
	t.HostCompiler, _ = r.text("host_compiler")
	t.Version, _ = r.text("version")
	t.Path, t.Pinned, t.Parts = r.path("path"), r.enum("from") == "pypi", r.parts()
	if t.Version != "" {
		if _, err := ParseConstraint(t.Version); err != nil {
			l.errorAt(r.find("version").Expr.Range(), "", "version: %v", err)
		}
	}
	r.toolkit(t)
	if t.Pinned {
		t.LockFile = strings.TrimSuffix(l.project.File, filepath.Ext(l.project.File)) + ".lock"
		if text, err := l.fsys.ReadFile(t.LockFile); err == nil {
			l.project.Files, l.project.sources[t.LockFile] = append(l.project.Files, t.LockFile), text
		}
	}
	t.Pos, t.AttrPos = position(b.rng), r.attrPos()
	l.project.Toolchains[b.name] = t
}

var releaseRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){2,3}$`) })

var partRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+([-_.][a-z0-9]+)*$`) })

// parts reads the names of extras of the toolkit.
func (r *reader) parts() (names []string) {
	for _, it := range r.texts("parts") {
		if !partRE().MatchString(it.text) {
			r.l.errorAt(it.rng, "Extras of cuda-toolkit have names such as cublas.", "%q is no part of a toolkit", it.text)
		}
		names = append(names, it.text)
	}
	return names
}

// toolkit reports attributes of the CUDA toolkit that conflict.
func (r *reader) toolkit(t Toolchain) {
	refuse := func(attribute, detail, format string, args ...any) {
		r.l.errorAt(r.find(attribute).Expr.Range(), detail, format, args...)
	}
	for _, name := range []string{"from", "path", "parts"} {
		if r.b.name != "cuda" && r.find(name) != nil {
			refuse(name, "", "%s is for toolchain \"cuda\"", name)
			return
		}
	}
	const one = "Remove one of them."
	switch {
	case t.Path != "" && t.Pinned:
		refuse("path", one, "path names a toolkit, and from = \"pypi\" another")
	case t.Path != "" && t.Compiler != "":
		refuse("compiler", one, "compiler names a program, and path the toolkit whose nvcc compiles")
	case t.Pinned && t.Compiler != "":
		refuse("compiler", one, "compiler names a program, and the nvcc of from = \"pypi\" compiles")
	case t.Pinned && t.Version == "":
		refuse("from", `For example: version = "13.5.0".`, "from = \"pypi\" needs a version, which is missing")
	case t.Pinned && !releaseRE().MatchString(t.Version):
		refuse("version", `For example: version = "13.5.0".`, "from = \"pypi\" needs one exact version, and this is %q", t.Version)
	case t.Pinned && versionNumbers(t.Version)[0] < 13:
		refuse("version", `PyPI has nvcc from 13.0.0 on. Install this one, and name its folder: path = "/usr/local/cuda".`,
			"CUDA %s is not on PyPI", t.Version)
	case !t.Pinned && len(t.Parts) > 0:
		refuse("parts", "", "parts is for from = \"pypi\"")
	}
}
