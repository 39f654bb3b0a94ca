package object

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// lab is a folder in which the real tools run.
type lab struct {
	t   *testing.T
	dir string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	for _, tool := range []string{"nvcc", "nvlink", "g++-11"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("KBUILD_REQUIRE_TOOLS") != "" && tool != "g++-11" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	return &lab{t, t.TempDir()}
}

func (l *lab) run(argv ...string) string {
	l.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = l.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

func (l *lab) read(name string) []byte {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

func (l *lab) write(name string, b []byte) {
	l.t.Helper()
	os.MkdirAll(filepath.Dir(filepath.Join(l.dir, name)), 0o777)
	if err := os.WriteFile(filepath.Join(l.dir, name), b, 0o666); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) compile(name, text string, options ...string) {
	l.t.Helper()
	l.write(name+".cu", []byte(text))
	// Always the same names: the module id is made of them.
	l.run(append(append([]string{"nvcc", "-ccbin", "g++-11", "-dc", "--keep", "--keep-dir", "."}, options...), "-o", name+".o", name+".cu")...)
}

func code(t *testing.T, name string) gencode.Code {
	t.Helper()
	c, err := gencode.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const caller = `#include <cstdio>
__device__ float lib(float x);
extern __constant__ float c[4];
static __device__ int counter;
template <class T> __global__ void k(T *p) { p[0] = lib(p[1]) * c[1]; counter++; }
__global__ void unused(float *p) { *p = lib(*p); }
int main() { k<<<1, 1>>>((float *)nullptr); HOST }
`

const callee = `__constant__ float c[4] = {1, 2, 3, 4};
__device__ float lib(float x) { return x * 3; }
__global__ void other(int *p) { *p = 1; }
`

// forms are ways to compile; the first list is for an architecture more than the second.
var forms = map[string][2][]string{
	"rdc":   {{"-gencode", "arch=compute_70,code=sm_70", "-gencode", "arch=compute_80,code=sm_80"}, {"-gencode", "arch=compute_80,code=sm_80"}},
	"lto":   {{"-gencode", "arch=compute_70,code=lto_70", "-gencode", "arch=compute_80,code=lto_80"}, {"-gencode", "arch=compute_80,code=lto_80"}},
	"mixed": {{"-gencode", "arch=compute_70,code=sm_70", "-gencode", "arch=compute_80,code=[lto_80,sm_80]"}, {"-gencode", "arch=compute_80,code=[lto_80,sm_80]"}},
	"ptx":   {{"-gencode", "arch=compute_70,code=compute_70"}, {"-gencode", "arch=compute_70,code=compute_70"}},
}

// TestSliceLinksAlike links slices and whole objects with nvlink, in objects and in archives.
func TestSliceLinksAlike(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.compile("a", strings.Replace(caller, "HOST", "", 1), form[0]...)
			l.compile("b", callee, form[0]...)
			l.write("plain.cpp", []byte("int plain() { return 1; }\n"))
			l.run("g++-11", "-c", "plain.cpp")
			l.run("ar", "qcsD", "w.a", "a.o", "b.o", "plain.o")
			c := code(t, "sm_80")
			for _, f := range []string{"a.o", "b.o", "plain.o"} {
				s, err := ForLink(l.read(f), c)
				if err != nil {
					t.Fatal(err)
				}
				l.write("s/"+f, s)
				l.run("readelf", "-aW", "s/"+f)
			}
			s, err := ArchiveForLink(l.read("w.a"), c)
			if err != nil {
				t.Fatal(err)
			}
			l.write("s/w.a", s)
			for _, inputs := range [][]string{{"a.o", "b.o"}, {"a.o", "b.o", "plain.o"}, {"w.a"}} {
				for _, more := range [][]string{nil, {"-ignore-host-info"}} {
					said := l.link(name, "whole", "", inputs, more)
					if sliced := l.link(name, "slice", "s/", inputs, more); sliced != said {
						t.Errorf("nvlink %q %q says %q of slices, %q of objects", inputs, more, sliced, said)
					}
					for _, f := range []string{"cubin", "reg.c"} {
						if !bytes.Equal(l.read("slice."+f), l.read("whole."+f)) {
							t.Errorf("nvlink %q %q makes another %s of slices", inputs, more, f)
						}
					}
				}
			}
		})
	}
}

func (l *lab) link(form, out, folder string, inputs, more []string) string {
	argv := []string{"nvlink", "-m64", "--arch=sm_80", "--register-link-binaries=" + out + ".reg.c", "-cpu-arch=X86_64", "-report-arch"}
	if form == "lto" || form == "mixed" {
		argv = append(argv, "-dlto", "-nvvmpath="+nvvm())
	}
	argv = append(argv, more...)
	for _, in := range inputs {
		argv = append(argv, folder+in)
	}
	return strings.ReplaceAll(l.run(append(argv, "-o", out+".cubin")...), folder, "")
}

// nvvm is the folder of libnvvm of the nvcc in PATH.
func nvvm() string {
	out, _ := exec.Command("nvcc", "--dryrun", "-dlink", "-dlto", "-arch=sm_80", "x.o").CombinedOutput()
	_, rest, _ := strings.Cut(string(out), `-nvvmpath="`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}

// TestSliceDependsOnItsOwn compares slices of objects that differ in what a link does not read.
func TestSliceDependsOnItsOwn(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c := code(t, "sm_80")
			cut := func(host, callee string, options []string) []byte {
				l.compile("a", strings.Replace(strings.Replace(caller, "HOST", host, 1), "* c[1]", callee, 1), options...)
				s, err := ForLink(l.read("a.o"), c)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			first := cut("", "* c[1]", form[0])
			if !bytes.Equal(first, cut(`std::puts("more"); static int x = 1; if (x) return 3;`, "* c[1]", form[0])) {
				t.Error("host code changes the slice")
			}
			if !bytes.Equal(first, cut("", "* c[1]", form[1])) {
				t.Error("another architecture changes the slice")
			}
			if bytes.Equal(first, cut("", "+ c[2]", form[0])) {
				t.Error("device code does not change the slice")
			}
		})
	}
}

