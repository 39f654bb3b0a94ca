package pptext

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// This file holds the canonical form to NVIDIA's compilers: what they make of it is what they make
// of the true text.

// sharedHeader is included by the sources, and gets comments in front in some tests.
const sharedHeader = `#pragma once
struct Pair { union { int i; float f; }; int j; };
static __device__ inline int plus(int x) { return x + 1; }
template <class F> void call(F f) { f(); }
inline int counted() { static struct { int n; } s; call([] { s.n++; }); return s.n; }
`

// sources have, together, what could hold a line number in its name or value, except assert, which
// has one by design.
var sources = []struct{ name, text string }{
	{"language", `#include <cstdio>
#include "shared.h"
static __device__ int file_static = 3;
namespace { __device__ int unnamed_namespace; }
template <int N> __device__ int variable = N;
struct { int x, y; } unnamed_type;
template <class T> __device__ const char *pretty(T) { return __PRETTY_FUNCTION__; }
namespace {
template <class T> __global__ void apply(T f, int *p) {
  extern __shared__ int dynamic[];
  __shared__ int shared[4];
  shared[threadIdx.x & 3] = f(p[0]);
  __syncthreads();
  p[1] = shared[0] + dynamic[0];
}
}
extern "C" __global__ void c_kernel(int *p, Pair q) {
  static int calls;
  static __shared__ int shared[8];
  shared[0] = p[0] + calls++;
  auto f = [=](int v) { static int in_lambda; in_lambda += v; return in_lambda + shared[0]; };
  struct { int n; } local = {p[0]};
  const float table[3] = {1, 2, 1'0};
  p[1] = f(2) + file_static + unnamed_namespace + variable<4> + plus(q.i) + local.n + table[p[0]];
  printf("%s %s %s\n", pretty(f), pretty(decltype(unnamed_type)()), pretty(local));
}
void run(int *p) {
  int k = 3;
  apply<<<1, 1>>>([=] __device__(int v) { return v + k; }, p);
  apply<<<1, 1, 4>>>([=] __host__ __device__(int v) { return v * k; }, p);
  [&] { apply<<<1, 1>>>([] __device__(int v) { return v; }, p); }();
  c_kernel<<<1, 1>>>(p, Pair());
  printf("%d %s %p\n", counted(), R"x(raw  )x", (void *)NULL);
}
`},
	{"assert", `#include "shared.h"
#include <cassert>
#include <vector>
__global__ void k(int *p) { assert(p[0] && "  "); *p = plus(*p); }
void run(std::vector<int> &v) { assert(v.size()); k<<<1, 1>>>(v.data()); }
`},
	{"cub", `#include <thrust/device_vector.h>
#include <thrust/transform.h>
#include <cub/device/device_reduce.cuh>
#include "shared.h"
struct Op { template <class T> __host__ __device__ T operator()(T a) const { return a + 1; } };
void next(thrust::device_vector<int> &d) { thrust::transform(d.begin(), d.end(), d.begin(), Op()); }
void sum(void *t, size_t n, int *in, int *out) { cub::DeviceReduce::Sum(t, n, in, out, 100); }
`},
}

// toolchain runs the steps of nvcc on one source, in one folder.
type toolchain struct {
	t    *testing.T
	dir  string
	path string     // PATH for the steps
	argv [][]string // the steps

	asserts bool // main.cu has an assert that asks for its position
}

// assertAsks reports a C library whose assert asks the compiler where it stands, as that of glibc
// 2.41 does, and not the preprocessor.
func assertAsks() bool {
	header, _ := os.ReadFile("/usr/include/assert.h")
	return strings.Contains(string(header), "__builtin_LINE")
}

// newToolchain learns the steps for main.cu, with relocatable device code as PTX and LTO-IR.
func newToolchain(t *testing.T, source, header string) *toolchain {
	gcc := tooltest.HostGCC(t)
	tc := &toolchain{t: t, dir: t.TempDir(), asserts: !strings.Contains(source, "<cstdio>") && assertAsks()}
	tc.write("main.cu", source)
	tc.write("shared.h", header)
	cmd := exec.Command("nvcc", "-ccbin", gcc, "--dryrun", "--keep", "-std=c++17", "--extended-lambda",
		"-dc", "-gencode", "arch=compute_80,code=[lto_80,compute_80]", "main.cu", "-o", "main.o")
	cmd.Dir = tc.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("nvcc does not say its steps: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "#$ ")
		if v, ok := strings.CutPrefix(line, "PATH="); ok {
			tc.path = v
		}
		line = strings.ReplaceAll(line, tc.dir+"/", "")                              // LTO-IR records it
		tc.argv = append(tc.argv, strings.Fields(strings.ReplaceAll(line, `"`, ""))) // no argument used here has a blank
	}
	return tc
}

func (tc *toolchain) write(name, text string) {
	tc.t.Helper()
	if err := os.WriteFile(filepath.Join(tc.dir, name), []byte(text), 0o666); err != nil {
		tc.t.Fatal(err)
	}
}

func (tc *toolchain) read(name string) string {
	tc.t.Helper()
	text, err := os.ReadFile(filepath.Join(tc.dir, name))
	if err != nil {
		tc.t.Fatal(err)
	}
	return string(text)
}

// step runs the step that has all of words among its arguments, with more arguments, and returns
// what it said.
func (tc *toolchain) step(words []string, more ...string) string {
	tc.t.Helper()
	for _, argv := range tc.argv {
		has := 0
		for _, w := range words {
			if slices.Contains(argv, w) {
				has++
			}
		}
		if has < len(words) {
			continue
		}
		argv = slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return a == "--gen_module_id_file" })
		cmd := exec.Command("/usr/bin/env", append(argv, more...)...)
		cmd.Dir = tc.dir
		cmd.Env = []string{"PATH=" + tc.path, "PWD=/proc/self/cwd", "TMPDIR=" + tc.t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			tc.t.Fatalf("%q: %v\n%s", argv, err, out)
		}
		return string(out)
	}
	tc.t.Fatalf("nvcc has no step with %q", words)
	return ""
}

