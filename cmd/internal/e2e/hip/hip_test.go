package hip_test

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// hipProject unpacks testdata/hip.txtar, to be built by the real hipcc.
func hipProject(t *testing.T) *example {
	t.Helper()
	e := &example{e2e.Bare(t).Unpack("hip")}
	e.needHIP()
	return e
}

// withoutBlanks moves a project to a folder without blanks: hipcc 5.2 fails in others when it takes
// objects out of an archive.
func (e *example) withoutBlanks() {
	dir := filepath.Join(e.T.TempDir(), "p")
	if err := os.Rename(e.Dir, dir); err != nil {
		e.T.Fatal(err)
	}
	e.Dir = dir
}

func (e *example) needHIP() {
	e.T.Helper()
	e.Need("hipcc")
	e.Env = slices.DeleteFunc(e.Env, func(v string) bool { // all but what chooses the compiler
		name, _, _ := strings.Cut(v, "=")
		return (strings.HasPrefix(v, "HIP") || strings.HasPrefix(v, "ROCM")) && name != "HIP_CLANG_PATH" && name != "HIP_DEVICE_LIB_PATH"
	})
}

// amdCode is the AMD code of a program or a shared library: a bundle, or several one after another.
func (e *example) amdCode(file string) []byte {
	e.T.Helper()
	f, err := elf.Open(filepath.Join(e.Dir, file))
	if err != nil {
		e.T.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".hip_fatbin")
	if s == nil {
		e.T.Fatalf("%s holds no AMD code", file)
	}
	code, err := s.Data()
	if err != nil {
		e.T.Fatal(err)
	}
	return code
}

// hipcc runs hipcc as a user does.
func (e *example) hipcc(args ...string) {
	e.T.Helper()
	cmd := e.Command(append([]string{"hipcc"}, args...)...)
	cmd.Env = append(slices.Clone(e.Env), "HIP_PLATFORM=amd")
	if out, err := cmd.CombinedOutput(); err != nil {
		e.T.Fatalf("hipcc %q: %v\n%s", args, err, out)
	}
}

// compileSteps is what hipcc says that it would run for a compile of relocatable code, and the
// clang that it runs.
func (e *example) compileSteps() (printed, clang string) {
	e.T.Helper()
	cmd := e.Command("hipcc", "-###", "--offload-arch=gfx906", "-fgpu-rdc", "-c", "-x", "hip", "scale.hip")
	cmd.Env = append(slices.Clone(e.Env), "HIP_PLATFORM=amd", "HIPCC_VERBOSE=1")
	out, err := cmd.CombinedOutput()
	_, command, ok := strings.Cut(string(out), "hipcc-cmd: ")
	if err != nil || !ok {
		e.T.Fatalf("hipcc -###: %v\n%s", err, out)
	}
	return string(out), strings.Trim(strings.Fields(command)[0], `"`)
}

// otherDriver is the option for the offload driver that is not clang's default.
func (e *example) otherDriver() string {
	e.T.Helper()
	if printed, _ := e.compileSteps(); strings.Contains(printed, "-fembed-offload-object=") {
		return "--no-offload-new-driver"
	}
	return "--offload-new-driver"
}

var offload = []string{"--offload-arch=gfx906", "--offload-arch=gfx90a"}

