package manifest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// import "math/kernels.hcl" {} takes in the manifest of a folder below its own. All become one
// project. What has a name gets that of its folder before it: library "vec" of math/kernels.hcl is
// math/vec, and no name that is written in a manifest has a slash, so that no two can meet.
// References and paths in a manifest start from its folder, and so do the values of attributes that
// are paths; Project has them from the root. A manifest is imported only from above: there are no
// cycles, and what a folder takes over (defaults, gencode) does not depend on the order of imports.

const importKind = "import"

// hasFolder reports whether names of a kind are of a folder. Variables are of the project.
func hasFolder(kind string) bool {
	return isTarget(kind) || kind == "gencode" || kind == "group" || kind == "test"
}

// imports reads all manifests that are imported, and those that they import.
func (l *loader) imports() {
	var kept []*block
	for i := 0; i < len(l.blocks); i++ { // it grows
		if b := l.blocks[i]; b.kind == importKind {
			l.importFile(b)
		} else {
			kept = append(kept, b)
		}
	}
	l.blocks = l.withoutHidden(kept)
}

// withoutHidden drops the variables of imported manifests that a manifest above declares: those
// here are for who builds the folder alone.
func (l *loader) withoutHidden(blocks []*block) []*block {
	if len(l.imported) == 0 {
		return blocks
	}
	folders := map[string][]string{} // by name of the variable
	for _, b := range blocks {
		if b.kind == "variable" {
			folders[b.name] = append(folders[b.name], b.dir)
		}
	}
	return slices.DeleteFunc(blocks, func(b *block) bool {
		return b.kind == "variable" && slices.ContainsFunc(folders[b.name], func(dir string) bool { return dir != b.dir && isAbove(dir, b.dir) })
	})
}

func (l *loader) importFile(b *block) {
	file := path.Join(b.dir, b.name)
	dir := path.Dir(file)
	if !l.mayImport(b, file) {
		return
	}
	if first := l.imported[dir]; first != nil {
		if other := path.Join(first.dir, first.name); other != file {
			l.bothAt(b.nameRng, first.nameRng, "the other one", "Join them.", "%s and %s are two manifests of one folder", file, other)
		}
		return
	}
	l.imported[dir] = b
	if !l.isNew(b, file, dir) {
		return
	}
	if fault := l.untrusted(file); fault != nil {
		l.errorAt(b.nameRng, fault.Detail, "%s", fault.Summary)
		return
	}
	src, err := l.fsys.ReadFile(file)
	if err != nil {
		l.errorAt(b.nameRng, "", "cannot read %s: %v", file, reason(err))
		return
	}
	l.blocksOf(l.parse(file, src), dir)
}

