// Package importer_test compares what kbuild builds from an imported manifest with what the other
// build tool builds, and builds folders of sources without an edit.
package importer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// TestCMake builds a project by CMake and, by the manifest that is made of its build tree, by
// kbuild: the device code of programs and libraries is equal. The trees of Ninja and of make give
// the same manifest, and that says what is not in it.
func TestCMake(t *testing.T) {
	t.Parallel()
	p := e2e.Unpack(t, "cmake")
	p.Use(tooltest.Toolkit{})
	p.Need("cmake", "make", "ninja")
	p.Run("sh", "-c", "cd third && g++ -c pre.cpp && ar qcsD libpre.a pre.o")
	manifests := map[string]string{}
	for _, mode := range tooltest.Sample(map[string]bool{"OFF": true, "ON": true}, "ON") {
		for _, generator := range []string{"Ninja", "Unix Makefiles"} {
			tree := "tree of " + generator + mode
			p.Run("cmake", "-S", ".", "-B", tree, "-G", generator, "-DLTO="+mode, "-DCMAKE_CUDA_ARCHITECTURES=80-real;90", "-DCMAKE_BUILD_TYPE=Release")
			_, printed := p.Run("kbuild", "init", "--from", tree)
			if !strings.Contains(printed, "made.cpp, which CMake makes in its build tree") || !strings.Contains(printed, "kbuild: running ") {
				t.Errorf("kbuild says %s", printed)
			}
			text := strings.NewReplacer(generator, "G", tree, "TREE").Replace(string(p.Read("kernels.hcl")))
			if before := manifests[mode]; before != "" && before != text {
				t.Errorf("of a tree of make kernels.hcl is\n%s\nand of one of Ninja\n%s", text, before)
			}
			manifests[mode] = text
			if generator == "Ninja" {
				p.Run("cmake", "--build", tree, "-j2", "--target", "app", "tool", "pure", "loaded")
				p.Run("kbuild", "executable.app", "executable.tool", "executable.pure", "module.loaded")
				files := map[string]string{"app": "bin/app", "pure": "bin/pure", "libs.so": "lib/libs.so", "libw.a": "lib/libw.a", "libclosed.a": "lib/libclosed.a"}
				if mode == "OFF" {
					files["libr.a"] = "lib/libr.a"
				}
				for theirs, ours := range files {
					compare(t, p, tree, theirs, filepath.Join("build", ours))
				}
			}
			if err := os.Remove(filepath.Join(p.Dir, "kernels.hcl")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// imageName stands before the code of an image, with its number in the file.
var imageName = regexp.MustCompile(`(?m)^\S*?(sm_\d+[a-z]?)\.cubin$`)

// sorted is device code without the order of images, which is that of links.
func sorted(code string) string {
	var images []string
	at := imageName.FindAllStringSubmatchIndex(code, -1)
	for i, m := range at {
		end := len(code)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		images = append(images, code[m[2]:m[3]]+code[m[1]:end])
	}
	slices.Sort(images)
	return strings.Join(images, "")
}

// compare holds the device code of one file against another's.
func compare(t *testing.T, p e2e.Project, tree, theirs, ours string) {
	t.Helper()
	// The code is told by the names of files, so they are made equal.
	beside := filepath.Join(tree, "ours")
	if err := os.MkdirAll(filepath.Join(p.Dir, beside), 0o777); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(beside, filepath.Base(theirs))
	p.Write(name, string(p.Read(ours)))
	if got, want := sorted(p.DeviceCode(name)), sorted(p.DeviceCode(filepath.Join(tree, theirs))); got != want || got == "" {
		t.Errorf("%s has other device code by kbuild than by CMake:\n%s\n%s", theirs, got, want)
	}
}

const assembler = `cmake_minimum_required(VERSION 3.18)
project(x C CXX ASM)
add_library(l SHARED one.S two.s)
set_source_files_properties(one.S PROPERTIES COMPILE_DEFINITIONS VALUE=40)
set_target_properties(l PROPERTIES LINKER_LANGUAGE C)
add_executable(app three.S app.c wrong.s)
set_source_files_properties(wrong.s PROPERTIES COMPILE_OPTIONS "-x;assembler-with-cpp")
set_target_properties(app PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
target_link_libraries(app l)
`

// Assembler of a CMake project is what CMake makes of it. A file whose name does not say that it is
// preprocessed is told of.
func TestCMakeAssembler(t *testing.T) {
	t.Parallel()
	p := e2e.Bare(t)
	p.Need("cmake", "make")
	p.Write("CMakeLists.txt", assembler)
	function := func(name, value string) string {
		return "\t.globl " + name + "\n" + name + ":\n\tmov $" + value + ", %eax\n\tret\n\t.section .note.GNU-stack,\"\",@progbits\n"
	}
	p.Write("one.S", function("one", "VALUE"))
	p.Write("two.s", function("two", "2"))
	p.Write("three.S", "#ifdef NDEBUG\n"+function("three", "3")+"#endif\n")
	p.Write("wrong.s", "\t.section .note.GNU-stack,\"\",@progbits\n")
	p.Write("app.c", "int one(void);\nint two(void);\nint three(void);\nint main(void) { return one() + two() + three(); }\n")
	p.Run("cmake", "-S", ".", "-B", "tree", "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release")
	_, printed := p.Run("kbuild", "init", "--from", "tree")
	if !strings.Contains(printed, "not carried over: app: wrong.s: it is preprocessed: let its name end in .S") {
		t.Errorf("kbuild says %s", printed)
	}
	p.Run("kbuild")
	p.Run("sh", "-c", "build/bin/app; [ $? = 45 ]")
	p.Run("cmake", "--build", "tree")
	for theirs, ours := range map[string]string{"l.dir/one.S.o": "library.l/one.S.o", "l.dir/two.s.o": "library.l/two.s.o", "app.dir/three.S.o": "executable.app/three.S.o"} {
		if !bytes.Equal(p.Read("tree/CMakeFiles/"+theirs), p.Read("build/obj/"+ours)) {
			t.Errorf("%s is not what CMake makes", ours)
		}
	}
	if strings.Contains(string(p.Read("kernels.hcl")), "-fno-lto") {
		t.Errorf("assembler is told of LTO:\n%s", p.Read("kernels.hcl"))
	}
}
