package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Phase one: files to blocks with known kinds, labels and attribute names.

// catalog has the blocks of all manifests of a project.
type catalog struct {
	*sourceTree
	blocks   []*block                        // top-level blocks in order
	named    map[string]*block               // "library.solver", "variable.archs", "defaults"
	names    map[string][]string             // names by kind, in order
	local    map[string]*hclsyntax.Attribute // values of kernels.local.hcl
	imported map[string]*block               // the import block by the folder of its manifest
}

// block is a block of a manifest, top-level or nested.
type block struct {
	kind, name string // name includes the folder for a target of an imported manifest: "math/vec"
	dir        string // folder of its manifest, relative to the root; "" is the root
	schema     *Block
	body       *hclsyntax.Body
	rng        hcl.Range // of the header
	nameRng    hcl.Range // of the label
	nested     []*block
	misspelt   map[string]bool // known attributes that a misspelt one probably means
}

// key returns the address of a block: "library.solver", "defaults".
func (b *block) key() string {
	switch {
	case b.name != "":
		return b.kind + "." + b.name
	case b.dir != "":
		return b.kind + "//" + b.dir
	}
	return b.kind
}

// attrs returns the attributes in the written order.
func (b *block) attrs() []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(b.body.Attributes), func(x, y *hclsyntax.Attribute) int {
		return cmp.Compare(x.SrcRange.Start.Byte, y.SrcRange.Start.Byte)
	})
}

// read parses the manifest and kernels.local.hcl. It returns false if loading cannot continue.
func (l *catalog) read() bool {
	p := l.project
	src, err := l.opts.Source, error(nil)
	if src == nil {
		src, err = fs.ReadFile(l.fsys, p.File)
	}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		l.errorf("Name another folder with -C or another file with -f, or write one with `kbuild init`.",
			"no %s in %s", p.File, p.Root)
		return false
	case errors.Is(err, regular.ErrSize):
		l.errorf("", "%s in %s has more than %d MiB", p.File, p.Root, MaxSource>>20)
		return false
	default:
		l.errorf("", "cannot read %s in %s: %v", p.File, p.Root, reason(err))
		return false
	}
	body := l.parse(p.File, src)
	local, err := fs.ReadFile(l.fsys, LocalFile)
	if err == nil && p.File != LocalFile {
		if fault := l.untrusted(LocalFile); fault != nil {
			l.add(*fault)
			return false
		}
		// A file outside version control must not change the meaning of the manifest: it only sets
		// variables.
		values := l.parse(LocalFile, local)
		for _, b := range values.Blocks {
			l.errorAt(b.DefRange(),
				"It sets variables, one `name = value` a line. Blocks belong in "+p.File+".",
				"%s may not hold a block %s", LocalFile, b.Type)
		}
		l.local = values.Attributes
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.errorf("It is optional; remove it or make it readable.", "cannot read %s: %v", LocalFile,
			reason(err))
	}
	if l.diags.HasErrors() {
		return false
	}
	l.blocksOf(body, "")
	l.imports()
	return true
}

// reason returns an error of the file system without its operation and path.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// parse parses a file and reports its syntax errors.
func (l *sourceTree) parse(file string, src []byte) *hclsyntax.Body {
	l.project.Files = append(l.project.Files, file)
	l.project.sources[file] = src
	if !l.checkText(file, src) {
		return &hclsyntax.Body{}
	}
	f, diags := hclsyntax.ParseConfig(src, file, hcl.InitialPos)
	l.addHCL(diags)
	if f == nil {
		return &hclsyntax.Body{}
	}
	body := f.Body.(*hclsyntax.Body)
	l.addHCL(guard(body))
	return body
}

// blocksOf checks every block against the schema and adds the known ones.
func (l *catalog) blocksOf(body *hclsyntax.Body, dir string) {
	for _, a := range (&block{body: body}).attrs() {
		help := "Values with a name of their own go into locals { ... }."
		meant := l.didYouMean(a.Name, Schema().blockNames())
		if Schema().Block(a.Name) != nil {
			help, meant = isBlock(a.Name), ""
		}
		l.errorAt(a.NameRange, help, "attribute %q outside of a block%s", a.Name, meant)
	}
	for _, hb := range body.Blocks {
		s := Schema().Block(hb.Type)
		if s == nil {
			l.unknownBlock(hb, Schema())
			continue
		}
		switch b, by := l.block(hb, s, dir), l.imported[dir]; {
		case b == nil:
		case s.Root && dir != "":
			l.bothAt(b.rng, by.rng, "imported here", "Move it to "+l.project.File+" of the project.",
				"%s is imported, and a block %s is for the whole project", path.Join(by.dir, by.name),
				b.kind)
		default:
			l.blocks = append(l.blocks, b)
		}
	}
}

func isBlock(name string) string {
	return fmt.Sprintf("%s is a block: write %[1]s { ... } without the equal sign.", name)
}

func (l *catalog) unknownBlock(hb *hclsyntax.Block, in *Block) {
	help := knownNames("block", in.blockNames())
	switch hb.Type {
	case "include", "subdir", "submodule":
		help = `Write import "math/kernels.hcl" {} for the manifest of a folder below.`
	case "x", "extension":
		help = "Use labels = { ... } on a target."
	}
	l.errorAt(hb.TypeRange, help, "unknown block %q in %s%s", hb.Type, in.Name,
		l.didYouMean(hb.Type, in.blockNames()))
}