// The device code is hipcc's, byte for byte, in a program of linked and of final code and in a
// shared library, whether kbuild takes hipcc apart or not.
func TestHIPEqualsHipcc(t *testing.T) {
	t.Parallel()
	e := hipProject(t)
	e.Share()
	e.withoutBlanks()
	compile := func(mode, target, source string) {
		e.hipcc(slices.Concat(offload, strings.Fields(mode), []string{"-cuid=" + e.cuid(target, source), "-c", "-x", "hip", source, "-o", source + ".o"})...)
	}
	compile("-fgpu-rdc", "executable.app", "a.hip")
	compile("-fgpu-rdc -foffload-lto", "library.scale", "scale.hip")
	e.Run("mkdir", "plain")
	e.hipcc(slices.Concat(offload, []string{"-fgpu-rdc", "-foffload-lto", "a.hip.o", "scale.hip.o", "-shared", "-fPIC", "-o", "plain/linked"})...)
	compile("-fgpu-rdc", "library.plugin", "scale.hip")
	compile("-fgpu-rdc -fPIC", "library.plugin", "plugin.hip")
	e.hipcc(slices.Concat(offload, []string{"-fgpu-rdc", "-shared", "plugin.hip.o", "scale.hip.o", "-o", "plain/plugin"})...)

	trees := map[string][]string{"build": nil, "one": {"--no-split", "--build-dir", "one", "executable.app"}}
	for _, tree := range tooltest.Sample(trees, "build") {
		args := trees[tree]
		e.Kbuild(args...)
		if !bytes.Equal(e.amdCode(tree+"/lib/libplugin.so"), e.amdCode("plain/plugin")) {
			t.Errorf("%q: the shared library's code is not hipcc's", args)
		}
		// The program holds the final code of whole.cu as well, at the start of a page of its own.
		if !bytes.Contains(e.amdCode(tree+"/bin/app"), bytes.TrimRight(e.amdCode("plain/linked"), "\x00")) {
			t.Errorf("%q: the program's linked code is not hipcc's", args)
		}
		e.Run(tree + "/bin/app")
	}
	compile("", "executable.app", "whole.cu")
	if !bytes.Equal(e.Read("whole.cu.o"), e.Read("build/obj/executable.app/whole.cu.o")) {
		t.Error("an object with final code is not hipcc's")
	}
	// The host's code names a static device variable as the device's code does, in all of an
	// object.
	names := regexp.MustCompile(`_ZL5calls\.static\.[0-9a-f]+`).FindAll(e.Read("build/obj/library.alone/static.hip.o"), -1)
	if len(names) < 2 || slices.ContainsFunc(names, func(n []byte) bool { return !bytes.Equal(n, names[0]) }) {
		t.Errorf("the static device variable is called %q", names)
	}
	e.Settled("build/bin/app", "build/lib/libplugin.so", "build/obj/executable.app/a.hip.o")
}

// cuid is what kbuild calls a source of a target in place of clang's name, which is made of its
// absolute path.
func (e *example) cuid(target, source string, args ...string) string {
	e.T.Helper()
	out, _ := e.Run(append([]string{"kbuild", "plan"}, args...)...)
	in := false
	for _, line := range strings.Split(out, "\n") {
		if !strings.HasPrefix(line, " ") {
			in = strings.HasPrefix(line, target+" ")
		}
		if _, rest, ok := strings.Cut(line, " -cuid="); ok && in && strings.HasSuffix(line, " "+source) {
			return strings.Fields(rest)[0]
		}
	}
	e.T.Fatalf("no compile of %s of %s in the plan", source, target)
	return ""
}

func TestHIPEdits(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := hipProject(t)
	e.Share()
	if other := e.otherDriver(); other == "--no-offload-new-driver" { // the steps that are counted are those of the old one
		e.Edit("kernels.hcl", "default = []", `default = ["`+other+`"]`)
	}
	e.Kbuild()
	program := e.Read("build/bin/app")

	e.Edit("a.hip", "__global__", "// a line\n__global__")
	e.Ran("a line", "device-code 2, host-part 1")
	e.Edit("scale.h", "#pragma once", "#pragma once /* more */\n")
	e.Ran("a comment in a header", "device-code 8, host-part 4")
	if !bytes.Equal(e.Read("build/bin/app"), program) {
		t.Error("comments change the program")
	}

	e.Edit("a.hip", "return host();", "return host() + 1;")
	e.Ran("host code", "bundle 1, device-code 2, host-part 1, link 1")
	e.Edit("whole.cu", "++counter", "--counter")
	e.Ran("device code", "bundle 1, device-code 2, host-part 1, join 1, link 1")
	e.Edit("scale.hip", "3.0f", "4.0f")
	e.Ran("linked device code of two", "archive 1, bundle 4, device-code 4, host-part 4, link 1, lld 4, shared-link 1")

	const more = `archs=["gfx906","gfx90a","gfx1030"]`
	e.Ran("an architecture more", "archive 1, bundle 8, device-code 6, host-part 2, join 2, link 1, lld 2, shared-link 1", "--var", more)
	e.Ran("back", "")
	e.Ran("and forth", "", "--var", more)
	if !bytes.Contains(e.amdCode("build/bin/app"), []byte("amdgcn-amd-amdhsa--gfx1030")) {
		t.Error("the program has no code for gfx1030")
	}
}

