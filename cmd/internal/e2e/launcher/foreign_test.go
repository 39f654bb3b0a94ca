package launcher_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// What the test suites of ccache and CMake have found.

// What a compiler says is in the language of whoever calls it, though somebody else has made the
// same before.
func TestLanguage(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	p := newProject(t, tooltest.Toolkits(t)[0])
	p.Write("w.cc", "int w() { }\n")
	p.Write("w.cu", "int w() { }\n__global__ void k() {}\n")
	env := p.Env
	for _, argv := range [][]string{{"g++", "-Wall", "-c", "w.cc", "-o", "out/w.o"}, {"nvcc", "-Xcompiler=-Wall", "-c", "w.cu", "-o", "out/w.o"}} {
		printed := map[string]string{}
		for _, language := range []string{"C", "C.UTF-8", "C"} {
			p.Env = append(slices.Clone(env), "LC_ALL="+language)
			p.sameAsPlain(argv...)
			printed[language] = p.command(append([]string{"kbuild-cc"}, argv...)...).stderr
			if e := p.last(); e.Result != "hit" {
				t.Errorf("%s in %s, again: %+v", argv[0], language, e)
			}
		}
		if printed["C"] == printed["C.UTF-8"] || printed["C"] == "" {
			t.Errorf("%s says the same in both languages: %q", argv[0], printed)
		}
	}
}

// What goes to standard output is the compiler's to write: a record does not tell it from standard
// error.
func TestStandardOutput(t *testing.T) {
	t.Parallel()
	p := newProject(t, tooltest.Toolkits(t)[0])
	p.Write("s.cc", "int s(int *a) { int n = 0; for (int i = 0; i < 64; i++) n += a[i]; return n; }\n")
	p.Write("s.cu", "__global__ void k() {}\n")
	temporary := regexp.MustCompile(`\S*/?cc\w{6}\.s|\S*tmpxft\S*|(?m)^ *\d+ [0-9a-f]{4} .*$`)
	for _, argv := range [][]string{
		{"g++", "-Wa,-a", "-c", "s.cc", "-o", "out/s.o"},
		{"g++", "-Xassembler", "-a", "-c", "s.cc", "-o", "out/s.o"},
		{"g++", "-Wa,--version", "-c", "s.cc", "-o", "out/s.o"},
		{"g++", "-fdump-tree-original=stdout", "-c", "s.cc", "-o", "out/s.o"},
		{"g++", "-fdump-tree-original=-", "-c", "s.cc", "-o", "out/s.o"},
		{"g++", "-O3", "-fopt-info-all=stdout", "-c", "s.cc", "-o", "out/s.o"},
		{"nvcc", "-Xcompiler=-Wa,--version", "-c", "s.cu", "-o", "out/s.o"},
	} {
		plain := p.command(argv...)
		for range 2 {
			mine := p.command(append([]string{"kbuild", "cc"}, argv...)...)
			if e := p.last(); e.Result != "left" || plain.stdout == "" {
				t.Errorf("%q: %+v; plainly it says %q", argv, e, plain.stdout)
			}
			if a, b := temporary.ReplaceAllString(plain.stdout, ""), temporary.ReplaceAllString(mine.stdout, ""); a != b || plain.stderr != mine.stderr || plain.status != mine.status {
				t.Errorf("%q: %q %q, plainly %q %q", argv, b, mine.stderr, a, plain.stderr)
			}
		}
	}
}

