package hostcode

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// A pass is keyed by exactly the bytes that it is given. What preprocessed text does not have -
// columns, macros, comments - is recorded by some passes and decides on warnings. Edits of these
// are made with every compiler, and bytes and messages of an incremental build, of an empty build
// tree with the cache, and of the launcher are those of a clean build without a cache.

// compilers are how a library names each of them.
var compilers = []struct {
	name, source, manifest string
	command                []string // for the launcher; nil where it leaves the compile to the compiler
	sameBytes              bool     // of two runs of the command
}{
	{"hipcc", "a.hip", "code = [\"gfx906\"]\n  mode = \"rdc\"\n  flags = { hip = concat(%s, [\"-nogpuinc\"]) }",
		[]string{"hipcc", "-cuid=ab", "-nogpuinc", "-fgpu-rdc", "--offload-arch=gfx906"}, true},
	{"clang-cuda", "a.cu", "code = [\"sm_80\"]\n  flags = { clang = %s }", nil, false},
	{"nvcc", "a.cu", "code = [\"sm_80\"]\n  flags = { host = %s }", []string{"nvcc", "-arch=sm_80"}, false},
	{"g++", "a.cpp", "flags = { host = %s }", []string{"g++"}, true},
	{"clang++", "a.cpp", "flags = { host = %s }", []string{"clang++"}, true},
}

// flagSets are options of compilers, by the name of the library that has them. ofClang are known to
// clang alone.
var (
	flagSets = map[string][]string{
		"debug": {"-g"}, "warns": {"-Wall", "-Wextra"}, "fails": {"-Wall", "-Wextra", "-Werror"},
	}
	ofClang = map[string][]string{
		"lines": {"-g1"}, "documented": {"-Werror", "-Wdocumentation"}, "unreachable": {"-Werror", "-Wunreachable-code"},
	}
	ofHosts = map[string][]string{"sanitized": {"-fsanitize=undefined"}}
	covered = map[string][]string{"covered": {"-fprofile-instr-generate", "-fcoverage-mapping"}}
)

const keyedHeader = `#ifndef __NVCC__
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifdef PLAIN
#define HD
#else
#define HD __attribute__((host)) __attribute__((device))
#endif
#else
#define HD __host__ __device__
#endif
#define F(x) (x + 1)
#define EQ (x[0] == x[1])
#define Z 0
/** Adds. \param x it */
HD inline int add(int *x, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += F(x[i]);
  if (EQ) s++;
  if (Z) { s = 2; }
  return s / n;
}
`

// hipRuntime is what clang wants of HIP's headers, which take long.
const hipRuntime = `struct dim3 { unsigned x, y, z; };
typedef struct ihipStream_t *hipStream_t;
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
`

var keyedEdits = []struct{ name, from, to string }{
	{"blanks within a line", "s += F", "s +=    F"},
	{"a macro that is written out", "F(x[i])", "(x[i] + 1)"},
	{"a condition that is written out", "if (EQ)", "if ((x[0] == x[1]))"},
	{"a constant that is written out", "if (Z)", "if (0)"},
	{"the name in a comment", `\param x`, `\param y`},
}