// A device library enters every compile, unasked and in no dependency file.
func TestHIPDeviceLibraries(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := hipProject(t)
	e.Write("kernels.hcl", `variable "flags" {
  type    = list(string)
  default = []
}
library "scale" {
  sources = ["scale.hip"]
  code    = ["gfx906"]
  mode    = "rdc"
  flags   = { hip = var.flags }
}
`)
	found := ""
	out, _ := e.Run("kbuild", "plan", "--json")
	for _, word := range strings.FieldsFunc(out, func(c rune) bool { return c == '"' }) {
		if filepath.Base(word) == "ockl.bc" {
			found = filepath.Dir(word)
		}
	}
	e.withoutBlanks()
	beside := strings.Contains(found, "/lib/clang/") // clang 17 and newer take those first
	rocm := filepath.Join(e.Dir, "rocm")
	e.Run("mkdir", "-p", "rocm/amdgcn")
	e.Run("ln", "-s", "/usr/include", "/usr/bin", "/usr/share", "rocm")
	for _, dir := range []string{"flag", "variable", "rocm/amdgcn/bitcode"} {
		e.Run("cp", "-r", found, dir)
	}
	for name, c := range map[string]struct {
		dir  string
		env  []string
		args []string
	}{
		"flag":     {"flag", nil, []string{"--var", `flags=["--hip-device-lib-path=` + filepath.Join(e.Dir, "flag") + `"]`}},
		"variable": {"variable", []string{"HIP_DEVICE_LIB_PATH=" + filepath.Join(e.Dir, "variable"), "DEVICE_LIB_PATH=" + filepath.Join(e.Dir, "variable")}, nil},
		"default":  {"rocm/amdgcn/bitcode", []string{"ROCM_PATH=" + rocm}, nil},
	} {
		if name == "default" && beside {
			continue
		}
		x := *e
		x.Env = slices.Concat(e.Env, c.env)
		args := append(c.args, "--build-dir", "build-"+name)
		x.Kbuild(args...)
		if n := x.Kbuild(args...); n.Ran != 0 {
			t.Errorf("%s: %d actions run again", name, n.Ran)
		}
		lib := filepath.Join(c.dir, "ockl.bc")
		text := e.Read(lib)
		other := slices.Clone(text)
		other[len(other)-1] ^= 1 // the padding of its string table
		e.Write(lib, string(other))
		if n := x.Kbuild(slices.Concat(args, []string{"-n"})...); !strings.Contains(n.Kinds, "device-code") && n.Ran == 0 {
			t.Errorf("%s: another ockl.bc is not noticed", name)
		}
		e.Write(lib, string(text))
		if n := x.Kbuild(args...); n.Ran != 0 {
			t.Errorf("%s: with the old ockl.bc %d actions run", name, n.Ran)
		}
		os.RemoveAll(filepath.Join(e.Dir, c.dir))
		_, printed, status := x.Fails(slices.Concat(args, []string{"--no-cache"})...)
		found := status == e2e.ExitUsage && strings.Contains(printed, "device libraries were not found") && strings.Contains(printed, filepath.Base(c.dir))
		if !found {
			t.Errorf("%s: without the libraries: status %d\n%s", name, status, printed)
		}
	}
}

