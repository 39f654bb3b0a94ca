package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// needTools skips a test whose tools are missing, or fails it where they must be there (make test).
func needTools(t *testing.T, path string, names ...string) {
	t.Helper()
	for _, n := range names {
		if which(path, n) == "" {
			if os.Getenv("KBUILD_REQUIRE_TOOLS") != "" {
				t.Fatalf("%s is required here and was not found in PATH", n)
			}
			t.Skipf("needs %s, which is not in PATH", n)
		}
	}
}

// example is a copy of an example in a folder of its own, built by the real compiler.
type example struct {
	t    *testing.T
	dir  string
	path string // PATH without the fake tools
	env  []string
}

// realPath is PATH with this kbuild and without the fake tools, which testscript puts first.
func realPath(t *testing.T, base string) string {
	t.Helper()
	fakes, rest, _ := strings.Cut(os.Getenv("PATH"), ":")
	bin := filepath.Join(base, "bin")
	if err := os.Mkdir(bin, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(fakes, "kbuild"), filepath.Join(bin, "kbuild")); err != nil {
		t.Fatal(err)
	}
	return bin + ":" + rest + ":/usr/local/cuda/bin"
}

// which finds a program in path.
func which(path, name string) string {
	for _, d := range filepath.SplitList(path) {
		if p := filepath.Join(d, name); isExecutable(p) {
			return p
		}
	}
	return ""
}

