package manifest

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kbuild-dev/kbuild/graph/fileset"
)

// Targets, and what their attributes have to do with each other.

// newTarget reads the attributes of any kind of target.
func (r *reader) newTarget(kind Kind) *record {
	rec := &record{b: r.b, Target: &Target{
		Kind: kind, Name: r.b.name, Base: r.b.name, Pos: position(r.b.rng),
	}}
	rec.AttrPos = r.decode(rec)
	a, b := r.b.body.Attributes["code"], r.b.body.Attributes["gencode"]
	switch {
	case a != nil && b != nil && !r.b.headerOnly():
		r.l.bothAt(a.NameRange, b.NameRange, "and here", "Keep one of them.",
			"%s sets both code and gencode", r.b.heading())
		rec.Gencode = Gencode{}
	case rec.Code != nil:
		rec.Gencode = Gencode{Code: r.l.replaceArch(rec.Code)}
	}
	return rec
}

// compiled reads a target with sources.
func (r *reader) compiled(kind Kind) *record {
	rec := r.newTarget(kind)
	t := rec.Target
	t.Mode = cmp.Or(t.Mode, "whole")
	t.Std, t.DeviceStd = rec.standard("c++", nil), rec.standard("cuda", nil)
	if t.HostLTO == "none" {
		t.HostLTO = ""
	}
	t.Sources = r.sources(rec)
	if kind != Module {
		t.OutputName = path.Join(r.b.dir, cmp.Or(t.OutputName, path.Base(r.b.name)))
	}
	return rec
}

// decodeTarget adds the targets of a block.
func (l *loader) decodeTarget(b *block) {
	if a := b.body.Attributes["exclude"]; a != nil && b.kind == "module" && b.manifold() == nil {
		l.errorAt(a.NameRange, "Remove it, or add matrix = { axis = [...] }.", "exclude needs a matrix")
	}
	for _, i := range l.instances(b) {
		r, t := l.reader(b, i.values), (*Target)(nil)
		switch kind := Kind(b.kind); kind {
		case Library:
			t = r.library()
		case Executable:
			t = r.compiled(kind).Target
		case Module:
			t = r.module()
		case Prebuilt:
			t = r.prebuilt()
		case Generate:
			t = r.generate()
		}
		if i.name != "" {
			t.Name, t.Matrix = b.name+":"+i.name, i.axes
			if i.axes == nil { // for_each, whose keys are names of files
				t.Each = i.name
				if b.body.Attributes["output_name"] == nil {
					t.OutputName = path.Join(b.dir, i.name)
				}
			}
		}
		l.project.Targets = append(l.project.Targets, t)
	}
}

func (r *reader) library() *Target {
	if r.b.headerOnly() {
		return r.headerLibrary()
	}
	rec := r.compiled(Library)
	t := rec.Target
	t.Shared = rec.Linkage == "shared"
	t.PublicHeaders = r.publicHeaders(rec)
	if t.Shared && t.DeviceLink {
		r.conflict("device_link", "type", "shared here", "Remove it.",
			"device_link is for a static library; a shared one always has its own device link")
	}
	if t.Shared && t.AlwaysLink {
		r.conflict("always_link", "type", "shared here", "Remove it.",
			"always_link is for a static library; a shared one is loaded with all its objects")
	}
	if t.SOVersion != "" && !t.Shared {
		r.l.errorAt(r.find("soversion").NameRange, `Remove it, or add type = "shared".`,
			"soversion is for a shared library; this one is static")
	}
	return t
}

func (r *reader) module() *Target {
	rec := r.compiled(Module)
	t := rec.Target
	if len(t.Emit) == 0 {
		t.Emit = []string{"fatbin"}
	}
	t.PublicHeaders = r.publicHeaders(rec)
	for _, n := range r.b.nested {
		if n.kind == "embed" {
			t.Embed = r.embed(n)
		}
	}
	return t
}

// embed reads the embed block of a module.
func (r *reader) embed(b *block) *Embed {
	in, e := r.l.reader(b, r.values), &Embed{Pos: position(b.rng)}
	in.decode(e)
	switch s := e.Symbol; {
	case contains(cWords, s):
		in.fault("symbol",
			"It becomes the name of a table in C and C++; add the name of the library, say.",
			"%q is a word of C or C++", s)
	case contains(systemHeaders, s):
		in.fault("symbol", "The header "+s+
			".h would be found instead of the system's. Add the name of the library, say.",
			"%q is the name of a system header", s)
	}
	return e
}

func contains(words, word string) bool {
	return word != "" && strings.Contains(" "+words+" ", " "+word+" ")
}

