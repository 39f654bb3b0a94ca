package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// unit is a source with everything that it includes from the tree, as its compiler reads it.
type unit struct {
	file     string
	language string // c, c++, cuda, hip, asm
	why      string // why the language differs from the extension's

	dirs     []string // folders to search, in the order of their first use
	lacking  []need   // headers that are missing and certainly included
	optional []need   // missing headers that may not be included
	system   map[string]bool
	reads    map[string]bool // files of the tree

	uses      map[string]bool
	decls     map[string]symbol
	defs      map[string]symbol
	all       map[string]bool // defined in any way
	main      bool
	registers bool // it has macros that stand as definitions: TEST(a, b) {
	openMP    bool
	launch    string // file:line
	inside    string
	nested    string
	hip       string
	macros    map[string]macro
	pending   []string
	spaces    map[string]bool // namespaces
	own       map[string]bool // macros of the tree
}

// need is a header and the place that includes it.
type need struct{ header, from string }

func (n need) String() string { return fmt.Sprintf("%s (%s)", n.header, n.from) }

// macro is a macro as far as it is known.
type macro struct {
	defined tri
	body    string
}

// unitOf reads a source in the given language.
func (t *tree) unitOf(file, language string) *unit {
	u := &unit{file: file, language: language, system: map[string]bool{}, reads: map[string]bool{},
		uses: map[string]bool{}, decls: map[string]symbol{}, defs: map[string]symbol{}, all: map[string]bool{},
		macros: map[string]macro{}, spaces: map[string]bool{}, own: t.defined}
	for _, name := range []string{"__linux__", "__linux", "__unix__", "__x86_64__", "__GNUC__", "linux"} {
		u.macros[name] = macro{yes, "1"}
	}
	switch language {
	case "c":
	case "asm":
		u.macros["__ASSEMBLER__"] = macro{yes, "1"}
	default:
		u.macros["__cplusplus"] = macro{yes, "201703L"}
	}
	switch language {
	case "cuda":
		u.macros["__CUDACC__"], u.macros["__NVCC__"] = macro{yes, "1"}, macro{yes, "1"}
	case "hip":
		u.macros["__HIPCC__"], u.macros["__HIP_PLATFORM_AMD__"] = macro{yes, "1"}, macro{yes, "1"}
	}
	t.read(u, file, yes)
	t.expand(u)
	return u
}

// foreign lists macros that only other compilers and systems define.
var foreign = []string{"_WIN32", "_WIN64", "_MSC_VER", "__APPLE__", "__MINGW32__", "__CYGWIN__", "__HIPCC__", "__HIP_PLATFORM_AMD__", "__HIP_PLATFORM_HCC__", "__HIP__", "__HIP_PLATFORM_NVIDIA__",
	"__INTEL_COMPILER", "__ANDROID__", "__clang__", "__CUDACC__", "__NVCC__", "__CUDACC_RTC__", "__HIPCC_RTC__", "_OPENMP", "__SYCL_COMPILER_VERSION", "__INTEL_LLVM_COMPILER", "__FreeBSD__",
	"__aarch64__", "__arm__", "__QNX__", "__cplusplus", "__OPENCL_VERSION__", "__OPENCL_C_VERSION__", "__CUDA_LIBDEVICE__", "__PGI", "__NVCOMPILER"}

var libraryMacroRE = pattern(`^(?:_|CUDA_VERSION|CUDART_VERSION|CUDNN_|NCCL_|NCCL_VERSION|THRUST_|CUB_|CCCL_|LIBCUDACXX|M_|MPI_|PNG_|GL_|CV_|HAVE_|[A-Z]+_MAX$|[A-Z]+_MIN$|NDEBUG)`)

func (u *unit) definedness(name string) tri {
	if m, ok := u.macros[name]; ok {
		return m.defined
	}
	if !u.own[name] && !slices.Contains(foreign, name) && libraryMacroRE().MatchString(name) {
		return maybe
	}
	return no
}

func (u *unit) valueOf(name string, depth int) value {
	m, ok := u.macros[name]
	switch {
	case !ok && u.definedness(name) == no:
		return value{0, true}
	case !ok || m.defined == maybe || strings.HasPrefix(m.body, "("):
		return value{}
	case m.body == "":
		return value{}
	}
	return u.evaluate(nil, "", m.body, depth+1)
}

// branch is an open #if.
type branch struct{ outer, taken, now tri }

