package manifest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// import "math/kernels.hcl" {} adds the manifest of a subfolder to the project. Names get the
// folder as a prefix: library "vec" of math/kernels.hcl is math/vec. No name in a manifest contains
// a slash, so two names cannot collide.
//
// References and paths in a manifest are relative to its folder, and so are the values of path
// attributes; those in Project are relative to the root. Only a manifest above can import a
// manifest. So there are no cycles, and what a folder inherits (defaults, gencode) does not depend
// on the order of imports.

const importKind = "import"

// imports reads all imported manifests, transitively.
func (l *catalog) imports() {
	var kept []*block
	for i := 0; i < len(l.blocks); i++ { // importFile appends to l.blocks
		if b := l.blocks[i]; b.kind == importKind {
			l.importFile(b)
		} else {
			kept = append(kept, b)
		}
	}
	// A variable is dropped if a manifest above declares it too: it is for building the folder alone.
	folders := map[string][]string{} // by name of the variable
	for _, b := range kept {
		if b.kind == "variable" {
			folders[b.name] = append(folders[b.name], b.dir)
		}
	}
	l.blocks = slices.DeleteFunc(kept, func(b *block) bool {
		return b.kind == "variable" && slices.ContainsFunc(folders[b.name], func(dir string) bool {
			return dir != b.dir && (dir == "" || strings.HasPrefix(b.dir, dir+"/"))
		})
	})
}

func (l *catalog) importFile(b *block) {
	file := path.Join(b.dir, b.name)
	dir := path.Dir(file)
	if !l.mayImport(b, file) {
		return
	}
	if first := l.imported[dir]; first != nil {
		if other := path.Join(first.dir, first.name); other != file {
			l.bothAt(b.nameRng, first.nameRng, "the other one", "Join them.",
				"%s and %s are two manifests of one folder", file, other)
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

// mayImport checks the path of an import and that the file exists.
func (l *catalog) mayImport(b *block, file string) bool {
	dir := path.Dir(file)
	switch {
	case b.name == "":
		return l.errorAt(b.nameRng, `Write import "math/kernels.hcl" {}.`, "an import needs a path")
	case filepath.IsAbs(b.name) || strings.Contains(b.name, `\`):
		return l.errorAt(b.nameRng, "A project must work in any folder.",
			"the path of an import is relative to its manifest and uses /")
	case strings.Contains("/"+b.name+"/", "/../"):
		return l.errorAt(b.nameRng, "Import both from a manifest above them.",
			"an import names a manifest below its own folder")
	case l.isFolder(file):
		return l.errorAt(b.nameRng, fmt.Sprintf("Write import %q {}.", path.Join(b.name, DefaultFile)),
			"%s is a folder", file)
	case dir == path.Join(".", b.dir):
		return l.errorAt(b.nameRng, `Write import "math/kernels.hcl" {}.`,
			"an import names a manifest of another folder, and %s is in this one", file)
	}
	for _, elem := range strings.Split(dir, "/") {
		if !targetName().MatchString(elem) {
			return l.errorAt(b.nameRng,
				"Letters, digits and _ . + - may be used: names of folders become parts of labels.",
				"a manifest in a folder %q cannot be imported", elem)
		}
	}
	if l.inBuildTree(file) {
		return l.errorAt(b.nameRng, "Manifests are read before anything is built.", "%s is in the build tree",
			file)
	}
	info, err := l.stat(file)
	switch {
	case err == nil && regular.Kind(info.Mode()) != "":
		l.errorAt(b.nameRng, "", "%s is %s, not a file", file, regular.Kind(info.Mode()))
	case err == nil:
		return true
	case !l.isFolder(dir):
		l.errorAt(b.nameRng, "", "there is no folder %s", dir)
	default:
		l.errorAt(b.nameRng, "", "there is no manifest %s%s", file, l.fileMeant(file))
	}
	return false
}

// isNew reports an error if a link makes the manifest the same file as one that was already read.
func (l *catalog) isNew(b *block, file, dir string) bool {
	info, err := l.stat(file)
	if err != nil {
		return false
	}
	if root, err := l.stat(l.project.File); err == nil && os.SameFile(root, info) {
		return l.errorAt(b.nameRng, "", "%s is this project's manifest itself: a link leads to it", file)
	}
	for _, other := range sortedKeys(l.imported) {
		first := l.imported[other]
		name := path.Join(first.dir, first.name)
		if seen, err := l.stat(name); other != dir && err == nil && os.SameFile(seen, info) {
			return l.bothAt(b.nameRng, first.nameRng, "first here", "Import it once.",
				"%s is %s: a link leads to it", file, name)
		}
	}
	return true
}

// dirAbove returns the parent folder; "" is the root.
func dirAbove(dir string) string {
	if dir = path.Dir(dir); dir == "." {
		return ""
	}
	return dir
}

// dir returns the folder of the manifest that contains the expression.
func (r *resolver) dir() string {
	if r.block == nil {
		return ""
	}
	return r.block.dir
}

// qualified returns the full name of a name in the manifest of dir. A name that begins with // is
// relative to the root. A gencode may be declared in a manifest above.
func (l *evaluator) qualified(kind, name, dir string) string {
	if rest, ok := strings.CutPrefix(name, "//"); ok {
		return rest
	}
	if kind == "variable" {
		return name
	}
	for up := dir; kind == "gencode"; up = dirAbove(up) {
		if l.has(kind, path.Join(up, name)) {
			return path.Join(up, name)
		} else if up == "" {
			break
		}
	}
	return path.Join(dir, name)
}

// twins are the two spellings of one setting. A target that sets one must not inherit the other.
var twins = map[string]string{"code": "gencode", "gencode": "code"}

// defaultsFor returns the `defaults` block that provides an attribute which b does not set, or nil:
// that of its manifest, or the nearest one above that sets it.
func (l *catalog) defaultsFor(b *block, name string) *block {
	if b.schema.Inherits != "defaults" {
		return nil
	}
	for dir := b.dir; ; dir = dirAbove(dir) {
		d := l.named[(&block{kind: "defaults", dir: dir}).key()]
		set := d != nil && d.body.Attributes[name] != nil
		switch {
		case set && b.body.Attributes[twins[name]] != nil:
			return nil
		case set || dir == "":
			return d
		case d != nil && d.body.Attributes[twins[name]] != nil:
			return nil
		}
	}
}

// inFolder returns a path relative to dir as a path relative to the root.
func inFolder(dir, p string) string {
	if dir == "" || p == "" || filepath.IsAbs(p) {
		return p
	}
	return path.Join(dir, p)
}

// rebased converts paths that are relative to one folder to paths relative to another.
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

// checkPrograms reports a program whose file has the path of a folder with other programs.
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
		if t.Kind != Executable {
			continue
		}
		for up := dirAbove(strings.ToLower(t.OutputName)); up != ""; up = dirAbove(up) {
			if file := named[up]; file != nil {
				l.addQuoted(Diagnostic{
					Summary: fmt.Sprintf("%s would be a file, and a folder for %s",
						l.buildPath("bin", file.OutputName), t.Label()),
					Detail: "Give " + file.Label() + " an output_name.",
					Pos:    file.Pos, Also: Place{Pos: t.Pos, Say: "in that folder"},
				})
			}
		}
	}
}
