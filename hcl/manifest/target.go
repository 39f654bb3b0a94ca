package manifest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// compiled reads a target with sources.
func (r *reader) compiled(kind Kind) *Target {
	t := r.newTarget(kind)
	r.compile(t)
	t.Sources = r.sources(t)
	if kind != Module {
		t.OutputName = r.outputName()
	}
	return t
}

// outputName returns the base name of the target's file.
func (r *reader) outputName() string {
	name, ok := r.text("output_name")
	if ok && !targetName().MatchString(name) {
		r.l.errorAt(r.find("output_name").Expr.Range(), "Letters, digits and _ . + - may be used, and no folder; lib and the ending are added.", "%q is no name for a file", name)
	}
	return path.Join(r.b.dir, cmp.Or(name, path.Base(r.b.name)))
}

func (l *loader) decodeLibrary(b *block) {
	l.instances(b, func(r *reader, e each) { l.project.Targets = append(l.project.Targets, e.named(r.library(), b)) })
}

func (r *reader) library() *Target {
	if r.isHeaderOnly() {
		return r.headerLibrary()
	}
	t := r.compiled(Library)
	t.Shared = r.enum("type") == "shared"
	t.DeviceLink, t.AlwaysLink = r.isTrue("device_link"), r.isTrue("always_link")
	t.SOVersion = r.soversion(t.Shared)
	t.PublicHeaders = r.publicHeaders(t)
	if t.Shared && t.DeviceLink {
		r.l.bothAt(r.find("device_link").NameRange, r.find("type").NameRange, "shared here", "Remove it.",
			"device_link is for a static library; a shared one always has a device link of its own")
	}
	if t.Shared && t.AlwaysLink {
		r.l.bothAt(r.find("always_link").NameRange, r.find("type").NameRange, "shared here", "Remove it.",
			"always_link is for a static library; a shared one is loaded with all its objects")
	}
	return t
}

// decodeExecutable adds one target, or one for each element of for_each.
func (l *loader) decodeExecutable(b *block) {
	l.instances(b, func(r *reader, e each) {
		l.project.Targets = append(l.project.Targets, e.named(r.compiled(Executable), b))
	})
}

// decodeModule adds one target, or one for each instance of the matrix.
func (l *loader) decodeModule(b *block) {
	if b.body.Attributes["matrix"] == nil {
		if a := b.body.Attributes["exclude"]; a != nil {
			l.errorAt(a.NameRange, "Remove it, or add matrix = { axis = [...] }.", "exclude needs a matrix")
		}
		l.project.Targets = append(l.project.Targets, l.reader(b, nil).module())
		return
	}
	for _, inst := range l.matrices[b] {
		r := l.reader(b, map[string]cty.Value{"matrix": cty.ObjectVal(inst.values)})
		t := r.module()
		t.Name, t.Matrix = inst.name(b.name), inst.axes
		l.project.Targets = append(l.project.Targets, t)
	}
}

func (r *reader) module() *Target {
	t := r.compiled(Module)
	t.Emit = r.emit()
	for _, it := range r.texts("late_bound") {
		t.LateBound = append(t.LateBound, it.text)
	}
	t.PublicHeaders = r.publicHeaders(t)
	for _, n := range r.b.nested {
		if n.kind == "embed" {
			t.Embed = r.embed(n)
		}
	}
	return t
}

// emit reads the kinds of files that a module ships; the default is a fatbin.
func (r *reader) emit() []string {
	var out []string
	emits, seen := r.b.schema.Attribute("emit").Words, map[string]bool{}
	for _, it := range r.texts("emit") {
		switch {
		case !slices.Contains(emits, it.text):
			r.l.errorAt(it.rng, knownNames("kind", emits), "emit: %q is no kind of device code file%s", it.text, didYouMean(it.text, emits))
		case !seen[it.text]:
			seen[it.text] = true
			out = append(out, it.text)
		}
	}
	if len(out) == 0 {
		return []string{"fatbin"}
	}
	return out
}