// A compiler that is left alone has the name that it was called by, which a script says in its
// messages.
func TestCalledAs(t *testing.T) {
	t.Parallel()
	p := newProject(t, tooltest.Toolkit{})
	if err := os.Mkdir(filepath.Join(p.Dir, "tools"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "tools", "gcc"), []byte("#!/bin/sh\necho \"$0\" \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	p.Env = append(p.Env, "PATH="+filepath.Join(p.Dir, "tools")+":"+p.Path)
	for _, launcher := range []string{"kbuild-cc ", "kbuild cc "} {
		for _, command := range []string{"./tools/gcc -c c.c", "tools/../tools/gcc -c c.c", "gcc -c c.c"} {
			plain, mine := p.command("sh", "-c", command), p.command("sh", "-c", launcher+command)
			if mine.stdout != plain.stdout || plain.stdout == "" {
				t.Errorf("%s%s: %q, plainly %q", launcher, command, mine.stdout, plain.stdout)
			}
		}
	}
}

// The name of the object is in no compile, unless a dependency file is an output of it.
func TestOtherObject(t *testing.T) {
	t.Parallel()
	p := newProject(t, tooltest.Toolkit{})
	for _, deps := range []string{"", "-MMD"} {
		for i, object := range []string{"out/h.o", "./out/other.o"} {
			argv := slices.DeleteFunc([]string{"g++", "-Iinc", deps, "-c", "h.cpp", "-o", object}, func(a string) bool { return a == "" })
			plain, mine := p.command(argv...), p.command(append([]string{"kbuild-cc"}, argv...)...)
			if !maps.EqualFunc(plain.files, mine.files, bytes.Equal) || len(plain.files) == 0 {
				t.Errorf("%q makes something else", argv)
			}
			if e := p.last(); e.Result != "hit" && deps+object != "out/h.o" {
				t.Errorf("%q, %d: %+v", argv, i, e)
			}
		}
	}
}

// A compile whose profile has clang's usual name is left to the compiler; one that an option names is
// an input.
func TestUsualProfile(t *testing.T) {
	t.Parallel()
	p := newProject(t, tooltest.Toolkit{})
	clang, merge := "clang-15", "llvm-profdata-15"
	for _, tool := range []string{clang, merge} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	p.Write("m.c", "int main(int c, char **v) { if (c > 1) return 3; return 0; }\n")
	p.Run(clang, "-fprofile-instr-generate", "-o", "m", "m.c")
	p.Env = append(p.Env, "LLVM_PROFILE_FILE=m.profraw")
	for _, runs := range []string{"./m", "./m 1 || true"} {
		p.Run("sh", "-c", runs)
		p.Run(merge, "merge", "-o", "default.profdata", "m.profraw")
		for option, want := range map[string]string{"-fprofile-instr-use": "left", "-fprofile-instr-use=default.profdata": "hit"} {
			argv := []string{clang, "-O2", option, "-c", "m.c", "-o", "out/m.o"}
			p.command(append([]string{"kbuild-cc"}, argv...)...)
			plain, mine := p.command(argv...), p.command(append([]string{"kbuild-cc"}, argv...)...)
			if e := p.last(); e.Result != want {
				t.Errorf("after %s: %+v, not a %s", runs, e, want)
			}
			if !bytes.Equal(plain.files["m.o"], mine.files["m.o"]) || len(mine.files["m.o"]) == 0 {
				t.Errorf("after %s: another object", runs)
			}
		}
	}
}

// A header of the host alone is in the dependency file of PTX, and read by nothing that makes the
// PTX. Without that file nobody reads it.
func TestDependenciesOfPTX(t *testing.T) {
	tooltest.Broad(t)
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := newProject(t, tk)
		p.Write("p.cu", "#ifdef __CUDA_ARCH__\n#include \"device.h\"\n#else\n#include \"host.h\"\n#endif\n__global__ void k(int *a) { *a = 1; }\n")
		p.Write("device.h", "")
		p.Write("host.h", "")
		p.Write("other.h", "")
		for _, emit := range []string{"-ptx", "-cubin"} {
			argv := []string{"nvcc", "-arch=sm_80", "-MD", "-MF", "out/p.d", emit, "p.cu", "-o", "out/p." + emit[1:]}
			for _, text := range []string{"", "#include \"other.h\"\n", ""} {
				p.Write("host.h", text)
				if r := p.sameAsPlain(argv...); r == "left" {
					t.Errorf("%s: %+v", emit, p.last())
				}
			}
			p.Write("host.h", "#error no host\n")
			p.same(p.command(argv...), p.command(append([]string{"kbuild-cc"}, argv...)...))
			alone := []string{"nvcc", "-arch=sm_80", emit, "p.cu", "-o", "out/p." + emit[1:]}
			if r := p.sameAsPlain(alone...); r == "left" {
				t.Errorf("%s without a dependency file: %+v", emit, p.last())
			}
		}
	})
}
