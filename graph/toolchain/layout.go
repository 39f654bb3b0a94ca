package toolchain

import (
	"path"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/fileset"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Layout is the layout of a build tree.
type Layout struct{ BuildDir string }

// Names that are short enough stay unchanged. A name has at most 255 bytes (NAME_MAX), and an
// absolute path 4095. Files in bin, lib, modules and gen, which users name, may use all of that.
// kbuild's own names leave room for the extensions that kbuild and compilers append. The longest
// known are those of llvm-objcopy's temporary files, 18 to 20 bytes.
const (
	mostOfName = 255
	mostOfOwn  = 224
	mostOfPath = 3500 // in the build tree, without the last name
)

// Out returns a path in the build tree, shortened if necessary.
func (l Layout) Out(elem ...string) string {
	rel := path.Join(elem...)
	if len(rel) > mostOfOwn {
		most := mostOfOwn
		first, _, _ := strings.Cut(rel, "/")
		if first == "bin" || first == "lib" || first == "modules" || first == fileset.GenDir {
			most = mostOfName
		}
		if dir, file := path.Split(rel); len(dir) > mostOfPath {
			rel = path.Join(first, SourceHash("", dir, "")[:32], file)
		}
		names := strings.Split(rel, "/")
		for i, n := range names {
			names[i] = graph.ShortName(n, most)
		}
		rel = strings.Join(names, "/")
	}
	return path.Join(l.BuildDir, rel)
}

// InTree converts a path of a source, or of a file of the build tree, to one that stays inside a
// folder of the build tree.
func (l Layout) InTree(p string) string {
	if rest, ok := strings.CutPrefix(p, l.BuildDir+"/"); ok {
		return rest
	}
	if path.IsAbs(p) {
		return "_abs" + p
	}
	return strings.ReplaceAll(p, "../", "_up/")
}

// ObjectPath returns obj/library.solver/src/x.cu.o for src/x.cu. It keeps the folder and the
// extension, so that x.cu, x.cpp and sub/x.cu of one target do not collide.
func (l Layout) ObjectPath(t *Target, s manifest.Source) string {
	return l.Out("obj", t.Folder(), l.InTree(s.Path)+".o")
}

// ArtifactPath returns modules/gemm.f16.64.sm_80.cubin for a module of one source, and
// modules/NAME/STEM.sm_80.cubin for one of several.
func (l Layout) ArtifactPath(t *Target, s *manifest.Source, arch, kind string) string {
	file := t.InstanceName()
	if s != nil && len(t.Sources) > 1 {
		file += "/" + strings.TrimSuffix(l.InTree(s.Path), path.Ext(s.Path))
	}
	if arch != "" {
		file += "." + arch
	}
	return l.Out("modules", file+"."+kind)
}
