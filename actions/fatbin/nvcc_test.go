package fatbin

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// lab is a folder with compilers at hand.
type lab struct {
	t    *testing.T
	dir  string
	gcc  string // the g++ that nvcc takes
	llvm string // see tooltest.LLVM
}

// newLab is a lab with an NVIDIA toolkit.
func newLab(t *testing.T) lab {
	t.Helper()
	tooltest.Need(t, "nvcc", "nvlink")
	return lab{t: t, dir: t.TempDir(), gcc: tooltest.HostGCC(t)}
}

func (l lab) write(name string, content []byte) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		l.t.Fatal(err)
	}
}

func (l lab) read(name string) []byte {
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	return data
}

// run gives what the command said. It must work.
func (l lab) run(args ...string) string {
	l.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = l.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l lab) nvcc(args ...string) string {
	return l.run(append([]string{"nvcc", "-ccbin", l.gcc, "--keep", "--keep-dir", "."}, args...)...)
}

// link runs nvlink in a folder of the lab and gives all that it makes: code, registrations,
// messages.
func (l lab) link(folder, arch string, flags, inputs []string) string {
	args := append([]string{"-m64", "--arch=" + arch, "--register-link-binaries=reg.c", "-cpu-arch=X86_64",
		"-nvvmpath=/usr/lib/nvidia-cuda-toolkit", "-L/usr/lib/x86_64-linux-gnu", "-o", "out.cubin"}, flags...)
	for _, name := range []string{"reg.c", "out.cubin"} {
		os.Remove(filepath.Join(l.dir, folder, name)) // nvlink does not write over a file of registrations
	}
	cmd := exec.Command("nvlink", append(append(args, inputs...), "-lcudadevrt")...)
	cmd.Dir = filepath.Join(l.dir, folder)
	printed, err := cmd.CombinedOutput()
	return fmt.Sprintf("%v\n%s\n%s\n%s", err, printed, l.read(folder+"/reg.c"), l.read(folder+"/out.cubin"))
}

var sources = map[string]string{
	"a.cu": `__device__ int f(int); extern __constant__ int shared; static __device__ int mine = 3;
__global__ void used(int *p) { *p = f(*p) + mine + shared; }
__global__ void unused(int *p) { *p = f(*p) * 77; }
void a(int *p) { used<<<1, 1>>>(p); cudaMemcpyToSymbol(mine, p, 4); }
`,
	"b.cu": `__constant__ int shared = 1; static __device__ int mine = 5;
__device__ int f(int x) { return x * mine; }
__global__ void child(int *p) { atomicAdd(p, f(*p)); }
__global__ void parent(int *p) { child<<<1, 1>>>(p); }
void b(int *p) { parent<<<1, 1>>>(p); }
int main() { int *p; cudaMalloc(&p, 4); b(p); return 0; }
`,
	"whole.cu": "__global__ void k(int *p) { *p = 1; }\nvoid w(int *p) { k<<<1, 1>>>(p); }\n",
	"host.cc":  "int host() { return 1; }\n",
}

// TestLinksAlike links thin objects and whole ones: nvlink must make the same of them and say the
// same.
func TestLinksAlike(t *testing.T) {
	tooltest.Broad(t)
	l := newLab(t)
	for name, text := range sources {
		l.write(name, []byte(text))
	}
	l.run(l.gcc, "-c", "host.cc", "-o", "host.o")
	l.nvcc("-c", "-arch=sm_80", "whole.cu", "-o", "whole.o")
	gencodes := map[string][]string{
		"sass":  {"-gencode", "arch=compute_70,code=sm_70", "-gencode", "arch=compute_80,code=[sm_80,compute_80]"},
		"lto":   {"-gencode", "arch=compute_70,code=lto_70", "-gencode", "arch=compute_80,code=lto_80"},
		"mixed": {"-lineinfo", "-gencode", "arch=compute_70,code=lto_70", "-gencode", "arch=compute_80,code=[sm_80,lto_80]"},
		"older": {"-gencode", "arch=compute_70,code=lto_70", "-gencode", "arch=compute_80,code=sm_80"},
		"debug": {"-g", "-G", "-gencode", "arch=compute_70,code=compute_70"},
	}
	for mode, flags := range gencodes {
		a, b := mode+"_a.o", mode+"_the_second_object.o"
		l.nvcc(append(flags, "-dc", "a.cu", "-o", a)...)
		l.nvcc(append(flags, "-dc", "b.cu", "-o", b)...)
		lib := mode + ".a"
		l.run("ar", "cr", lib, b, "whole.cu")
		for _, arch := range []string{"sm_70", "sm_80"} {
			l.alike(mode, arch, nil, a, b)
			for _, how := range [][]string{nil, {"-dlto"}, {"-dlto", "-ignore-host-info"}} {
				l.alike(mode, arch, how, a, lib, "whole.o")
			}
		}
	}
	// What an earlier device link has taken in, nvlink leaves out.
	l.nvcc("-dlink", "-arch=sm_80", "sass_a.o", "sass_the_second_object.o", "-o", "linked.o")
	l.alike("linked before", "sm_80", nil, "sass_a.o", "sass_the_second_object.o", "linked.o")
	l.run("ld", "-r", "sass_the_second_object.o", "sass_a.o", "-o", "joined.o")
	l.alike("joined", "sm_80", nil, "joined.o")
}