// cWords are names that cannot be identifiers: the keywords of C and C++, and names that gcc
// defines as macros on some systems.
const cWords = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char " +
	"char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast " +
	"consteval constexpr constinit continue decltype default delete do double dynamic_cast else " +
	"enum explicit export extern false float for friend goto if inline int long main mutable " +
	"namespace new noexcept not not_eq nullptr operator or or_eq private protected public " +
	"register reinterpret_cast requires restrict return short signed sizeof static " +
	"static_assert static_cast struct switch template this thread_local throw true try typedef " +
	"typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t " +
	"while xor xor_eq i386 linux unix"

// systemHeaders are the headers of C, POSIX and the CUDA toolkit that programs include with <>.
const systemHeaders = "aio assert complex cpio ctype cublas cuda cudnn cufft curand cusolver " +
	"cusparse dirent dlfcn elf endian errno fcntl features fenv float fmtmsg fnmatch ftw glob " +
	"grp iconv inttypes iso646 langinfo libgen limits link locale malloc math memory monetary " +
	"mqueue netdb nl_types npp nvrtc nvml poll pthread pwd regex sched search semaphore setjmp " +
	"signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn " +
	"string strings stropts syslog tar termios tgmath threads time uchar ucontext ulimit unistd " +
	"utime utmpx wait wchar wctype wordexp"

func (r *reader) prebuilt() *Target {
	t, b := r.newTarget(Prebuilt).Target, r.b
	archive, shared := b.body.Attributes["archive"], b.body.Attributes["shared"]
	switch {
	case archive == nil && shared == nil:
		r.l.errorAt(b.rng, `Write archive = "libNAME.a" or shared = "libNAME.so".`,
			"%s has neither archive nor shared", b.heading())
	case archive != nil && shared != nil:
		r.conflict("shared", "archive", "and here", "Keep one of them, or make two blocks.",
			"%s has both archive and shared", b.heading())
	}
	if shared != nil && t.AlwaysLink {
		r.conflict("always_link", "shared", "shared here", "Remove it.",
			"always_link is for an archive; a shared library is loaded with all its objects")
	}
	return t
}

// test reads an instance of a test block. A test is not a target: nothing depends on it, and building
// everything runs no tests.
func (r *reader) test(i instance) Test {
	l, t := r.l, struct {
		Test
		Program reference `attr:"executable"`
		Cached  *bool     `attr:"cache"`
	}{Test: Test{Name: r.b.name, Pos: position(r.b.rng)}}
	r.decode(&t)
	if i.name != "" {
		t.Name += ":" + i.name
	}
	t.EachTime = t.Cached != nil && !*t.Cached
	if to := t.Program; to.target != nil {
		b := l.named[to.label()]
		switch t.Executable = to.label(); {
		case to.kind != string(Executable):
			l.errorAt(to.rng, "", "%s is not an executable", to.label())
		case b != nil && b.hasEach() && len(l.instances(b)) > 0:
			l.errorAt(to.rng,
				fmt.Sprintf("Name one of them: %s[%q].", to.label(), l.instances(b)[0].name),
				"%s stands for several programs", to.label())
		case !l.hasInstance(to.target, to.rng):
			t.Executable = ""
		}
	}
	if f := r.field("env"); f != nil {
		values := f.textMap()
		for _, name := range sortedKeys(values) {
			if name == "" || strings.ContainsAny(name, "=\x00") || values[name] == nil {
				l.errorAt(f.keyRange(name), "", "%q is not a variable with a value", name)
				continue
			}
			t.Env = append(t.Env, name+"="+*values[name])
		}
	}
	return t.Test
}

// A library with sources = [] consists of headers. It has no archive. Its defines, flags and libs
// apply to all targets that depend on it, directly or transitively.

// passedOn are the attributes that a header-only library may set. Others are about compiling
// sources.
var passedOn = []string{
	"sources", "deps", "includes", "defines", "flags", "libs", "lib_dirs", "public_headers",
	"labels", "for_each",
}

// HeaderOnly reports whether the target is a library without sources.
func (t *Target) HeaderOnly() bool { return t.Kind == Library && len(t.Sources) == 0 }

// headerOnly reports whether a library has the literal sources = []. A computed list that is
// empty is a mistake, and an error elsewhere.
func (b *block) headerOnly() bool {
	a := b.body.Attributes["sources"]
	if a == nil || b.kind != "library" {
		return false
	}
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	return ok && len(list.Exprs) == 0
}