// The example of two vendors: one manifest, one run, two programs.
func TestExampleTwoVendors(t *testing.T) {
	t.Parallel()
	e := realExample(t, "two-vendors")
	e.needHIP()
	e.Kbuild()
	if got := e.ELFs("build/bin/reduce_cuda"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	if got := e.Calls("build/bin/reduce_cuda", "reduce_block"); got != "" {
		t.Errorf("reduce_block calls %s: not inlined", got)
	}
	code := e.amdCode("build/bin/reduce_hip")
	for _, arch := range []string{"gfx906", "gfx90a"} {
		if !bytes.Contains(code, []byte("hipv4-amdgcn-amd-amdhsa--"+arch)) {
			t.Errorf("no code for %s", arch)
		}
	}
	e.Run("build/bin/reduce_cuda")
	e.Run("build/bin/reduce_hip")
	e.Settled("build/bin/reduce_cuda", "build/bin/reduce_hip")
	e.Ran("AMD code more", "bundle 4, device-code 3, host-part 1, link 1, lld 1", "-n", "--arch", "gfx906,gfx90a,gfx1030")
}

// Modules of AMD code: each kind of file, its manifest, and hipcc's own bundle.
func TestHIPModules(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := hipProject(t)
	e.Write("kernels.hcl", `module "whole" {
  sources = ["whole.cu"]
  code    = ["gfx906", "gfx90a:xnack-"]
  emit    = ["hsaco", "fatbin", "bitcode"]
  embed {
    symbol = "whole"
  }
}
module "linked" {
  sources = ["plugin.hip", "scale.hip"]
  code    = ["gfx906"]
  mode    = "lto"
  emit    = ["hsaco"]
}
module "cuda" {
  sources = ["whole.cu"]
  code    = ["gfx906"]
  emit    = ["cubin"]
}
`)
	_, printed, status := e.Fails()
	if status != e2e.ExitUsage || !strings.Contains(printed, "module.cuda ships AMD code, of which there is no cubin") {
		t.Errorf("status %d\n%s", status, printed)
	}
	e.Edit("kernels.hcl", `["cubin"]`, `["fatbin"]`)
	out, _ := e.Run("kbuild", "precompile")
	if n := strings.Count(out, "\n"); n != 10 {
		t.Errorf("%d files:\n%s", n, out)
	}
	e.Run("kbuild", "precompile", "--verify", "build/modules/whole.json", "build/modules/linked.json")
	for file, want := range map[string]string{
		"whole.json":  `"name": "_Z5finalPf",`,
		"linked.json": `"demangled": "plugged(float*)",`,
	} {
		if !strings.Contains(string(e.Read("build/modules/"+file)), want) {
			t.Errorf("%s does not say %s", file, want)
		}
	}
	e.hipcc("--genco", "--offload-arch=gfx906", "--offload-arch=gfx90a:xnack-", "-cuid="+e.cuid("module.whole", "whole.cu"), "-x", "hip", "whole.cu", "-o", "plain.co")
	if !bytes.Equal(e.Read("plain.co"), e.Read("build/modules/whole.fatbin")) {
		t.Error("the bundle is not hipcc's")
	}
	e.Kbuild()
	e.Settled("build/modules/whole.gfx90a_xnack-.hsaco", "build/modules/linked.json")
}

// A prebuilt archive of hipcc's objects, among them one of C.
func TestHIPPrebuilt(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := hipProject(t)
	e.hipcc(slices.Concat(offload, []string{"-fgpu-rdc", "-c", "scale.hip", "-o", "scale.o"})...)
	e.Write("c.c", "int c;\n")
	e.Run("gcc", "-c", "c.c")
	e.Run("ar", "rcs", "libscale.a", "c.o", "scale.o")
	e.Write("kernels.hcl", `prebuilt "scale" {
  archive = "libscale.a"
}
library "plugin" {
  type    = "shared"
  sources = ["plugin.hip"]
  deps    = [prebuilt.scale]
  code    = ["gfx906", "gfx90a"]
  mode    = "rdc"
}
`)
	e.Kbuild()
	if code := e.amdCode("build/lib/libplugin.so"); !bytes.Contains(code, []byte("plugged")) {
		t.Error("the kernel is not in the library")
	}
	e.hipcc(slices.Concat(offload, []string{"-fgpu-rdc", e.otherDriver(), "-c", "scale.hip", "-o", "scale.o"})...)
	e.Run("ar", "rcs", "libnew.a", "c.o", "scale.o")
	e.Write("new.hcl", strings.Replace(string(e.Read("kernels.hcl")), "libscale.a", "libnew.a", 1))
	if _, printed, status := e.Fails("-f", "new.hcl"); status != e2e.ExitUsage || !strings.Contains(printed, "libnew.a:scale.o was compiled with "+e.otherDriver()) {
		t.Errorf("status %d\n%s", status, printed)
	}
	for arch, want := range map[string]string{
		"gfx1030":       "needs gfx1030, but libscale.a:scale.o has gfx906 bitcode, gfx90a bitcode only",
		"gfx90a:xnack-": "needs gfx90a:xnack-, but",
	} {
		if _, printed, status := e.Fails("--arch", arch); status != e2e.ExitUsage || !strings.Contains(printed, want) {
			t.Errorf("%s: status %d\n%s", arch, status, printed)
		}
	}
}

// An architecture that this clang does not know, and messages of the compiler.
func TestHIPMessages(t *testing.T) {
	t.Parallel()
	e := hipProject(t)
	if _, printed, status := e.Fails("--arch", "gfx9999"); status != e2e.ExitUsage || !strings.Contains(printed, "does not know gfx9999. It knows") {
		t.Errorf("status %d\n%s", status, printed)
	}
	e.Edit("kernels.hcl", `library "scale" {`, "library \"scale\" {\n  flags = { hip = [\""+e.otherDriver()+"\"] }")
	if _, printed, status := e.Fails(); status != e2e.ExitUsage || !strings.Contains(printed, "scale.hip of library.scale") || !strings.Contains(printed, "which clang's new offload driver compiles") {
		t.Errorf("objects of both offload drivers in one link: status %d\n%s", status, printed)
	}
	e.Write("kernels.hcl", `variable "flags" {
  type    = list(string)
  default = []
}
library "messages" {
  sources = ["scale.hip", "a.hip"]
  code    = ["gfx906"]
  mode    = "rdc"
  flags   = { hip = var.flags }
}
`)
	e.Edit("scale.hip", "return", "int unused; return")
	e.Edit("a.hip", "int main() {", "#warning here\nint main() {")
	_, printed, _ := e.Fails("--var", `flags=["-Wall"]`)
	for _, want := range []string{"scale.hip:2:39: warning: unused variable", "a.hip:13:2: warning: here"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not said:\n%s", want, printed)
		}
	}
	e.Edit("scale.hip", "x * 3.0f", "x * y")
	if _, printed, status := e.Fails(); status != e2e.ExitFailed || !strings.Contains(printed, "use of undeclared identifier 'y'") {
		t.Errorf("status %d\n%s", status, printed)
	}
}

