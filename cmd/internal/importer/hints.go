package importer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// hints holds what build files define for the sources below their folder. Only simple definitions
// are understood.
type hints struct {
	defines  map[string]string
	includes []string // folders of the tree
	std      string   // for C++ and CUDA
	cStd     string
	archs    []string // sm_80, compute_80, all
	fastMath bool
	mode     string // rdc or lto; "" means unset
	maxRegs  string
	nvcc     []string
	host     []string
	libs     []string
	openMP   bool
	cuda     map[string]string // sources compiled as CUDA, and where that is set
	cudaAll  string            // where nvcc -x cu is set for all sources
	named    map[string]bool   // names of files in the build file
	globs    []string          // patterns of such names, relative to the root
	exports  []string          // a Makefile's variables for those below
	rules    []string          // patterns of prerequisites of a rule
	alone    bool              // a Makefile with compiler flags, and no CMake file
	from     map[string]string // where each attribute is set
}

func newHints() *hints {
	return &hints{defines: map[string]string{}, cuda: map[string]string{}, named: map[string]bool{}, from: map[string]string{}}
}

// recordSource records the first place that sets an attribute.
func (h *hints) recordSource(attribute, at string) {
	if h.from[attribute] == "" {
		h.from[attribute] = at
	}
}

// readBuildFiles reads all build files. It starts with CMake files from the root on, then reads
// those that they do not include, then Makefiles.
func (t *Tree) readBuildFiles() {
	c := &cmake{tree: t, seen: map[string]bool{}, after: map[string]map[string]string{}}
	slices.SortFunc(t.build, func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	for _, f := range t.build {
		if path.Base(f) == "CMakeLists.txt" && !c.seen[f] {
			c.start(f)
		}
	}
	for _, f := range t.build {
		if path.Base(f) != "CMakeLists.txt" {
			t.readMakefile(f)
		}
	}
}

func (t *Tree) hintsAt(dir string) *hints {
	h := t.hints[dir]
	if h == nil {
		h = newHints()
		t.hints[dir] = h
	}
	return h
}

// hintsOf returns the hints for a file. Build files in nearer folders take precedence.
func (t *Tree) hintsOf(file string) *hints {
	out := newHints()
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if h := t.hints[dir]; h != nil {
			out.fill(h)
			if h.alone { // a Makefile with its own flags inherits nothing
				return out
			}
		}
		if dir == "." {
			return out
		}
	}
}

func (h *hints) fill(above *hints) {
	for _, f := range []struct{ mine, theirs *string }{{&h.std, &above.std}, {&h.cStd, &above.cStd}, {&h.mode, &above.mode}, {&h.maxRegs, &above.maxRegs}, {&h.cudaAll, &above.cudaAll}} {
		if *f.mine == "" {
			*f.mine = *f.theirs
		}
	}
	if len(h.archs) == 0 {
		h.archs = above.archs
	}
	h.fastMath, h.openMP = h.fastMath || above.fastMath, h.openMP || above.openMP
	for _, f := range []struct {
		mine   *[]string
		theirs []string
	}{{&h.includes, above.includes}, {&h.nvcc, above.nvcc}, {&h.host, above.host}, {&h.libs, above.libs}, {&h.globs, above.globs}, {&h.rules, above.rules}} {
		for _, s := range f.theirs {
			*f.mine = appendNew(*f.mine, s)
		}
	}
	for _, f := range []struct{ mine, theirs map[string]string }{{h.defines, above.defines}, {h.cuda, above.cuda}, {h.from, above.from}} {
		for name, v := range f.theirs {
			if _, ok := f.mine[name]; !ok {
				f.mine[name] = v
			}
		}
	}
	maps.Copy(h.named, above.named)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

var (
	archRE    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:(?:sm|compute)_\d+[af]?|all|all-major|native)$`) })
	defineRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z_]\w*)(?:=(.*))?$`) })
	stdRE     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^--?std[= ]?((?:c|gnu)(\+\+)?\w+)$`) })
	plainRE   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?[\w.]*$|^"[\w ./+-]*"$`) })
	machineRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^-m(?:avx\w*|sse[\w.]*|fma|f16c|bmi2?|popcnt|aes|arch=[\w-]+)$`)
	})
)

// flags interprets the simple flags of a command line that runs in dir.
func (h *hints) flags(t *Tree, dir string, words []string, at string) {
	var plain []string
	for _, w := range words {
		if !strings.Contains(w, unknown) && !strings.Contains(w, "$") {
			plain = append(plain, strings.Trim(strings.ReplaceAll(w, `\"`, `"`), `"'`))
		}
	}
	for _, code := range nvcc.Architectures(plain) {
		if code.Kind == gencode.LTO {
			h.relocatable("lto", at)
			code = code.As(gencode.SASS)
		}
		h.arch(code.String(), at)
	}
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		if strings.Contains(w, unknown) || strings.Contains(w, "$") {
			continue
		}
		h.flag(t, dir, strings.Trim(w, `"'`), next, at)
	}
}