// result is what the compilers make of one source.
type result struct {
	device, host       string // preprocessed, as the compilers read it
	ptx, ltoir, object string
	split              string // cudafe1.cpp, canonical
}

// compile runs all steps. When canonical, the compilers read canonical forms in place of what
// preprocessors and cudafe++ wrote.
func (tc *toolchain) compile(canonical bool) (r result) {
	tc.t.Helper()
	settle := func(name string, o Options) string {
		form, c := canon(tc.t, tc.read(name), o)
		if c.Copied && !(c.Lines && tc.asserts) {
			tc.t.Errorf("%s was copied", name)
		}
		if canonical {
			tc.write(name, form)
		}
		return form
	}
	tc.write("main.module_id", "_id")
	tc.write("main.fatbin.c", "#include \"fatbinary_section.h\"\nextern \"C\" { extern const __fatBinC_Wrapper_t __fatbinwrap_id; }\n")
	tc.step([]string{"-E", "main.cpp1.ii"})
	tc.step([]string{"-E", "main.cpp4.ii"})
	r.device, r.host = settle("main.cpp1.ii", Options{}), settle("main.cpp4.ii", Options{})
	for _, words := range [][]string{{"cicc"}, {"cudafe++"}} {
		if printed := tc.step(words); printed != "" {
			tc.t.Errorf("%s said\n%s", words, printed)
		}
	}
	r.split = settle("main.cudafe1.cpp", Options{DropFalse: true})
	tc.step([]string{"-c", "main.cudafe1.cpp"}, "-O1")
	r.ptx, r.ltoir, r.object = tc.read("main.ptx"), tc.read("main.ltoir"), tc.read("main.o")
	return r
}

// TestCompilers compares what the compilers make of true and of canonical text, and of sources with
// more lines.
func TestCompilers(t *testing.T) {
	comments := strings.Repeat("// comment\n", 3)
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			if s.name == "cub" { // 20 seconds of CPU
				tooltest.Broad(t)
			}
			truth := newToolchain(t, s.text, sharedHeader).compile(false)
			form := newToolchain(t, s.text, sharedHeader).compile(true)
			if truth.ptx != form.ptx {
				t.Error("the PTX differs")
			}
			if truth.object != form.object {
				t.Error("the host object differs")
			}
			if s.name != "language" { // the lines of asserts are in the text; and cub takes long
				return
			}
			moved := newToolchain(t, strings.ReplaceAll(s.text, "#include \"", comments+"#include \""), comments+sharedHeader).compile(true)
			if form != moved {
				t.Errorf("added comments are seen: device text %v, host text %v, PTX %v, LTO-IR %v, cudafe1.cpp %v, object %v",
					form.device != moved.device, form.host != moved.host, form.ptx != moved.ptx,
					form.ltoir != moved.ltoir, form.split != moved.split, form.object != moved.object)
			}
		})
	}
}

// TestMovedLines adds comments before each line of a source that calls the macros of system headers
// in many ways.
func TestMovedLines(t *testing.T) {
	tooltest.Need(t, "g++")
	const source = `#include <cstddef>
#include "own.h"
void *f() { return NULL; }
#include "part.h"
#include <cstdio>
void *q = NULL;
#pragma GCC diagnostic push
#define MANY(a, b) a + b
int b = MANY(1,
  2)
  ;
int g(int x) {
  return x ? EOF :
#include "part.h"
  ;
}
void *h(void *x = NULL,
        void *y = NULL);
int z = MANY(NULL ? 1 : 2, NULL
   ? 3 : 4);
`
	dir := t.TempDir()
	files := map[string]string{
		"own.h":  "#pragma once\n#pragma GCC system_header\nstatic inline void *own() { return NULL; }\n",
		"part.h": "NULL ? 2 : 5\n",
		"a.cc":   source,
	}
	expand := func() string {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("g++", "-E", "a.cc")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	first := expand()
	want, c := canon(t, first, Options{})
	if c.Copied {
		t.Error("the text was copied")
	}
	changed := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		lines := strings.SplitAfter(text, "\n")
		for i := range lines {
			for _, n := range []int{1, 8, 20} {
				files[name] = strings.Join(lines[:i], "") + strings.Repeat("  // comment\n", n) + strings.Join(lines[i:], "")
				out := expand()
				if out != first {
					changed++
				}
				if got, _ := canon(t, out, Options{}); got != want {
					t.Fatalf("with %d lines before line %d of %s:\n%s\nwithout:\n%s", n, i+1, name, got, want)
				}
			}
		}
		files[name] = text
	}
	if changed < 50 {
		t.Errorf("only %d edits moved anything", changed)
	}
}

// TestRealText rewrites what g++ makes of the C++ library, which has corners that nobody writes in
// tests.
func TestRealText(t *testing.T) {
	tooltest.Need(t, "g++")
	text := []byte(strings.Join([]string{"<algorithm>", "<chrono>", "<map>", "<regex>", "<string>", "<thread>", "<vector>", ""}, "\n#include "))
	text = bytes.TrimSuffix(append([]byte("#include "), text...), []byte("#include "))
	for _, std := range []string{"c++11", "gnu++17"} {
		cmd := exec.Command("g++", "-std="+std, "-E", "-x", "c++", "-")
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, c := canon(t, string(out), Options{}); c.Copied {
			t.Errorf("-std=%s: the text was copied", std)
		}
		checkForm(t, string(out), Options{})
	}
}