// TestWithFatbin moves the device code of one object into another.
func TestWithFatbin(t *testing.T) {
	for _, mode := range []string{"-dc", "-c"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			build := func(out, options string) {
				l.write("a.cu", []byte("#include <cstdio>\n__global__ void k(int *p) { *p = 1; }\nint main() { k<<<1, 1>>>(nullptr); return 0; }\n"))
				l.run("nvcc", "-ccbin", "g++-11", "--keep", "--keep-dir", ".", mode, "-g", "-gencode", options, "-o", out, "a.cu")
			}
			build("small.o", "arch=compute_70,code=sm_70")
			build("big.o", "arch=compute_80,code=[sm_80,compute_80]")
			joined, err := WithFatbin(l.read("small.o"), l.read("a.fatbin"))
			if err != nil {
				t.Fatal(err)
			}
			l.write("joined.o", joined)
			l.run("readelf", "-aW", "joined.o")
			l.run("ld", "-r", "joined.o", "-o", "relinked.o")
			var programs [2][]byte
			for i, in := range []string{"big", "joined"} {
				link := []string{"g++-11", "-Wl,--build-id=none", "-o", in, in + ".o"}
				if mode == "-dc" {
					l.run("nvcc", "-ccbin", "g++-11", "-dlink", "-gencode", "arch=compute_80,code=sm_80", "-o", "d.o", in+".o")
					link = append(link, "d.o", "-lcudadevrt")
				}
				l.run(append(link, "-lcudart_static", "-lrt", "-lpthread", "-ldl")...)
				l.run("strip", "-s", in)
				programs[i] = l.read(in)
			}
			if !bytes.Equal(programs[0], programs[1]) {
				t.Error("the program differs from one of nvcc's own object")
			}
			if _, err := WithFatbin(l.read("big"), nil); err == nil {
				t.Error("a program is taken for an object")
			}
		})
	}
}