func (l lab) alike(mode, arch string, flags []string, inputs ...string) {
	l.t.Helper()
	for _, name := range inputs {
		whole := l.read(name)
		thin, err := ForLink(whole, code(l.t, arch))
		if strings.HasSuffix(name, ".a") {
			thin, err = ArchiveForLink(whole, code(l.t, arch))
		}
		if err != nil {
			l.t.Fatalf("%s: %v", name, err)
		}
		l.write("whole/"+name, whole)
		l.write("thin/"+name, thin)
	}
	if l.link("whole", arch, flags, inputs) != l.link("thin", arch, flags, inputs) {
		l.t.Errorf("%s: nvlink %s for %s makes another thing of the thin objects of %s", mode, flags, arch, inputs)
	}
}

// TestHostRefsAlike adds what plain host code refers to: nvlink keeps that besides what nvcc's
// objects name, and nothing else.
func TestHostRefsAlike(t *testing.T) {
	l := newLab(t)
	l.write("k.cu", []byte(`__device__ int named, unnamed; namespace ns { template <class T> __global__ void inst(T *p) { *p = 4; } }
__global__ void used(int *p) { *p = 1; } __global__ void table(int *p) { *p = 2; } __global__ void nobody(int *p) { *p = 3; }
template __global__ void ns::inst(int *); template __global__ void ns::inst(float *);
extern "C" __global__ void plain(int *p) { *p = 5; } void run(int *p) { used<<<1, 1>>>(p); }
`))
	l.write("t.cc", []byte(`void table(int *); extern "C" void plain(int *); extern int named; namespace ns { template <class T> void inst(T *); }
void *all[] = {(void *)table, (void *)plain, &named, (void *)(void (*)(int *))ns::inst<int>};
`))
	l.run(l.gcc, "-c", "t.cc", "-o", "t.o")
	for mode, flags := range map[string][]string{"sass": {"-arch=sm_80"}, "lto": {"-gencode", "arch=compute_80,code=lto_80"}} {
		l.nvcc(append(flags, "-dc", "k.cu", "-o", "k.o")...)
		wants := map[string][]string{}
		for _, w := range ReadHostSymbols(l.read("t.o")).Wants {
			wants[w] = []string{"t.o"}
		}
		names, _, err := ReadHostSymbols(l.read("k.o")).CUDA[0].Names(wants)
		slices.Sort(names)
		if want := []string{"_Z5tablePi", "_ZN2ns4instIiEEvPT_", "named", "plain"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: names %q, %v, want %q", mode, names, err, want)
		}
		with, err := WithHostRefs(l.read("k.o"), names)
		if err != nil {
			t.Fatal(err)
		}
		l.write("as/k.o", l.read("k.o"))
		l.write("kept/k.o", with)
		for folder, want := range map[string]string{"as": "used", "kept": "used table inst plain"} {
			l.link(folder, "sm_80", map[string][]string{"sass": nil, "lto": {"-dlto"}}[mode], []string{"k.o"})
			out := l.read(folder + "/out.cubin")
			out[20] = 1 // e_version, which is the toolkit's
			cubin, err := elf.NewFile(bytes.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			for name, sign := range map[string]string{"used": "_Z4usedPi", "table": "_Z5tablePi", "nobody": "_Z6nobodyPi",
				"inst": "_ZN2ns4instIiEEvPT_", "other inst": "_ZN2ns4instIfEEvPT_", "plain": "plain"} {
				if has := cubin.Section(".text."+sign) != nil; has != slices.Contains(strings.Fields(want), name) {
					t.Errorf("%s, %s: kernel %s is there: %t", mode, folder, name, has)
				}
			}
		}
	}
}

// TestThinObjectsOfEdits compiles one source with other host code and for more architectures.
func TestThinObjectsOfEdits(t *testing.T) {
	l := newLab(t)
	compile := func(text string, flags ...string) []byte {
		l.write("a.cu", []byte(text))
		l.nvcc(append(flags, "-dc", "a.cu", "-o", "a.o")...)
		thin, err := ForLink(l.read("a.o"), gencode.Code{Num: 80})
		if err != nil {
			t.Fatal(err)
		}
		return thin
	}
	text, one := sources["a.cu"], []string{"-gencode", "arch=compute_80,code=[sm_80,lto_80]"}
	first := compile(text, one...)
	more := "#include <vector>\n#ifndef __CUDA_ARCH__\ninline int n() { static int i; return ++i; }\nint before() { std::vector<int> v(n()); return v.size(); }\n#endif\n"
	if !bytes.Equal(compile(text+more, one...), first) {
		t.Error("host code shows")
	}
	if !bytes.Equal(compile(text, append([]string{"-O2", "-Xcompiler", "-g,-fno-pie,-ffunction-sections"}, one...)...), first) {
		t.Error("the host compiler's options show")
	}
	if !bytes.Equal(compile(text, append([]string{"-gencode", "arch=compute_70,code=[sm_70,lto_70]"}, one...)...), first) {
		t.Error("another architecture shows")
	}
	if bytes.Equal(compile(strings.Replace(text, "77", "78", 1), one...), first) {
		t.Error("device code does not show")
	}
}

// assembler is the minor number of binutils 2.
func assembler() (minor int) {
	out, _ := exec.Command("as", "--version").Output()
	if m := regexp.MustCompile(`\b2\.(\d+)`).FindSubmatch(out); m != nil {
		minor, _ = strconv.Atoi(string(m[1]))
	}
	return minor
}

// sameObject compares two objects, but for where their sections are in the file: the assembler of
// binutils 2.40 rounds that up to the alignment of the section, the one of 2.44 does not, and from
// an object alone there is no telling.
func sameObject(t *testing.T, got, want []byte) bool {
	t.Helper()
	parse := func(object []byte) *elf.File {
		f, err := elf.NewFile(bytes.NewReader(object))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Sections {
			s.Offset = 0
		}
		return f
	}
	g, w := parse(got), parse(want)
	return g.FileHeader == w.FileHeader && slices.EqualFunc(g.Sections, w.Sections, func(a, b *elf.Section) bool {
		x, errX := a.Data()
		y, errY := b.Data()
		return a.SectionHeader == b.SectionHeader && (errX == nil) == (errY == nil) && bytes.Equal(x, y)
	})
}

// TestWithFatbinIsTheCompilers puts the fatbin where the compiler puts it: the objects are the
// same.
func TestWithFatbinIsTheCompilers(t *testing.T) {
	l := newLab(t)
	words := regexp.MustCompile(`(?m)^("\.quad .*\n)+`)
	for mode, flags := range map[string][]string{
		"whole": {"-c", "-arch=sm_80"}, "sass": {"-dc", "-arch=sm_80", "-O2"}, "lto": {"-dc", "-gencode", "arch=compute_80,code=lto_80"},
		"sections": {"-dc", "-arch=sm_80", "-Xcompiler", "-fPIC,-ffunction-sections"},
	} {
		l.write("b.cu", []byte(strings.Replace(sources["b.cu"], "child<<<1, 1>>>(p)", "*p = f(*p)", 1)))
		flags = append(flags, "b.cu", "-o", "b.o")
		l.nvcc(flags...)
		want := l.read("b.o")
		plan := l.nvcc(append([]string{"--dryrun"}, flags...)...)
		_, host, _ := strings.Cut(plan[strings.LastIndex(plan, "\n#$ "+l.gcc):], "#$ ")
		l.write("b.fatbin.c", words.ReplaceAll(l.read("b.fatbin.c"), []byte("\".quad 0\\n\"\n")))
		l.run("sh", "-c", host)
		placed := l.read("b.o")
		if bytes.Equal(placed, want) {
			t.Fatalf("%s: the object is not compiled with a placeholder", mode)
		}
		got, err := WithFatbin(placed, l.read("b.fatbin"))
		if err != nil || !bytes.Equal(got, want) && (assembler() < 41 || !sameObject(t, got, want)) {
			t.Errorf("%s: not the object that the compiler makes of the fatbin: %v", mode, err)
		}
	}
}

// TestWithFatbinIsAnObject has the tools of binutils read an object with another fatbin.
func TestWithFatbinIsAnObject(t *testing.T) {
	l := newLab(t)
	object, err := WithFatbin(testdata(t, "host2.o"), testdata(t, "bare.fatbin"))
	if err != nil {
		t.Fatal(err)
	}
	l.write("a.o", object)
	for _, tool := range []string{"readelf -aW a.o", "objdump -h a.o", "ld -r a.o -o r.o", "ar crD a.a a.o", "strip -g a.o -o s.o"} {
		if printed := l.run(strings.Fields(tool)...); strings.Contains(strings.ToLower(printed), "warning") {
			t.Errorf("%s: %s", tool, printed)
		}
	}
}

// TestNamesOfHostCode has kernels that others know by another name than the one that is registered.
func TestNamesOfHostCode(t *testing.T) {
	l := newLab(t)
	l.write("k.cu", []byte(`__device__ int v; __global__ void k(int *p) { *p = v; } __global__ void other(int *p) { *p = 2; } __global__ void launched() {}
asm(".globl al\n.set al, _Z5otherPi\n.symver _Z5otherPi, versioned@@V1"); void run() { launched<<<1, 1>>>(); } const char *text = "_Z4signal";
static __global__ void hidden(int *p) { *p = 3; } asm(".globl shown\n.set shown, _ZL6hiddenPi");
`))
	l.write("t.cc", []byte("void k(int *); void *all[] = {(void *)k};"))
	l.run(l.gcc, "-c", "t.cc", "-o", "t.o")
	for name, flags := range map[string][]string{"plain": nil, "optimised": {"-O2", "-Xcompiler=-fPIC"}, "functions": {"-Xcompiler=-ffunction-sections"}} {
		l.nvcc(append(flags, "-arch=sm_80", "-dc", "k.cu", "-o", "k.o")...)
		l.run("objcopy", "--redefine-sym", "_Z1kPi=renamed", "--redefine-sym", "v=renamed_v", "k.o", "r.o")
		for _, tt := range []struct{ object, wants, names, unknown string }{
			{"k.o", "_Z1kPi v _Z3runv puts text", "_Z1kPi v", ""},
			{"k.o", "al", "", "al"},
			{"k.o", "versioned", "", "versioned"},
			{"k.o", "shown", "", "shown"},
			{"r.o", "al _Z3runv", "", "al"},
			{"r.o", "renamed _Z3runv", "", "renamed"},
			{"r.o", "renamed_v", "", "renamed_v"},
		} {
			h := ReadHostSymbols(l.read(tt.object))
			if h.Unknown != "" {
				t.Fatalf("%s, %s: %s", name, tt.object, h.Unknown)
			}
			wants := map[string][]string{}
			for _, n := range strings.Fields(tt.wants) {
				wants[n] = []string{"t.o"}
			}
			got, unknown, err := h.CUDA[0].Names(wants)
			slices.Sort(got)
			if err != nil || strings.Join(got, " ") != tt.names || unknown != tt.unknown {
				t.Errorf("%s, %s wants %s: %q, %q, %v", name, tt.object, tt.wants, got, unknown, err)
			}
		}
	}
	l.run("ld", "-r", "-x", "k.o", "t.o", "-o", "joined.o")
	l.run("strip", "-g", "k.o", "-o", "stripped.o")
	for _, name := range []string{"joined.o", "stripped.o"} {
		if h := ReadHostSymbols(l.read(name)); !strings.Contains(h.Unknown, "stripped") {
			t.Errorf("%s: unknown %q", name, h.Unknown)
		}
	}
}