// read processes a file and its includes. certain is the truth value of the file being included.
func (t *tree) read(u *unit, file string, certain tri) {
	if u.reads[file] {
		return
	}
	u.reads[file] = true
	var open []branch
	active := func() tri {
		if len(open) == 0 {
			return certain
		}
		return min(open[len(open)-1].outer, open[len(open)-1].now)
	}
	for _, e := range t.eventsOf(file) {
		if is := t.conditional(u, file, e, active(), &open); is || active() == no {
			continue
		}
		t.take(u, file, e, active())
	}
}

// conditional processes #if and similar directives.
func (t *tree) conditional(u *unit, file string, e event, active tri, open *[]branch) bool {
	var holds tri
	top := len(*open) - 1
	switch e.kind {
	case "if":
		holds = u.evaluate(t, file, e.arg, 0).truth()
	case "ifdef":
		holds = u.definedness(firstWord(e.arg))
	case "ifndef":
		holds = u.definedness(firstWord(e.arg)).not()
	case "elif", "else":
		if top < 0 {
			return true
		}
		b := &(*open)[top]
		if holds = yes; e.kind == "elif" {
			holds = u.evaluate(t, file, e.arg, 0).truth()
		}
		b.now = min(holds, b.taken.not())
		b.taken = max(b.taken, holds)
		return true
	case "endif":
		*open = (*open)[:max(top, 0)]
		return true
	default:
		return false
	}
	*open = append(*open, branch{active, holds, holds})
	return true
}

func firstWord(s string) string {
	n := 0
	for n < len(s) && isWord(s[n]) {
		n++
	}
	return s[:n]
}

// take processes a directive or code that the compiler reads.
func (t *tree) take(u *unit, file string, e event, active tri) {
	switch e.kind {
	case "include", "include_next":
		t.include(u, file, e, active)
	case "define":
		if have, ok := u.macros[e.arg]; !ok || active == yes || have.defined != yes {
			u.macros[e.arg] = macro{active, e.body}
		}
	case "undef":
		u.macros[firstWord(e.arg)] = macro{active.not(), ""}
	case "pragma":
		if firstWord(e.arg) == "omp" && active == yes && file == u.file {
			u.openMP = true
		}
	case "":
		if e.code != nil { // a lone #
			u.takeCode(file, e.code)
		}
	}
}

func (t *tree) include(u *unit, file string, e event, active tri) {
	name := e.arg
	if name != "" && isWord(name[0]) { // a macro
		name = u.macros[firstWord(name)].body
	}
	if len(name) < 3 || name[0] != '"' && name[0] != '<' {
		return
	}
	end := strings.IndexAny(name[1:], `">`)
	if end < 0 {
		return
	}
	name = name[:end+2]
	from := fmt.Sprintf("%s:%d", file, e.line)
	found := t.resolve(u, file, name)
	plain := name[1 : len(name)-1]
	switch found.how {
	case local:
		if found.dir != "" && !slices.Contains(u.dirs, found.dir) {
			u.dirs = append(u.dirs, found.dir)
		}
		t.read(u, found.file, active)
	case ofSystem:
		u.system[plain] = true
		if strings.HasPrefix(plain, "hip/hip_runtime") && active == yes && u.hip == "" {
			u.hip = from
		}
	case lacks:
		if active == yes {
			u.lacking = append(u.lacking, need{name, from})
		} else {
			u.optional = append(u.optional, need{name, from})
		}
	}
	if strings.HasPrefix(plain, "hip/hip_runtime") && active == yes && u.hip == "" {
		u.hip = from
	}
}

func (u *unit) takeCode(file string, c *code) {
	for _, w := range c.uses {
		u.uses[w] = true
	}
	for _, w := range c.spaces {
		u.spaces[w] = true
	}
	for _, s := range c.decls {
		u.declare(s)
	}
	for _, s := range c.defs {
		u.define(s, file, c)
	}
	u.pending = append(u.pending, c.calls...)
	mark := func(at *string, n int) {
		if *at == "" && n > 0 {
			*at = fmt.Sprintf("%s:%d", file, n)
		}
	}
	mark(&u.launch, c.launch)
	mark(&u.inside, c.inside)
	mark(&u.nested, c.nested)
}

func (u *unit) declare(s symbol) {
	if have, ok := u.decls[s.key()]; ok {
		s.device = s.device || have.device
	}
	u.decls[s.key()] = s
}