func (h *hints) flag(t *Tree, dir, w, next, at string) {
	value := func(names ...string) (string, bool) {
		for _, n := range names {
			if w == n {
				return next, true
			}
			if v, ok := strings.CutPrefix(w, n+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	if v, ok := value("-std", "--std"); ok {
		h.standard(v, at)
	} else if v, ok := value("-maxrregcount", "--maxrregcount"); ok && v != "0" && v != "" {
		h.maxRegs = v
		h.recordSource("max_registers", at)
	} else if v, ok := value("-rdc", "--relocatable-device-code"); ok && v == "true" {
		h.relocatable("rdc", at)
	} else if v, ok := value("-x"); ok && v == "cu" {
		h.cudaAll = cmp.Or(h.cudaAll, at)
	} else if v, ok := cutDefine(w); ok {
		if v == "" {
			v = next
		}
		h.define(strings.ReplaceAll(strings.ReplaceAll(v, `\"`, `"`), `'`, ""), at)
	} else if v, ok := strings.CutPrefix(w, "-I"); ok {
		if v == "" {
			v = next
		}
		h.include(t, dir, strings.Trim(v, `"'`))
	} else if v, ok := strings.CutPrefix(w, "-l"); ok && plainRE().MatchString(v) && v != "" && !strings.HasPrefix(w, "-lineinfo") {
		h.libs = appendNew(h.libs, v)
		h.recordSource("libs", at)
	} else {
		h.other(w, at)
	}
}

// cutDefine returns the text after -D or /D.
func cutDefine(w string) (string, bool) {
	if v, ok := strings.CutPrefix(w, "/D"); ok {
		return v, true
	}
	return strings.CutPrefix(w, "-D")
}

// other interprets flags without a value.
func (h *hints) other(w, at string) {
	switch w {
	case "-use_fast_math", "--use_fast_math":
		h.fastMath = true
		h.recordSource("fast_math", at)
	case "-dc", "--device-c":
		h.relocatable("rdc", at)
	case "-dlto", "--dlink-time-opt":
		h.relocatable("lto", at)
	case "-fopenmp", "-Xcompiler=-fopenmp", "/openmp":
		h.openMP = true
	case "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--extended-lambda", "-extended-lambda", "--expt-extended-lambda", "-expt-extended-lambda":
		w = map[bool]string{true: "--expt-relaxed-constexpr", false: "--extended-lambda"}[strings.Contains(w, "constexpr")]
		h.nvcc = appendNew(h.nvcc, w)
		h.recordSource("flags", at)
	case "-fpermissive", "-fcommon":
		h.host = appendNew(h.host, w)
		h.recordSource("flags", at)
	default:
		if machineRE().MatchString(w) {
			h.host = appendNew(h.host, w)
			h.recordSource("flags", at)
		}
	}
}

func (h *hints) relocatable(mode, at string) {
	if h.mode == "" || mode == "lto" {
		h.mode = mode
		h.from["mode"] = at
	}
}

func (h *hints) arch(a, at string) {
	if archRE().MatchString(a) {
		h.archs = appendNew(h.archs, a)
		h.recordSource("code", at)
	}
}

// standard keeps the newest requested standard.
func (h *hints) standard(v, at string) {
	m := stdRE().FindStringSubmatch("-std=" + v)
	switch {
	case m == nil:
	case m[2] == "":
		h.cStd = v
		h.recordSource("std", at)
	case h.std == "" || standardYear(v) > standardYear(h.std):
		h.std = v
		h.from["std"] = at
	}
}

// standardYear orders C++ standards by year.
func standardYear(v string) int {
	y := 0
	digits := strings.TrimPrefix(strings.TrimPrefix(v, "gnu++"), "c++")
	digits = strings.NewReplacer("0x", "11", "1y", "14", "1z", "17", "2a", "20", "2b", "23").Replace(digits)
	fmt.Sscanf(digits, "%d", &y)
	if y == 98 || y == 3 {
		y = 0
	}
	return y
}

func (h *hints) define(d, at string) {
	m := defineRE().FindStringSubmatch(d)
	if m == nil || !plainRE().MatchString(m[2]) || strings.HasSuffix(d, "=") {
		return
	}
	if _, ok := h.defines[m[1]]; !ok {
		h.defines[m[1]] = m[2]
		if !strings.Contains(d, "=") {
			h.defines[m[1]] = "1"
		}
		h.recordSource("defines", at)
	}
}

func (h *hints) include(t *Tree, dir, v string) {
	v = strings.TrimPrefix(v, "/SRC/")
	if !strings.HasPrefix(v, "/") {
		v = path.Join(dir, v)
		if t.dirs[v] {
			h.includes = appendNew(h.includes, v)
		}
	}
}

// gpuRE matches variables that enable GPU code. They are assumed true, since kbuild's user has a
// GPU in mind.
var gpuRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:\w*_)?(?:USE_?|ENABLE_?|WITH_?|BUILD_?|HAVE_?)?(?:CUDA|GPU|NVIDIA|NVCC)(?:_BACKEND|_FOUND|_SUPPORT|_ENABLED)?$`)
})

var othersGPU = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|_)(?:AMD|HIP|ROCM|SYCL|ONEAPI|OPENCL|METAL|VULKAN)(?:_|$)`)
})