func (l *loader) decodePrebuilt(b *block) {
	r := l.reader(b, nil)
	t := r.newTarget(Prebuilt)
	archive, shared := b.body.Attributes["archive"], b.body.Attributes["shared"]
	switch {
	case archive == nil && shared == nil:
		l.errorAt(b.rng, `Write archive = "libNAME.a" or shared = "libNAME.so".`, "%s names neither an archive nor a shared file", b.heading())
	case archive != nil && shared != nil:
		l.bothAt(shared.NameRange, archive.NameRange, "and here", "Keep one of them, or make two blocks.", "%s names an archive and a shared file", b.heading())
	}
	t.Archive, t.SharedFile = r.path("archive"), r.path("shared")
	t.Includes, t.LibDirs, t.Libs = r.paths("includes"), r.paths("lib_dirs"), r.noPrefix("libs", "-l")
	t.floats(r) // of bare LTO-IR, which does not record how it was compiled
	t.LTO, t.AlwaysLink = r.enum("lto"), r.isTrue("always_link")
	if shared != nil && t.AlwaysLink {
		l.bothAt(r.find("always_link").NameRange, shared.NameRange, "shared here", "Remove it.",
			"always_link is for an archive; a shared library is loaded with all its objects")
	}
	l.project.Targets = append(l.project.Targets, t)
}

// path reads the path of a file; "" if it is not set.
func (r *reader) path(name string) string {
	s, ok := r.text(name)
	if !ok {
		return ""
	}
	if s == "" {
		r.l.errorAt(r.find(name).Expr.Range(), "", "%s is empty", name)
		return ""
	}
	return r.sourcePath(s)
}

// embed reads the embed block of a module.
func (r *reader) embed(b *block) *Embed {
	e := r.l.reader(b, r.extra)
	e.required()
	s, ok := e.text("symbol")
	if !ok {
		return &Embed{Symbol: s, Pos: position(b.rng)}
	}
	rng := e.find("symbol").Expr.Range()
	switch {
	case !cIdentifier(s):
		r.l.errorAt(rng, "Letters, digits and underscores; it becomes a name in a C header.", "%q is no C identifier", s)
	case contains(cWords, s):
		r.l.errorAt(rng, "It becomes the name of a table in C and C++; add the name of the library, say.", "%q is a word of C or C++", s)
	case contains(systemHeaders, s):
		r.l.errorAt(rng, "The header "+s+".h would be found instead of the system's. Add the name of the library, say.", "%q is the name of a system header", s)
	}
	return &Embed{Symbol: s, Pos: position(b.rng)}
}

func contains(words, word string) bool { return strings.Contains(" "+words+" ", " "+word+" ") }

// cWords are names that cannot be identifiers: the keywords of C and C++, and names that gcc
// defines as macros on some systems.
const cWords = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await " +
	"co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do double " +
	"dynamic_cast else enum explicit export extern false float for friend goto if inline int long main mutable namespace new noexcept " +
	"not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short signed " +
	"sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof " +
	"typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq i386 linux unix"

// systemHeaders are the headers of C, POSIX and the CUDA toolkit that programs include with <>.
const systemHeaders = "aio assert complex cpio ctype cublas cuda cudnn cufft curand cusolver cusparse dirent dlfcn elf endian errno fcntl " +
	"features fenv float fmtmsg fnmatch ftw glob grp iconv inttypes iso646 langinfo libgen limits link locale malloc math memory monetary " +
	"mqueue netdb nl_types npp nvrtc nvml poll pthread pwd regex sched search semaphore setjmp signal spawn stdalign stdarg stdatomic " +
	"stdbool stddef stdint stdio stdlib stdnoreturn string strings stropts syslog tar termios tgmath threads time uchar ucontext ulimit " +
	"unistd utime utmpx wait wchar wctype wordexp"