// headerLibrary reads a header-only library. Of the passed-on attributes only includes and labels
// are inherited from `defaults` (reader.find): its dependents have their own defaults.
func (r *reader) headerLibrary() *Target {
	for _, a := range r.b.attrs() {
		if r.b.schema.Attribute(a.Name) != nil && !slices.Contains(passedOn, a.Name) {
			r.l.errorAt(a.NameRange, "Remove it, or add sources.",
				"%s has no sources, and %s is about those", r.b.heading(), a.Name)
		}
	}
	for _, b := range r.b.nested {
		r.l.errorAt(b.rng, "Remove it, or add sources.", "%s has no sources for a %s",
			r.b.heading(), b.kind)
	}
	rec := r.newTarget(Library)
	rec.PublicHeaders, rec.Target.Defines = r.publicHeaders(rec), rec.Macros
	return rec.Target
}

// publicHeaders reads the headers to install. It reports two that would become one file.
func (r *reader) publicHeaders(rec *record) (list []Header) {
	l, first := r.l, map[string]item{}
	for _, it := range rec.Headers {
		h := Header{Path: r.sourcePath(it.text), Pos: position(it.rng)}
		switch h.Generated = l.generated[h.Path]; {
		case h.Path == "":
			l.errorAt(it.rng, "", "public_headers has an empty element")
			continue
		case h.Generated == "" && l.isFolder(h.Path):
			l.errorAt(it.rng, "Write glob(\""+h.Path+"/**/*.h\") for the files in it.",
				"%s is a folder", h.Path)
			continue
		case h.Generated == "" && !l.mustExist(h.Path, it.rng):
			continue
		case h.Generated != "" &&
			!slices.ContainsFunc(rec.Deps, func(d Dep) bool { return d.Label == h.Generated }):
			l.errorAt(it.rng, "Add "+h.Generated+" to deps.",
				"%s generates %s, and is not in the deps of %s", h.Generated, h.Path, r.b.heading())
			continue
		}
		h.As = r.installedAs(h, rec.Includes)
		if f, twice := first[h.As]; twice {
			l.bothAt(it.rng, f.rng, "first here", "Both would be include/"+h.As+".",
				"%s and %s are installed at the same path, as public headers of %s", it.text, f.text,
				r.b.heading())
			continue
		}
		first[h.As] = it
		list = append(list, h)
	}
	return list
}

// installedAs returns the path of a header relative to its include folder: that of its generate
// block, or the longest match of includes. A header outside of all of them is included from its own
// folder, so only its base name remains.
func (r *reader) installedAs(h Header, includes []string) string {
	if _, name, ok := strings.Cut(h.Generated, "."); ok {
		return strings.TrimPrefix(h.Path, r.l.buildPath("gen", fileset.Flat(name))+"/")
	}
	as, longest := path.Base(h.Path), -1
	for _, dir := range includes {
		dir = r.rooted(dir)
		inside := !path.IsAbs(h.Path) && !strings.HasPrefix(h.Path, "../")
		if dir == "." && inside && longest < 0 {
			as, longest = h.Path, 0
		} else if rest, ok := strings.CutPrefix(h.Path, dir+"/"); ok && len(dir) > longest {
			as, longest = rest, len(dir)
		}
	}
	return as
}

// passOn adds the attributes of header-only libraries to their dependents. A dependent's own
// defines override them, and its own flags come after theirs.
func (l *loader) passOn() {
	if !slices.ContainsFunc(l.project.Targets, (*Target).HeaderOnly) {
		return
	}
	named := map[string][]*Target{}
	for _, t := range l.project.Targets {
		named[t.Label()] = append(named[t.Label()], t)
		if base := string(t.Kind) + "." + t.Base; base != t.Label() {
			named[base] = append(named[base], t)
		}
	}
	behind := map[*Target][]*Target{} // header-only libraries, dependents before their dependencies
	var visit func(t *Target)
	visit = func(t *Target) {
		if _, visited := behind[t]; visited {
			return
		}
		behind[t] = nil
		for _, dep := range t.Deps {
			for _, d := range named[dep.Label] {
				visit(d)
				list := behind[d]
				if d.HeaderOnly() {
					list = append([]*Target{d}, list...)
				}
				behind[t] = union(behind[t], list)
			}
		}
	}
	for _, t := range l.project.Targets {
		visit(t)
	}
	for _, t := range l.project.Targets {
		if len(t.Sources) > 0 && len(behind[t]) > 0 {
			l.use(t, behind[t])
		}
	}
}