// targetName matches names that can become part of a file name.
var targetName = pattern(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// block checks labels, attributes and nested blocks. It returns nil if the label is missing.
func (l *catalog) block(hb *hclsyntax.Block, s *Block, dir string) *block {
	b := &block{kind: hb.Type, dir: dir, schema: s, body: hb.Body, rng: hb.DefRange(),
		misspelt: map[string]bool{}}
	switch {
	case s.Label == "" && len(hb.Labels) > 0:
		l.errorAt(hb.LabelRanges[0], "", "a block %s takes no label", b.kind)
	case s.Label != "" && len(hb.Labels) == 0:
		l.errorAt(hb.TypeRange, fmt.Sprintf("Write %s \"NAME\" { ... }.", b.kind),
			"a block %s needs a label: %s", b.kind, s.Label)
		return nil
	case len(hb.Labels) > 1:
		l.errorAt(hb.LabelRanges[1], "", "a block %s takes one label", b.kind)
	}
	if s.Label != "" {
		b.name, b.nameRng = hb.Labels[0], hb.LabelRanges[0]
		if b.kind != importKind && !targetName().MatchString(b.name) {
			l.errorAt(b.nameRng, "Letters, digits and _ . + - may be used: names become file names.",
				"%q is not a name for a %s", b.name, b.kind)
		}
		if s.Target || slices.Contains([]string{"gencode", "group", "test"}, b.kind) {
			b.name = path.Join(dir, b.name)
		}
	}
	l.checkAttrs(b)
	l.checkNested(b)
	return b
}

func (l *catalog) checkAttrs(b *block) {
	if b.schema.Open != "" {
		return
	}
	for _, a := range b.attrs() {
		if b.schema.Attribute(a.Name) != nil {
			continue
		}
		known := b.schema.attributeNames()
		near := l.nearest(a.Name, known)
		help := knownNames("attribute", known)
		if help == "" && near == "" {
			help = allNames(known)
		}
		if len(known) == 0 {
			help = "Its braces are empty."
		}
		if b.schema.Block(a.Name) != nil {
			help = isBlock(a.Name)
		}
		b.misspelt[near] = true
		l.errorAt(a.NameRange, help, "unknown attribute %q in %s%s", a.Name, b.kind, meant(near))
		delete(b.body.Attributes, a.Name)
	}
}

func (l *catalog) checkNested(b *block) {
	seen := map[string]*block{}
	for _, hb := range b.body.Blocks {
		s := b.schema.Block(hb.Type)
		switch {
		case b.schema.Attribute(hb.Type) != nil || b.schema.Open != "":
			l.errorAt(hb.TypeRange,
				fmt.Sprintf("%s is an attribute: write %s = %s.", hb.Type, hb.Type,
					b.schema.Attribute(hb.Type).shape()),
				"unknown block %q in %s", hb.Type, b.kind)
			continue
		case s == nil:
			l.unknownBlock(hb, b.schema)
			continue
		}
		n := l.block(hb, s, b.dir)
		if n == nil {
			continue
		}
		if first := seen[n.key()]; first != nil && (s.Once || n.name != "") {
			l.bothAt(n.rng, first.rng, "first here", "", "%s has two blocks %s", b.key(), n.heading())
			continue
		}
		seen[n.key()] = n
		b.nested = append(b.nested, n)
	}
}

// heading returns a block as it is written: library "solver".
func (b *block) heading() string {
	if b.name == "" {
		return b.kind
	}
	return fmt.Sprintf("%s %q", b.kind, b.name)
}

// collect registers blocks by name and reports duplicates.
func (l *catalog) collect() {
	kept := l.blocks[:0]
	for _, b := range l.blocks {
		switch first := l.named[b.key()]; {
		case first != nil && b.schema.Once:
			l.bothAt(b.rng, first.rng, "first here", "Join them.", "a manifest has one block %s", b.kind)
		case first != nil && (b.name != "" || first.dir != b.dir):
			help := "Rename one of them."
			if first.dir != b.dir {
				help = "Declare it in a manifest above both."
			}
			l.bothAt(b.rng, first.rng, "first here", help, "%s is declared twice", b.heading())
		default:
			l.named[b.key()] = b
			l.names[b.kind] = append(l.names[b.kind], b.name)
			kept = append(kept, b)
		}
	}
	l.blocks = kept
	l.checkCase()
}

// checkCase reports names that collide on file systems that ignore case.
func (l *catalog) checkCase() {
	seen := map[string]*block{}
	for _, b := range l.blocks {
		if !isTarget(b.kind) {
			continue
		}
		k := strings.ReplaceAll(strings.ToLower(b.key()), "/", ".")
		switch first := seen[k]; {
		case first != nil && strings.Contains(b.name+first.name, "/") &&
			!strings.EqualFold(b.name, first.name):
			l.bothAt(b.rng, first.rng, "first here", "Rename one of them.",
				"the files of %s and %s would have the same name", b.heading(), first.heading())
		case first != nil:
			l.bothAt(b.rng, first.rng, "first here", "Their files would be the same on macOS and Windows.",
				"%s and %s differ only in case", b.heading(), first.heading())
		}
		seen[k] = b
	}
}
