package plan

import (
	"cmp"
	"path"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Layout of the build tree.

// Names that are short enough stay unchanged. A name has at most 255 bytes (NAME_MAX), and an
// absolute path 4095. Files in bin, lib, modules and gen, which users name, may use all of that.
// kbuild's own names leave room for the extensions that kbuild and compilers append. The longest
// known are those of llvm-objcopy's temporary files, 18 to 20 bytes.
const (
	mostOfName = 255
	mostOfOwn  = 224
	mostOfPath = 3500 // in the build tree, without the last name
)

// out returns a path in the build tree, shortened if necessary.
func (g *given) out(elem ...string) string {
	rel := path.Join(elem...)
	if len(rel) > mostOfOwn {
		most := mostOfOwn
		first, _, _ := strings.Cut(rel, "/")
		if first == "bin" || first == "lib" || first == "modules" || first == graph.GenDir {
			most = mostOfName
		}
		if dir, file := path.Split(rel); len(dir) > mostOfPath {
			rel = path.Join(first, toolchain.SourceHash("", dir, "")[:32], file)
		}
		names := strings.Split(rel, "/")
		for i, n := range names {
			names[i] = graph.ShortName(n, most)
		}
		rel = strings.Join(names, "/")
	}
	return path.Join(g.project.BuildDir, rel)
}

// inTree converts a source path to one that stays inside a folder of the build tree.
func (g *given) inTree(p string) string {
	if rest, ok := strings.CutPrefix(p, g.project.BuildDir+"/"); ok {
		return rest
	}
	if path.IsAbs(p) {
		return "_abs" + p
	}
	return strings.ReplaceAll(p, "../", "_up/")
}

// objectPath returns obj/library.solver/src/x.cu.o for src/x.cu. It keeps the folder and the
// extension, so that x.cu, x.cpp and sub/x.cu of one target do not collide.
func (g *given) objectPath(t *target, s manifest.Source) string {
	return g.out("obj", fileName(t), g.inTree(s.Path)+".o")
}

// artifactPath returns modules/gemm.f16.64.sm_80.cubin for a module of one source, and
// modules/NAME/STEM.sm_80.cubin for one of several.
func (g *given) artifactPath(t *target, s *manifest.Source, arch, kind string) string {
	file := instanceName(t)
	if s != nil && len(t.Sources) > 1 {
		file += "/" + strings.TrimSuffix(g.inTree(s.Path), path.Ext(s.Path))
	}
	if arch != "" {
		file += "." + arch
	}
	return g.out("modules", file+"."+kind)
}

// fileName returns the folder of a target's objects: library.solver, module.gemm.f16.64.
func fileName(t *target) string { return string(t.Kind) + "." + instanceName(t) }

// instanceName returns the file name stem of a target: gemm.f16.64 for gemm:dtype=f16,tile=64,
// bench.copy for bench:copy.
func instanceName(t *target) string {
	name := graph.Flat(cmp.Or(t.Base, t.Name))
	if t.Each != "" {
		name += "." + toolchain.FileName(t.Each)
	}
	for _, v := range t.Matrix {
		name += "." + toolchain.FileName(v.Value)
	}
	return name
}

// variantName returns "dtype=f16,tile=64", or "" without a matrix.
func variantName(t *target) string {
	if len(t.Matrix) == 0 {
		return ""
	}
	return t.Name[len(t.Base)+1:]
}
