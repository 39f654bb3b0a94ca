// Package manifest parses kernels.hcl into a Project of plain data. It knows the language (blocks,
// references, variables, functions, defaults, matrices, partitions) and refuses to know compilers,
// toolkits and how anything is built.
//
// A load has four phases. Each phase reports all errors that it finds before the next one relies on
// its result:
//
//	parse     files to blocks; unknown blocks and attributes (schema.go, parse.go)
//	resolve   references to addresses, before anything is evaluated (resolve.go)
//	evaluate  variables, locals and attributes in the order of their dependencies (evaluate.go)
//	decode    values to Project (decode.go, targets.go, source.go, generate.go)
//
// The second phase finds a reference to a name that does not exist. So it is never mistaken for a
// cycle or for a value of a wrong type. An expression that cannot be evaluated has an unknown
// value, which later phases ignore: one mistake causes one diagnostic.
package manifest

import (
	"cmp"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Options select the manifest to load and override its values.
type Options struct {
	Dir     string                      // project folder; "" is the working directory
	File    string                      // manifest, relative to Dir or absolute; "" is kernels.hcl
	Vars    map[string]string           // --var, as text
	Profile string                      // --profile
	Arch    []string                    // --arch
	Env     func(string) (string, bool) // looks up KBUILD_VAR_name; nil means no environment
	Environ []string                    // KEY=VALUE, only for finding a misspelt KBUILD_VAR_name
	// Relative to Dir or absolute; "" is build, or build/PROFILE, beside the manifest.
	BuildDir string
	// Version of kbuild, for required_version; "" is DefaultVersion.
	Version string
	// Folder below the manifest's where the search for the manifest started.
	Below string
	FS    fs.FS // the files of the manifest's folder; nil reads the disk
	// The manifest, which the disk need not have; nil reads File.
	Source []byte

	IgnoreDynamic bool // ignore the known dynamic outputs of generate blocks
}

// DefaultVersion is the version of kbuild that Load assumes if Options.Version is "".
const DefaultVersion = "0.1.0"

// DefaultFile and LocalFile are the names of the manifest and of the file beside it that sets
// variables for one checkout.
const (
	DefaultFile = "kernels.hcl"
	LocalFile   = "kernels.local.hcl"
)

// MaxSource is the maximum size of a manifest, in bytes: 100,000 targets take a third of it.
const MaxSource = 4 << 20

// loader is one load of a project. Each layer knows those below it: diagnostics (reports), the file
// system (sourceTree), the blocks of all manifests (catalog), and values (evaluator).
type loader struct {
	*evaluator
	gencodes map[*block]Gencode // by gencode block
	fields   map[reflect.Type]map[string][]int
}

// Load loads the manifest of a folder and applies all overrides. The project is complete only if no
// diagnostic is an error.
func Load(opts Options) (*Project, Diagnostics) {
	l := newLoader(opts)
	if fault := Untrusted(opts); fault != nil {
		l.add(*fault)
	} else if l.read() {
		l.collect()
		l.declare()
		l.checkOverrides()
		l.resolveAll()
		l.evaluateVariables()
		l.decode()
	}
	l.project.Observed, l.project.Listed = l.fsys.observed, l.fsys.listed
	l.diags.sort()
	l.curtail()
	return l.project, l.diags
}

// Locate returns what Project.Root and Project.BuildDir will be.
func Locate(opts Options) (root, build string) {
	dir, file := opts.place()
	return filepath.Dir(file), buildDir(dir, filepath.Dir(file), opts)
}

// place returns the absolute paths of the project folder and the manifest.
func (o Options) place() (dir, file string) {
	dir, err := filepath.Abs(cmp.Or(o.Dir, "."))
	if err != nil {
		dir = o.Dir
	}
	file = cmp.Or(o.File, DefaultFile)
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return dir, file
}

func newLoader(opts Options) *loader {
	opts.Version = cmp.Or(opts.Version, DefaultVersion)
	dir, file := opts.place()
	root := filepath.Dir(file)
	project := &Project{
		Root: root, File: filepath.Base(file), BuildDir: buildDir(dir, root, opts),
		Toolchains: map[string]Toolchain{}, sources: map[string][]byte{},
	}
	disk := opts.FS
	if disk == nil {
		disk = regular.DirFS{Root: root, Most: MaxSource}
	}
	l := &loader{gencodes: map[*block]Gencode{}, fields: map[reflect.Type]map[string][]int{}}
	l.evaluator = &evaluator{
		catalog: &catalog{
			sourceTree: &sourceTree{
				reports: &reports{project: project, reported: map[Diagnostic]bool{}},
				opts:    opts, generated: map[string]string{}, matches: map[string]globMatch{},
				fsys: &watcher{FS: disk, seen: map[asked]bool{}, listed: map[string][]fs.DirEntry{}},
			},
			named: map[string]*block{}, names: map[string][]string{}, imported: map[string]*block{},
		},
		nodes: map[string]*node{}, refs: map[hclsyntax.Expression]*references{},
		instancesOf: map[*block][]instance{}, outputsOf: map[*block]outputs{},
		ctx: &hcl.EvalContext{Variables: map[string]cty.Value{}},
	}
	l.ctx.Functions = l.functions()
	return l
}

// buildDir normalizes the build folder: relative to root and slash-separated if it is inside.
func buildDir(dir, root string, opts Options) string {
	abs := opts.BuildDir
	switch {
	case abs == "":
		abs = filepath.Join(root, "build", opts.Profile)
	case !filepath.IsAbs(abs):
		abs = filepath.Join(dir, abs)
	}
	rel, err := filepath.Rel(root, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(filepath.Clean(abs))
	}
	return filepath.ToSlash(rel)
}

// decode turns blocks into the project after every expression is resolved. It starts with generated
// files, since sources of other targets may be generated.
func (l *loader) decode() {
	l.project.Archs = l.archs() // reports errors in --arch even if no target uses it
	l.decodeSettings()
	var pending []*block // their files are not known yet
	for _, b := range l.blocks {
		if b.kind != "generate" {
			continue
		}
		out := l.outputs(b)
		for _, f := range out.files {
			l.generated[l.genPath(b, f)] = b.key()
		}
		if out.dynamic {
			l.project.Dynamic = append(l.project.Dynamic, b.key())
			if !out.known {
				pending = append(pending, b)
			}
		}
	}
	if len(pending) > 0 {
		l.keepPending(pending)
	}
	for _, b := range l.blocks {
		l.instances(b)
	}
	for _, b := range l.blocks {
		switch b.kind {
		case "toolchain":
			l.decodeToolchain(b)
		case "gencode":
			l.gencodeOf(b)
		case "group":
			g := Group{Name: b.name, Pos: position(b.rng)}
			l.reader(b, nil).decode(&g)
			l.project.Groups = append(l.project.Groups, g)
		case "test":
			for _, i := range l.instances(b) {
				l.project.Tests = append(l.project.Tests, l.reader(b, i.values).test(i))
			}
		default:
			if isTarget(b.kind) {
				l.decodeTarget(b)
			}
		}
	}
	l.evaluateAll()
	if !l.diags.HasErrors() {
		l.passOn()
	}
	if len(l.project.Pending) == 0 {
		l.checkDeps()
		l.checkPrograms()
	}
}

// buildPath returns a path in the build tree, as Project spells paths.
func (l *sourceTree) buildPath(elem ...string) string {
	return path.Join(append([]string{l.project.BuildDir}, elem...)...)
}