func isExecutable(p string) bool {
	info, err := os.Stat(p)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// realExample copies examples/NAME to a folder whose path has a space and a letter outside of ASCII.
func realExample(t *testing.T, name string) *example {
	base := t.TempDir()
	path := realPath(t, base)
	needTools(t, path, "nvcc", "cuobjdump", "nvdisasm")
	e := &example{t: t, dir: filepath.Join(base, "ein Übungs platz"), path: path,
		env: append(os.Environ(), "PATH="+path, "KBUILD_CACHE_DIR="+filepath.Join(base, "cache"), "MAKEFLAGS=")}
	copyTree(t, filepath.Join("../../examples", name), e.dir)
	return e
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, p)
		if d.IsDir() {
			if d.Name() == "build" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		}
		text, err := os.ReadFile(p)
		if err != nil || strings.HasSuffix(p, ".a") || strings.HasSuffix(p, ".o") {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a program in the example's folder and gives its standard output and error.
func (e *example) run(argv ...string) (stdout, stderr string) {
	e.t.Helper()
	cmd := e.command(argv...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		e.t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// command is a program to be run in the example's folder.
func (e *example) command(argv ...string) *exec.Cmd {
	program := argv[0]
	if !strings.Contains(program, "/") {
		program = which(e.path, program)
	} else if !filepath.IsAbs(program) {
		program = filepath.Join(e.dir, program)
	}
	cmd := exec.Command(program, argv[1:]...)
	cmd.Dir, cmd.Env = e.dir, e.env
	return cmd
}

// counts are the numbers of the last JSON event, and what ran by kind: "cicc 2, preprocess 3".
type counts struct {
	Actions, Ran, Cached, Up_to_date, Failed, Skipped int
	Kinds                                             string `json:"-"`
}

// kinds counts the actions that ran by kind.
func kinds(events []string) string {
	ran := map[string]int{}
	for _, line := range events {
		var e struct{ Event, Kind, Status string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "action_finished" && e.Status == "ran" {
			ran[e.Kind]++
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(ran)) {
		out = append(out, fmt.Sprint(k, " ", ran[k]))
	}
	return strings.Join(out, ", ")
}

func (e *example) kbuild(args ...string) counts {
	e.t.Helper()
	out, _ := e.run(slices.Concat([]string{"kbuild", "--json"}, args)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var c counts
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &c); err != nil {
		e.t.Fatalf("the last line is no event: %v\n%s", err, out)
	}
	c.Kinds = kinds(lines)
	if c.Ran+c.Cached+c.Up_to_date+c.Failed+c.Skipped != c.Actions {
		e.t.Errorf("counts do not add up: %+v", c)
	}
	return c
}

// elfs are the architectures of the machine code in a file, sorted, each once.
func (e *example) elfs(file string) string {
	out, _ := e.run("cuobjdump", "--list-elf", file)
	archs := regexp.MustCompile(`sm_\d+[a-z]?`).FindAllString(out, -1)
	slices.Sort(archs)
	return strings.Join(slices.Compact(archs), " ")
}

// calls are the functions that kernel calls in the machine code of a program, over all architectures.
func (e *example) calls(file, kernel string) string {
	dir := e.t.TempDir()
	abs := filepath.Join(e.dir, file)
	x := &example{t: e.t, dir: dir, path: e.path, env: e.env}
	x.run("cuobjdump", "--extract-elf", "all", abs)
	cubins, _ := filepath.Glob(dir + "/*.cubin")
	if len(cubins) == 0 {
		e.t.Fatalf("no cubin in %s", file)
	}
	var found []string
	for _, c := range cubins {
		out, _ := x.run("nvdisasm", "-c", c)
		in := false
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(line, ".text.") {
				in = strings.Contains(line, kernel)
			}
			if m := regexp.MustCompile("CALL[^`]*`\\(([^)]*)\\)").FindStringSubmatch(line); in && m != nil {
				found = append(found, m[1])
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// settled checks the promises that hold for every example: a second run, one after touch, one after the
// build tree is gone and one in a second checkout run nothing, and give the same bytes.
func (e *example) settled(outputs ...string) {
	e.t.Helper()
	first := map[string][]byte{}
	for _, o := range outputs {
		first[o] = e.read(o)
	}
	if c := e.kbuild(); c.Up_to_date != c.Actions {
		e.t.Errorf("second run: %+v", c)
	}
	e.run("find", ".", "-name", "build", "-prune", "-o", "-type", "f", "-exec", "touch", "{}", "+")
	if c := e.kbuild(); c.Up_to_date != c.Actions {
		e.t.Errorf("after touch: %+v", c)
	}
	e.run("rm", "-rf", "build")
	if c := e.kbuild(); c.Ran != 0 || c.Failed != 0 {
		e.t.Errorf("after rm -rf build: %+v", c)
	}
	second := &example{t: e.t, dir: filepath.Join(e.t.TempDir(), "second"), path: e.path, env: e.env}
	copyTree(e.t, e.dir, second.dir)
	e.run("sh", "-c", `[ ! -f third_party/libspectra.a ] || cp third_party/libspectra.a "$1/third_party"`, "sh", second.dir)
	if c := second.kbuild(); c.Ran != 0 || c.Failed != 0 {
		e.t.Errorf("second checkout: %+v", c)
	}
	for _, o := range outputs {
		if !bytes.Equal(e.read(o), first[o]) || !bytes.Equal(second.read(o), first[o]) {
			e.t.Errorf("%s is not the same when it is restored", o)
		}
	}
}

func (e *example) read(name string) []byte {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		e.t.Fatal(err)
	}
	return text
}

func (e *example) write(name, text string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o666); err != nil {
		e.t.Fatal(err)
	}
}

func TestExampleHello(t *testing.T) {
	t.Parallel()
	e := realExample(t, "hello")
	if c := e.kbuild(); c.Kinds != "cicc 2, cudafe++ 1, fatbinary 1, host-part 1, join 1, link 1, preprocess 3, ptxas 2" {
		t.Errorf("cold: %+v", c)
	}
	if got := e.elfs("build/bin/hello"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if out, _ := e.run("cuobjdump", "--list-ptx", "build/bin/hello"); !strings.Contains(out, "sm_90.ptx") {
		t.Errorf("no PTX: %s", out)
	}
	e.run("build/bin/hello")
	e.settled("build/bin/hello")
}

func TestExampleLTO(t *testing.T) {
	t.Parallel()
	e := realExample(t, "lto")
	e.kbuild()
	if got := e.calls("build/bin/app", "fade"); got != "" {
		t.Errorf("with LTO the kernel calls %s", got)
	}
	e.kbuild("--profile", "dev")
	if got := e.calls("build/dev/bin/app", "fade"); got != "_Z5blendfff" {
		t.Errorf("without LTO the kernel calls %q", got)
	}
	e.run("build/bin/app")
	e.settled("build/bin/app")
	if c := e.kbuild("--arch", "sm_86"); c.Failed != 0 {
		t.Errorf("another architecture: %+v", c)
	}
	if got := e.elfs("build/bin/app"); got != "sm_86" {
		t.Errorf("--arch sm_86 gives %q", got)
	}
}

func TestExamplePartialLTO(t *testing.T) {
	t.Parallel()
	e := realExample(t, "partial-lto")
	e.run("make", "-C", "third_party")
	_, said := e.run("kbuild", "--progress", "plain")
	if strings.Contains(said, "not built for LTO") {
		t.Errorf("expected partial LTO is not quiet:\n%s", said)
	}
	if got := e.elfs("build/bin/bench"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if got := e.calls("build/bin/bench", "relax_kernel"); got != "_Z14spectra_weightf" {
		t.Errorf("relax_kernel calls %q", got)
	}
	e.run("build/bin/bench")
	e.settled("build/bin/bench")

	// A comment changes no code, and neither does a line that is new: nothing behind the preprocessor runs.
	relax := string(e.read("src/relax.cu"))
	for what, text := range map[string]string{"a comment": relax + "// a comment\n", "a line": "// a line\n" + relax, "blanks": strings.ReplaceAll(relax, "  ", "    ")} {
		e.write("src/relax.cu", text)
		if c := e.kbuild(); c.Kinds != "preprocess 3" {
			t.Errorf("%s: %+v", what, c)
		}
	}
	// An edit runs what comes after it.
	e.write("src/relax.cu", strings.Replace(relax, "* spectra", "+ spectra", 1))
	if c := e.kbuild(); c.Kinds != "archive 1, cicc 2, cudafe++ 1, fatbinary 2, host-part 1, join 1, link 1, nvlink 2, preprocess 3, slice 2" {
		t.Errorf("an edit: %+v", c)
	}
	e.write("src/relax.cu", relax)
	if c := e.kbuild(); c.Ran != 0 {
		t.Errorf("reverted: %+v", c)
	}
	// What the device sees of another architecture only, and what only the host sees, is noticed.
	const kernel = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
	e.write("src/relax.cu", strings.Replace(relax, kernel, kernel+"#if __CUDA_ARCH__ >= 900\n  if (i == 7) out[i] = 42;\n#endif\n", 1))
	if c := e.kbuild(); c.Kinds != "archive 1, cicc 1, fatbinary 2, host-part 1, join 1, link 1, nvlink 1, preprocess 3, slice 2" {
		t.Errorf("an edit for sm_90 only: %+v", c)
	}
	e.write("src/relax.cu", relax)
	e.kbuild()
	e.write("src/relax.cu", strings.Replace(relax, "int n) {\n  float *next", "int n) {\n#ifndef __CUDA_ARCH__\n  if (n < 0) return cudaErrorInvalidValue;\n#endif\n  float *next", 1))
	if c := e.kbuild(); c.Kinds != "archive 1, cudafe++ 1, host-part 1, join 1, link 1, preprocess 3, slice 2" {
		t.Errorf("an edit for the host only: %+v", c)
	}
}

func TestExampleSharedLibrary(t *testing.T) {
	t.Parallel()
	e := realExample(t, "shared-library")
	e.kbuild()
	if got := e.elfs("build/lib/libvec.so"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if got := e.calls("build/lib/libvec.so", "double_kernel"); got != "" {
		t.Errorf("the kernel calls %s", got)
	}
	e.run("build/bin/app")
	e.settled("build/bin/app", "build/lib/libvec.so")
}

func TestExampleGenerate(t *testing.T) {
	t.Parallel()
	e := realExample(t, "generate")
	e.kbuild()
	if out, _ := e.run("build/bin/lookup"); !strings.Contains(out, "16 squares") && !strings.Contains(out, "ok") {
		t.Errorf("it says %q", out)
	}
	e.settled("build/bin/lookup")
	if c := e.kbuild("--var", "size=32"); !strings.HasPrefix(c.Kinds, "cicc 2, ") || !strings.Contains(c.Kinds, "generate 1, ") {
		t.Errorf("another size: %+v", c)
	}
}

func TestExampleMatrix(t *testing.T) {
	t.Parallel()
	e := realExample(t, "matrix")
	e.kbuild()
	for _, variant := range []string{"float.8", "float.16", "double.8"} {
		for _, arch := range []string{"80", "90"} {
			out, _ := e.run("cuobjdump", "--dump-sass", "build/modules/gemm."+variant+".sm_"+arch+".cubin")
			if !strings.Contains(out, "sm_"+arch) || !strings.Contains(out, "Function : gemm") {
				t.Errorf("%s sm_%s holds no gemm:\n%.200s", variant, arch, out)
			}
			if ptx := string(e.read("build/modules/gemm." + variant + ".compute_" + arch + ".ptx")); !strings.Contains(ptx, ".target sm_"+arch) {
				t.Errorf("%s compute_%s is no PTX for it", variant, arch)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(e.dir, "build/modules/gemm.double.16.sm_80.cubin")); err == nil {
		t.Error("the excluded variant was built")
	}
	if said, _ := e.run("sh", "-c", "kbuild precompile --verify build/modules/*.json"); strings.Count(said, ": 4 artifacts are what it says\n") != 3 {
		t.Errorf("the manifests: %s", said)
	}
	out, _ := e.run("build/bin/list")
	if n := strings.Count(out, "\n"); n != 12 {
		t.Errorf("the table has %d entries, want 12:\n%s", n, out)
	}
	if out, _ := e.run("build/bin/list", "86"); out != "gemm.float.16.sm_80.cubin\n" {
		t.Errorf("a loader would take %s", out)
	}
	e.settled("build/bin/list", "build/modules/gemm.float.8.json")
}

func TestExampleMakefile(t *testing.T) {
	t.Parallel()
	e := realExample(t, "makefile")
	needTools(t, e.path, "make")
	e.run("make", "-j2")
	if got := e.elfs("app"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	e.run("./app")
	out, errs := e.run("make")
	if strings.TrimSpace(errs) != "" || strings.Contains(out, "-o app") {
		t.Errorf("with nothing to do make says %q %q", out, errs)
	}
}

func TestExampleCMake(t *testing.T) {
	t.Parallel()
	e := realExample(t, "cmake")
	needTools(t, e.path, "cmake")
	e.run("cmake", "-B", "build", ".")
	e.run("cmake", "--build", "build")
	if got := e.elfs("build/app"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	e.run("build/app")
	if out, _ := e.run("cmake", "--build", "build"); strings.Contains(out, "Linking") {
		t.Errorf("the second build links:\n%s", out)
	}
}

// clangd takes the compile commands of .cu files.
func TestClangd(t *testing.T) {
	t.Parallel()
	e := realExample(t, "partial-lto")
	needTools(t, e.path, "clangd")
	e.run("make", "-C", "third_party")
	db, _ := e.run("kbuild", "compdb")
	e.write("compile_commands.json", db)
	_, said := e.run("clangd", "--check=src/relax.cu")
	if !strings.Contains(said, "All checks completed, 0 errors") {
		t.Errorf("clangd says:\n%s", said)
	}
}

func TestExamplePasses(t *testing.T) {
	t.Parallel()
	e := realExample(t, "passes")
	e.kbuild()
	if got := e.calls("build/bin/app", "normalise"); strings.Contains(got, "block_sum") {
		t.Errorf("the kernel calls %s", got)
	}
	e.run("build/bin/app")
	e.settled("build/bin/app")
	e.edit("src/main.cu", "#include <cmath>", "// a line\n#include <cmath>")
	e.ran("a line", "preprocess 3")
	e.edit("src/main.cu", "x *= 1.0f", "x *= 2.0f")
	e.ran("for sm_90", "cicc 1, fatbinary 2, host-part 1, join 1, link 1, nvlink 1, preprocess 3, slice 2")
	e.ran("sm_86", "cicc 2, fatbinary 3, host-part 1, join 2, link 1, nvlink 1, preprocess 2, slice 6", "--arch", "sm_80,sm_86,sm_90")
	e.ran("sm_80 alone", "fatbinary 3, host-part 1, join 2, link 1, slice 2", "--arch", "sm_80")
}
