package traced_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// owed is what commands are known to look at and records lack, by the kind of the action and what was done, with the reason. A row goes when
// that is mended: no finding may be left that no row explains.
var owed = []struct{ finding, why string }{
	{`^\S+ looked for /(usr|opt|include\b|root|etc/env\.d)`, "the folders of the system in which compilers and linkers search for headers, libraries, start files, programs and each other"},
	{`^\S+ read (/opt|/usr/lib/gcc/[^/]+|/etc/ld\.so\.conf(\.d.*)?)$`, "the lists by which clang finds gcc and ROCm, and ld the folders of the dynamic loader"},
	{`^archive read /usr/lib(exec)?/`, "the plugins for intermediate code that ar loads from a folder of the system, with their libraries"},
	{`^\S+ looked for \S*\.(gch|pch)$`, "a precompiled header beside one that is included"},
	{`^\S+ looked for (\S*/)?tbb(/tbb\.h)?$`, "a header that one of the system asks after by __has_include"},
	{`^\S+ looked for (\S*/)?(stdc-predef|stddef|math_constants|builtin_types|fatbinary_section|crt/\w+)\.h$`, "a header of nvcc's in an include folder of the project, for host code that nvcc's tools made"},
	{`^\S+ looked for \S*/x86_64-pc-linux-gnu-(ld|lld|ld\.lld)$`, "a linker by the name of the target, in PATH"},
	{`^\S+ looked for (\S*/)?lib(c|m|gcc|gcc_s|stdc\+\+)\.(a|so|so\.1)$`, "a library that the compiler adds to a link, in a folder of -L, or that a linker's script names, in the project's"},
}

// The smallest projects that have each compiler do each kind of work.
var cases = []struct {
	name  string
	tools string // besides nvcc
	args  []string
	files map[string]string
}{
	{name: "host", files: map[string]string{
		"kernels.hcl": "executable \"app\" {\n  sources  = [\"main.cpp\"]\n  includes = [\"first\", \"inc\"]\n  lib_dirs = [\"libs\"]\n  deps     = [library.half]\n}\n" +
			"library \"half\" {\n  sources = [\"half.c\"]\n}\n",
		"main.cpp": "#include \"a.h\"\n#if __has_include(\"there.h\") || __has_include(<gone.h>)\n#endif\nextern \"C\" int half(int);\n" +
			"asm(\".section .rodata\\n.incbin \\\"data.bin\\\"\\n.text\");\nint main() { return half(A); }\n",
		"half.c": "int half(int x) { return x / 2; }\n", "inc/a.h": "#define A 1\n", "there.h": "", "data.bin": "x", "first/other.h": "",
	}},
	{name: "nvcc as one command", args: []string{"--no-split"}, files: map[string]string{
		"kernels.hcl": "library \"l\" {\n  sources  = [\"k.cu\"]\n  includes = [\"inc\"]\n  code     = [\"sm_80\"]\n}\n", "k.cu": kernel, "inc/a.h": "#define A 1\n",
	}},
	{name: "device link", files: map[string]string{
		"kernels.hcl": "executable \"app\" {\n  sources  = [\"k.cu\"]\n  includes = [\"inc\"]\n  mode     = \"lto\"\n  code     = [\"sm_80\"]\n}\n", "k.cu": kernel, "inc/a.h": "#define A 1\n",
	}},
	{name: "clang", files: map[string]string{
		"kernels.hcl": "toolchain \"cuda\" {\n  compiler = \"CLANG\"\n}\nlibrary \"l\" {\n  sources  = [\"k.cu\"]\n  includes = [\"inc\"]\n  code     = [\"sm_80\"]\n}\n",
		"k.cu":        kernel, "inc/a.h": "#define A 1\n",
	}},
	{name: "hipcc", tools: "hipcc", files: map[string]string{
		"kernels.hcl": "library \"l\" {\n  sources  = [\"k.hip\"]\n  includes = [\"inc\"]\n  code     = [\"gfx906\"]\n}\n",
		"k.hip":       "#include <hip/hip_runtime.h>\n" + kernel, "inc/a.h": "#define A 1\n",
	}},
}

const kernel = "#include \"a.h\"\n__global__ void k(float *p) { p[0] = A; }\nint main() { k<<<1, 1>>>(nullptr); }\n"

func TestTraced(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := e2e.New(t)
			p.Need("strace")
			p.Need(strings.Fields(c.tools)...)
			for name, text := range c.files {
				if c.name == "clang" {
					text = strings.ReplaceAll(text, "CLANG", tooltest.ClangCUDA(t))
				}
				if dir, _, ok := strings.Cut(name, "/"); ok {
					p.Run("mkdir", "-p", dir)
				}
				p.Write(name, text)
			}
			nothing(t, &p, c.args...)
		})
	}
}

func TestTracedExample(t *testing.T) {
	p := e2e.Example(t, "generate")
	p.Need("strace")
	nothing(t, &p, "--arch", "sm_80")
}

// nothing checks that the commands of a project use nothing that no record knows, but for what is owed.
func nothing(t *testing.T, p *e2e.Project, args ...string) {
	t.Helper()
	said, status := p.Status([]string{"HIP_PLATFORM=", "ROCM_PATH="}, append([]string{"kbuild", "-q", "cache", "verify", "--trace"}, args...)...)
	if !regexp.MustCompile(`(?m)^[1-9]\d* commands ran again, \d+ paths are in no record$`).MatchString(said) || status > 1 {
		t.Fatalf("status %d:\n%s", status, said)
	}
	action := ""
	for line := range strings.Lines(said) {
		finding, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			action = line
		} else if !isOwed(strings.Fields(action)[1] + " " + finding) {
			t.Errorf("%s  %s", action, finding)
		}
	}
}

func isOwed(finding string) bool {
	for _, o := range owed {
		if regexp.MustCompile(o.finding).MatchString(finding) {
			return true
		}
	}
	return false
}