// What comes of a source that changes while a pass runs is not kept under what the source was.
func TestHIPEditWhileBuilding(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := hipProject(t)
	e.withoutBlanks()
	_, clang := e.compileSteps()
	e.Run("mkdir", "wrap")
	e.Run("sh", "-c", `ln -s "$(dirname "$0")"/clang* wrap`, clang) // hipcc 5.7 asks another one for its version
	e.Run("rm", "wrap/"+filepath.Base(clang))
	script := `#!/bin/sh
case " $* " in
*" --cuda-device-only "*" -c "*" scale.hip ")
	if [ -e edit ]; then rm edit; sed -i 's/3.0f/4.0f/' scale.hip; fi ;;
esac
exec ` + clang + ` "$@"
`
	e.Write("wrap/"+filepath.Base(clang), script)
	e.Run("chmod", "+x", "wrap/"+filepath.Base(clang))
	e.Write("kernels.hcl", `library "scale" {
  sources = ["scale.hip"]
  code    = ["gfx906"]
  mode    = "rdc"
}
`)
	e.Env = append(e.Env, "HIP_CLANG_PATH="+filepath.Join(e.Dir, "wrap"))
	e.Kbuild("--no-cache", "--build-dir", "clean")
	want := e.Read("clean/obj/library.scale/scale.hip.o")
	e.Write("edit", "")
	e.Kbuild()
	if _, err := os.Stat(filepath.Join(e.Dir, "edit")); err == nil {
		t.Fatal("the source was not edited")
	}
	e.Edit("scale.hip", "4.0f", "3.0f")
	e.Kbuild()
	if !bytes.Equal(e.Read("build/obj/library.scale/scale.hip.o"), want) {
		t.Error("code of the edited source was kept under the text of the old one")
	}
	if c := e.Kbuild(); c.Ran != 0 {
		t.Errorf("%d actions run again", c.Ran)
	}
}