// use adds the attributes of header-only libraries to t.
func (l *loader) use(t *Target, libraries []*Target) {
	flags, definedBy := &Flags{}, map[string]*Target{}
	var defines []Define
	for _, h := range libraries {
		flags = flags.with(&h.Flags)
		t.Libs, t.LibDirs = union(t.Libs, h.Libs), union(t.LibDirs, h.LibDirs)
		for _, d := range h.Defines {
			first := definedBy[d.Name]
			if first == nil {
				definedBy[d.Name], defines = h, mergeDefines(defines, []Define{d})
			} else if !slices.ContainsFunc(first.Defines,
				func(other Define) bool { return reflect.DeepEqual(d, other) }) {
				l.addQuoted(Diagnostic{Pos: h.AttrPos["defines"], Detail: "Give them one value.",
					Summary: fmt.Sprintf("%s uses %s and %s, which define %s differently",
						t.Label(), first.Label(), h.Label(), d.Name),
					Also: Place{Pos: first.AttrPos["defines"], Say: "defined here, too"}})
			}
		}
	}
	parts := map[*Flags]*Flags{} // the sources of a partition share one Flags
	for i := range t.Sources {
		s := &t.Sources[i]
		s.Defines = mergeDefines(defines, s.Defines)
		if parts[s.Flags] == nil {
			parts[s.Flags] = flags.with(s.Flags)
		}
		s.Flags = parts[s.Flags]
	}
	t.Flags = *flags.with(&t.Flags)
}

// union returns list with the elements of more that it lacks, as a copy.
func union[E comparable](list, more []E) []E {
	out := slices.Clone(list)
	for _, e := range more {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// deps reads a list of references to targets; a target that is listed twice counts once.
func (r *reader) deps(f *field) []Dep {
	var out []Dep
	places, seen := literals(f.expr), map[string]bool{}
	for _, e := range f.elements("references") {
		if s, ok := asText(e); ok && e.Type() == cty.String {
			help := "System libraries go into libs."
			for _, k := range targetKinds() {
				if name := strings.TrimPrefix(s, k+"."); r.l.has(k, name) {
					help = fmt.Sprintf("Write %s.%s, without quotes.", k, name)
				}
			}
			r.l.errorAt(places.take(s, f.rng), help,
				"%s takes references such as library.solver, not strings", f.row.Name)
			continue
		} else if e.IsNull() || e.Type() != referenceType {
			r.l.errorAt(f.rng, "", "%s takes references such as library.solver, and one element is %s",
				f.row.Name, typeName(e))
			continue
		}
		t := e.EncapsulatedValue().(*target)
		rng := places.take(t.label(), f.rng)
		if !isTarget(t.kind) && !(t.kind == "group" && f.row.Name == "targets") {
			r.l.errorAt(rng, "Targets are "+strings.Join(targetKinds(), ", ")+".", "%s is not a target",
				t.label())
			continue
		}
		if seen[t.label()] || !r.l.hasInstance(t, rng) {
			continue
		}
		seen[t.label()] = true
		out = append(out, Dep{Label: t.label(), Pos: position(rng)})
	}
	return out
}

// checkDeps reports targets that depend on themselves, also through a generated source.
func (l *loader) checkDeps() {
	edges := map[string][]Dep{}
	for _, t := range l.project.Targets {
		label := string(t.Kind) + "." + t.Base
		for _, d := range t.Deps {
			d.Label, _, _ = strings.Cut(d.Label, ":") // for an instance, the label of its block
			edges[label] = append(edges[label], d)
		}
		for _, s := range t.Sources {
			if s.Generated != "" {
				edges[label] = append(edges[label], Dep{s.Generated, s.Pos})
			}
		}
	}
	for _, g := range l.project.Groups {
		edges["group."+g.Name] = g.Targets
	}
	c := depCycles{l: l, edges: edges, state: map[string]nodeState{}}
	for _, b := range l.blocks {
		if isTarget(b.kind) || b.kind == "group" {
			c.visit(Dep{Label: b.key()})
		}
	}
}

// depCycles is a depth-first walk of the targets.
type depCycles struct {
	l     *loader
	edges map[string][]Dep
	state map[string]nodeState
	path  []Dep
}

func (c *depCycles) visit(to Dep) {
	c.path = append(c.path, to)
	switch c.state[to.Label] {
	case untouched:
		c.state[to.Label] = running
		for _, d := range c.edges[to.Label] {
			c.visit(d)
		}
		c.state[to.Label] = known
	case running:
		i := slices.IndexFunc(c.path, func(d Dep) bool { return d.Label == to.Label })
		steps := to.Label
		for _, d := range c.path[i+1:] {
			steps += fmt.Sprintf("\n  needs %s (%s)", d.Label, d.Pos)
		}
		c.l.addQuoted(Diagnostic{Summary: to.Label + " depends on itself", Detail: steps, Pos: to.Pos})
	}
	c.path = c.path[:len(c.path)-1]
}