// mayImport checks how a manifest is named, and that it is there.
func (l *loader) mayImport(b *block, file string) bool {
	dir := path.Dir(file)
	switch {
	case filepath.IsAbs(b.name) || strings.Contains(b.name, `\`):
		l.errorAt(b.nameRng, "A project is to work wherever it lies.", "the path of an import is relative to its manifest and uses /")
		return false
	case strings.Contains("/"+b.name+"/", "/../"):
		l.errorAt(b.nameRng, "Import both from a manifest above them.", "an import names a manifest below its own folder")
		return false
	case l.isFolder(file):
		l.errorAt(b.nameRng, fmt.Sprintf("Write import %q {}.", path.Join(b.name, DefaultFile)), "%s is a folder", file)
		return false
	case dir == path.Join(".", b.dir):
		l.errorAt(b.nameRng, `Write import "math/kernels.hcl" {}.`, "an import names a manifest of another folder, and %s is in this one", file)
		return false
	}
	for _, elem := range strings.Split(dir, "/") {
		if !targetName().MatchString(elem) {
			l.errorAt(b.nameRng, "Letters, digits and _ . + - may be used: names of folders become parts of labels.", "a manifest in a folder %q cannot be imported", elem)
			return false
		}
	}
	if l.inBuildTree(file) {
		l.errorAt(b.nameRng, "Manifests are read before anything is built.", "%s is in the build tree", file)
		return false
	}
	return l.isManifest(b, file)
}

// isManifest looks for the file of an import.
func (l *loader) isManifest(b *block, file string) bool {
	info, err := l.stat(file)
	switch {
	case err == nil && regular.Kind(info.Mode()) != "":
		l.errorAt(b.nameRng, "", "%s is %s, not a file", file, regular.Kind(info.Mode()))
	case err == nil:
		return true
	case !l.isFolder(path.Dir(file)):
		l.errorAt(b.nameRng, "", "there is no folder %s", path.Dir(file))
	default:
		l.errorAt(b.nameRng, "", "there is no manifest %s%s", file, l.fileMeant(file))
	}
	return false
}

// isNew refuses a manifest that was read already under another name: a link leads to it.
func (l *loader) isNew(b *block, file, dir string) bool {
	info, err := l.stat(file)
	if err != nil {
		return false
	}
	if root, err := l.stat(l.project.File); err == nil && os.SameFile(root, info) {
		l.errorAt(b.nameRng, "", "%s is this project's manifest itself: a link leads to it", file)
		return false
	}
	for _, other := range sortedKeys(l.imported) {
		first := l.imported[other]
		name := path.Join(first.dir, first.name)
		if seen, err := l.stat(name); other != dir && err == nil && os.SameFile(seen, info) {
			l.bothAt(b.nameRng, first.nameRng, "first here", "Import it once.", "%s is %s: a link leads to it", file, name)
			return false
		}
	}
	return true
}

// belongs refuses in an imported manifest what is of the whole project.
func (l *loader) belongs(b *block) bool {
	if b.dir == "" {
		return true
	}
	by := l.imported[b.dir]
	switch b.kind {
	case "profile", "toolchain", "cache", "package":
		l.bothAt(b.rng, by.rng, "imported here", "Move it to "+l.project.File+" of the project.", "%s is imported, and a block %s is for the whole project", path.Join(by.dir, by.name), b.kind)
		return false
	}
	return true
}

// isAbove reports whether a folder holds another.
func isAbove(dir, below string) bool { return dir == "" || strings.HasPrefix(below, dir+"/") }

// dirAbove is the next folder towards the root.
func dirAbove(dir string) string {
	if dir = path.Dir(dir); dir == "." {
		return ""
	}
	return dir
}

// dir is the folder of the manifest that an expression stands in.
func (r *resolver) dir() string {
	if r.scope.block == nil {
		return ""
	}
	return r.scope.block.dir
}

// qualified is what a name means in the manifest of dir. One that begins with // starts from the
// root. A gencode may be one of a manifest above.
func (l *loader) qualified(kind, name, dir string) string {
	if rest, ok := strings.CutPrefix(name, "//"); ok {
		return rest
	}
	if kind == "variable" {
		return name
	}
	for up := dir; kind == "gencode" && up != ""; up = dirAbove(up) {
		if l.has(kind, path.Join(up, name)) {
			return path.Join(up, name)
		}
	}
	if kind == "gencode" && l.has(kind, name) {
		return name
	}
	return path.Join(dir, name)
}

// nearestDefaults is the block `defaults` that an attribute has its value from: that of its
// manifest, or the next one above that sets it.
func (l *loader) nearestDefaults(dir, name string) *block {
	for ; ; dir = dirAbove(dir) {
		d := l.named[(&block{kind: "defaults", dir: dir}).key()]
		if dir == "" || d != nil && d.body.Attributes[name] != nil {
			return d
		}
		if other := map[string]string{"code": "gencode", "gencode": "code"}[name]; d != nil && d.body.Attributes[other] != nil {
			return nil
		}
	}
}

// isPath reports whether the value of an attribute is a path or a list of them.
func isPath(attribute string) bool {
	switch attribute {
	case "sources", "includes", "private_includes", "lib_dirs", "public_headers", "inputs", "outputs", "archive", "shared", "data":
		return true
	}
	return false
}

// seenFrom is the address of an attribute as the manifest of dir sees it: paths start from there.
func (l *loader) seenFrom(dir, key, attr string) string {
	addr := attrAddr(key, attr)
	b := l.named[key]
	if b == nil || b.dir == dir || !isPath(attr) {
		return addr
	}
	view := addr + viewed + dir
	if l.nodes[view] == nil {
		l.nodes[view] = &node{addr: view, rng: b.rng, compute: func() cty.Value { return rebased(l.value(addr), b.dir, dir) }}
	}
	return view
}

// viewed stands between the address of an attribute and the folder that it is seen from.
const viewed = "\x00\x00"

// inFolder is a path that is relative to a folder from the root.
func inFolder(dir, p string) string {
	if dir == "" || p == "" || filepath.IsAbs(p) {
		return p
	}
	return path.Join(dir, p)
}

// rebased are paths that start from one folder as they are from another.
func rebased(v cty.Value, from, to string) cty.Value {
	if from == to || v.IsNull() || !v.IsWhollyKnown() {
		return v
	}
	switch {
	case v.Type() == cty.String:
		p, err := filepath.Rel("/"+to, "/"+path.Join(from, v.AsString()))
		if v.AsString() == "" || filepath.IsAbs(v.AsString()) || err != nil {
			return v
		}
		return cty.StringVal(filepath.ToSlash(p))
	case isList(v) && v.LengthInt() > 0:
		var list []cty.Value
		for _, e := range v.AsValueSlice() {
			list = append(list, rebased(e, from, to))
		}
		return cty.TupleVal(list)
	}
	return v
}

// globIn is the name of the function glob for the manifest of a folder.
func (l *loader) globIn(dir string) string {
	name := "glob\x00" + dir
	if _, ok := l.ctx.Functions[name]; !ok {
		l.ctx.Functions[name] = l.charged(map[string]function.Function{name: l.globFunc(dir)})[name]
	}
	return name
}

// checkPrograms refuses a program that has the name of a folder with other programs.
func (l *loader) checkPrograms() {
	if len(l.imported) == 0 {
		return
	}
	named := map[string]*Target{}
	for _, t := range l.project.Targets {
		if t.Kind == Executable {
			named[strings.ToLower(t.OutputName)] = t
		}
	}
	for _, t := range l.project.Targets {
		for up := dirAbove(strings.ToLower(t.OutputName)); t.Kind == Executable && up != ""; up = dirAbove(up) {
			if file := named[up]; file != nil {
				d := Diagnostic{Summary: fmt.Sprintf("%s would be a file, and a folder for %s", l.buildPath("bin", file.OutputName), t.Label()),
					Detail: "Give " + file.Label() + " an output_name.", Pos: file.Pos, Also: Place{Pos: t.Pos, Say: "in that folder"}}
				ds := Diagnostics{d}
				l.project.Quote(ds)
				l.add(ds[0])
			}
		}
	}
}

// helpImport tells who writes an import as a line that it is a block.
func helpImport(line string) string {
	if f := strings.Fields(line); len(f) == 2 && f[0] == importKind {
		return "Write " + strings.Join(f, " ") + " {}."
	}
	return ""
}