// define records a definition. Definitions in headers are inline, or should be. Those in an
// included source file count.
func (u *unit) define(s symbol, file string, c *code) {
	u.all[s.key()] = true
	if s.name == "main" && s.class == "" {
		u.main = true
		return
	}
	if s.class == "" && slices.Contains(c.calls, s.name) && s.local {
		u.registers = u.registers || file == u.file
		return
	}
	if s.local || !isSource(file) && file != u.file {
		return
	}
	u.defs[s.key()] = s
}

// expand adds the uses in the bodies of macros. It also handles macros that stand as definitions.
func (t *tree) expand(u *unit) {
	done := map[string]bool{}
	for name := range u.uses {
		u.pending = append(u.pending, name)
	}
	for len(u.pending) > 0 {
		name := u.pending[len(u.pending)-1]
		u.pending = u.pending[:len(u.pending)-1]
		m, ok := u.macros[name]
		if !ok || done[name] || len(m.body) > 1<<16 {
			continue
		}
		done[name] = true
		body := strings.TrimPrefix(m.body, "(")
		for _, w := range words(body) {
			if isWord(w[0]) && w != "0" && !u.uses[w] {
				u.uses[w] = true
				u.pending = append(u.pending, w)
			}
		}
		if strings.Contains(body, "template ") || strings.Contains(body, "{") {
			p := &parser{qualifiers: t.qualifiers}
			p.code(line{1, body + ";", false})
			for _, s := range p.cur.defs {
				if !slices.Contains(p.cur.calls, s.name) {
					u.define(s, u.file, p.cur)
				}
			}
		}
	}
}

// needs returns the symbols that another file must define.
func (u *unit) needs() (out []symbol) {
	for key, s := range u.decls {
		if !u.all[key] && (u.uses[s.name] || s.virtual && u.uses[s.class]) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b symbol) int { return strings.Compare(a.key(), b.key()) })
	return out
}

// Ways in which an include is resolved.
const (
	lacks = iota
	local
	ofSystem
)

// resolution is the result of resolving an include. file is a file of the tree. dir is the folder
// to search for it, or "" if the compiler finds it anyway.
type resolution struct {
	how       int
	file, dir string
}

// resolve finds an included file. It looks next to the includer, in the folders found before and on
// the system. Last, it takes the nearest file of the tree whose path ends so.
func (t *tree) resolve(u *unit, from, name string) resolution {
	quoted, plain := strings.HasPrefix(name, `"`), strings.Trim(name, `"<>`)
	own := path.Join(path.Dir(from), plain)
	if quoted && t.has(own) {
		return resolution{how: local, file: own}
	}
	for _, dir := range u.dirs {
		if f := path.Join(dir, plain); t.has(f) && inside(f) {
			return resolution{local, f, dir}
		}
	}
	if !quoted && t.Machine.has(plain) {
		return resolution{how: ofSystem}
	}
	if f, dir := t.nearest(from, plain, quoted); f != "" {
		return resolution{local, f, dir}
	}
	if t.Machine.has(plain) || !t.Machine.known() {
		return resolution{how: ofSystem}
	}
	return resolution{how: lacks}
}

func inside(file string) bool { return file != ".." && !strings.HasPrefix(file, "../") }

// nearest returns the file of the tree whose path ends with the include's, nearest to the includer.
// Folders that shadow system headers come last.
func (t *tree) nearest(from, plain string, quoted bool) (file, dir string) {
	if strings.HasPrefix(plain, "/") {
		return "", ""
	}
	best := 1 << 30
	for _, f := range t.byBase[path.Base(plain)] {
		d, ok := strings.CutSuffix("/"+f, "/"+path.Clean(plain))
		if !ok {
			continue
		}
		d = strings.TrimPrefix(d, "/")
		if d == "" {
			d = "."
		}
		far := 4*distance(path.Dir(from), d) + strings.Count(d, "/")
		if auxiliary(d) != "" && !strings.HasPrefix(from, auxiliary(d)+"/") {
			far += 1000
		}
		if t.shadows(d) {
			far += 100
		}
		if quoted && path.Dir(from) == d {
			far = 0
		}
		if far < best {
			best, file, dir = far, f, d
		}
	}
	if file != "" && t.shadows(dir) && t.Machine.has(plain) {
		return "", ""
	}
	return file, dir
}

// distance returns the number of steps between two folders.
func distance(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	if a == "." {
		as = nil
	}
	if b == "." {
		bs = nil
	}
	same := 0
	for same < len(as) && same < len(bs) && as[same] == bs[same] {
		same++
	}
	return len(as) + len(bs) - 2*same
}