func TestPassesAreKeyedByWhatTheyRead(t *testing.T) {
	for _, c := range compilers {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "hipcc" && c.name != "g++" {
				tooltest.Broad(t)
			}
			p := e2e.Bare(t)
			clang, program := c.name != "nvcc" && c.name != "g++", c.name
			p.Env = append(p.Env, "HIP_PLATFORM=amd")
			if c.name == "clang-cuda" || c.name == "clang++" {
				program = hostCompiler(t, "clang")
			}
			p.Need(program)
			plain := filepath.Ext(c.source) == ".cpp"
			sets := maps.Clone(flagSets)
			for _, more := range []struct {
				is   bool
				sets map[string][]string
			}{{clang, ofClang}, {plain || c.name == "nvcc", ofHosts}, {c.name == "clang++", covered}} {
				if more.is {
					maps.Copy(sets, more.sets)
				}
			}
			edits := keyedEdits
			if !tooltest.All() {
				maps.DeleteFunc(sets, func(name string, _ []string) bool { return name != "debug" && name != "warns" && name != "documented" })
				edits = slices.Concat(keyedEdits[:2], keyedEdits[len(keyedEdits)-1:])
			}
			manifest := map[string]string{"clang-cuda": "toolchain \"cuda\" {\n  compiler = %q\n}\n", "clang++": "toolchain \"cuda\" {\n  host_compiler = %q\n}\n"}[c.name]
			if manifest != "" {
				manifest = fmt.Sprintf(manifest, program)
			}
			for name, flags := range sets {
				list := `["` + strings.Join(flags, `", "`) + `"]`
				manifest += fmt.Sprintf("library %q {\n  sources = [%q]\n  "+c.manifest+"\n}\n", name, c.source, list)
			}
			p.Write("kernels.hcl", manifest)
			kernel := "#include \"a.h\"\n__global__ void k(int *x) { *x = add(x, 3); }\n"
			switch {
			case plain:
				kernel = "#define PLAIN\n#include \"a.h\"\nint k(int *x) { return add(x, 3); }\n"
			case c.name == "hipcc":
				kernel = hipRuntime + kernel
			}
			p.Write(c.source, kernel)
			text := keyedHeader
			p.Write("a.h", text)
			compareBuilds(t, p, sets)
			for _, edit := range edits {
				text = strings.Replace(text, edit.from, edit.to, 1)
				p.Write("a.h", text)
				t.Log(edit.name)
				compareBuilds(t, p, sets)
				if c.command == nil {
					continue
				}
				for _, name := range []string{"debug", "warns", "documented"} {
					flags := sets[name]
					if flags == nil {
						continue
					}
					argv := slices.Concat(c.command, flags, []string{"-c", c.source, "-o", "a.o"})
					argv[0] = program
					if c.name == "nvcc" {
						argv = slices.Concat(c.command, []string{"-Xcompiler=" + strings.Join(flags, ",")}, argv[len(argv)-4:])
					}
					compareLauncher(t, p, edit.name+", "+name, argv, c.sameBytes)
				}
			}
		})
	}
}

// compareBuilds builds in the build tree, in an empty one, and in an empty one without a cache.
func compareBuilds(t *testing.T, p e2e.Project, sets map[string][]string) {
	t.Helper()
	p.Run("rm", "-rf", "fresh", "clean") // each is built as "build", which debug information names
	build := func(args ...string) (printed []string, status int) {
		text, status := p.Status(nil, append([]string{"kbuild", "-k", "0", "-j2"}, args...)...)
		for line := range strings.Lines(text) {
			if about.MatchString(line) {
				printed = append(printed, line)
			}
		}
		slices.Sort(printed)
		return slices.Compact(printed), status
	}
	want, status := build("--no-cache")
	p.Run("mv", "build", "clean")
	for _, dir := range []string{"fresh", "edited"} {
		p.Run("sh", "-c", `[ ! -d "$0" ] || mv "$0" build`, dir)
		printed, got := build()
		p.Run("mv", "build", dir)
		if got != status || !slices.Equal(printed, want) {
			t.Errorf("%s: status %d, a clean build %d; it prints\n%s\nand a clean build\n%s", dir, got, status, printed, want)
		}
		for name := range sets {
			file := "lib/lib" + name + ".a"
			mine, err := os.ReadFile(filepath.Join(p.Dir, dir, file))
			clean, errClean := os.ReadFile(filepath.Join(p.Dir, "clean", file))
			if errClean != nil && (name == "debug" || name == "warns") {
				t.Fatalf("a clean build makes no %s:\n%s", file, want)
			}
			if errClean == nil && (err != nil || !bytes.Equal(mine, clean)) {
				t.Errorf("%s/%s is not that of a clean build: %v", dir, file, err)
			}
		}
	}
}

// about finds the messages of compilers.
var about = regexp.MustCompile(`: (warning|error|note): `)

// compareLauncher runs a command plainly and twice by the launcher.
func compareLauncher(t *testing.T, p e2e.Project, what string, argv []string, sameBytes bool) {
	t.Helper()
	run := func(argv ...string) (printed string, status int, object []byte) {
		p.Run("rm", "-f", "a.o")
		printed, status = p.Status(nil, argv...)
		object, _ = os.ReadFile(filepath.Join(p.Dir, "a.o"))
		return printed, status, object
	}
	want, status, object := run(argv...)
	for range 2 {
		printed, got, made := run(append([]string{"kbuild-cc"}, argv...)...)
		if printed != want || got != status || (made == nil) != (object == nil) || sameBytes && !bytes.Equal(made, object) {
			t.Errorf("%s: by the launcher status %d, and %d plainly; equal bytes %v; it prints\n%s\nand the compiler\n%s",
				what, got, status, bytes.Equal(made, object), printed, want)
		}
	}
}