// What the assembler takes in is in no dependency file: such a compile runs each time.
func TestRealIncbin(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := hipProject(t)
	e.Need("nvcc")
	e.Write("kernels.hcl", `defaults {
  mode = "rdc"
}
library "amd" {
  sources = ["taken.cu"]
  code    = ["gfx906"]
  flags   = { hip = ["-nogpuinc"] }
}
library "nvidia" {
  sources = ["taken.cu", "plain.cpp"]
  code    = ["sm_80"]
}
`)
	const text = `__asm__(".globl NAME\n.section .rodata\nNAME:\n.incbin \"blob.bin\"\n.text\n");
int x;
`
	e.Write("taken.cu", strings.ReplaceAll(text, "NAME", "a"))
	e.Write("plain.cpp", strings.ReplaceAll(text, "NAME", "b"))
	objects := []string{"library.amd/taken.cu.o", "library.nvidia/taken.cu.o", "library.nvidia/plain.cpp.o"}
	for _, blob := range []string{"one", "two"} {
		e.Write("blob.bin", blob)
		e.Kbuild()
		for _, o := range objects {
			if !bytes.Contains(e.Read("build/obj/"+o), []byte(blob)) {
				t.Errorf("%s does not hold %q", o, blob)
			}
		}
		if c := e.Kbuild(); c.Ran < len(objects) {
			t.Errorf("only %d actions run again", c.Ran)
		}
	}
}

// Names with '+' and '%', for which LLVM's tools must not meet a '%', as long as hipcc takes them
// (236 bytes); and folders in flags.hip that are named from the project's root.
func TestHIPNames(t *testing.T) {
	t.Parallel()
	e := hipProject(t)
	source := "100%s/x+y%b" + strings.Repeat("n", 227) + ".hip"
	e.Write("kernels.hcl", `executable "c++app" {
  sources = ["`+source+`"]
  code    = ["gfx906:xnack+"]
  mode    = "rdc"
  flags   = { hip = ["--hip-device-lib-path=third/bitcode"] }
}
`)
	e.Run("mkdir", "100%s")
	e.Write(source, "#include <hip/hip_runtime.h>\n__global__ void k(float *p) { *p = sinf(*p); }\nint main() {}\n")
	_, printed, status := e.Fails()
	if status != e2e.ExitUsage || !strings.Contains(printed, "third/bitcode (--hip-device-lib-path of flags.hip)") {
		t.Errorf("status %d\n%s", status, printed)
	}
	cmd := e.Command("sh", "-c", `hipcc -### --offload-arch=gfx906 -c -x hip `+source+` -o x.o 2>&1 | sed -n 's/.*"\([^"]*\)\/ockl.bc".*/\1/p' | head -n 1`)
	cmd.Env = append(slices.Clone(e.Env), "HIP_PLATFORM=amd")
	libs, err := cmd.Output()
	if err != nil || len(libs) == 0 {
		t.Fatalf("no device libraries: %v", err)
	}
	e.Run("mkdir", "third")
	e.Run("cp", "-r", strings.TrimSpace(string(libs)), "third/bitcode")
	e.Kbuild()
	if !bytes.Contains(e.amdCode("build/bin/c++app"), []byte("gfx906:xnack+")) {
		t.Error("the program has no code for gfx906:xnack+")
	}
	plan, _ := e.Run("kbuild", "plan")
	if strings.Contains(plan, e.Dir) {
		t.Error("the project's own folder is in a command")
	}
	e.Settled("build/bin/c++app")
}

// A device variable or function of another file is undefined in mode whole, and kbuild names the
// mode.
func TestHIPOtherFile(t *testing.T) {
	t.Parallel()
	e := &example{e2e.Bare(t)}
	e.needHIP()
	e.Write("kernels.hcl", "executable \"p\" {\n  sources = [\"a.hip\"]\n  code    = [\"gfx906\"]\n}\n")
	e.Write("a.hip", "#include <hip/hip_runtime.h>\nextern __constant__ int c[4];\n__global__ void k(int *p) { *p = c[0]; }\nint main() {}\n")
	_, printed, _ := e.Fails()
	if want := `= help: c is of another file, and mode = "whole" compiles each source by itself: set mode = "rdc" or "lto" on executable.p (kernels.hcl:1)`; !strings.Contains(printed, want) {
		t.Errorf("it does not say %q:\n%s", want, printed)
	}
}
