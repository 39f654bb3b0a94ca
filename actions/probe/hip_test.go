package probe

import (
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// rocmDir is a ROCm whose programs are scripts. hipcc prints the clang command that it makes and
// then the steps.
func rocmDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"lld", "clang-offload-bundler", "ld", "clang"} {
		write(t, filepath.Join(dir, "llvm", name), "#!/bin/sh\n", 0o755)
	}
	for _, name := range []string{"ockl.bc", "ocml.bc"} {
		write(t, filepath.Join(dir, "bitcode", name), name, 0o644)
	}
	write(t, filepath.Join(dir, "include/hip/hip_runtime.h"), "", 0o644)
	write(t, filepath.Join(dir, "bin/hipcc.pl"), "", 0o755)
	write(t, filepath.Join(dir, "bin/inner"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(dir, "bin/clang++"), strings.ReplaceAll(`#!/bin/sh
case "$*" in
-dumpversion) echo 15.0.6 ;;
--version) echo clang 15 ;;
*-print-supported-cpus) printf '\tgfx906\n\tgeneric\n\tgfx90a\n' ;;
esac
DIR/bin/inner
`, "DIR", dir), 0o755)
	write(t, filepath.Join(dir, "bin/hipcc"), strings.ReplaceAll(`#!/bin/sh
[ "$HIP_PLATFORM" = amd ] && [ "$HIPCC_VERBOSE" = 1 ] || { echo "clang: error: which platform"; exit 1; }
mktemp -d -t kbuild_source-XXXXXX >/dev/null # clang 15 leaves such a folder
libs=${HIP_DEVICE_LIB_PATH:-DIR/bitcode}
echo "hipcc-cmd: DIR/bin/clang++ --hip-device-lib-path=\"$libs\" --rocm-path=DIR"
[ -e "$libs/ockl.bc" ] || echo "$(cat DIR/called 2>/dev/null || echo clang): error: cannot find ROCm device library"
case "$*" in
*--hip-link*) echo ' "DIR/llvm/lld" "-plugin-opt=mcpu=gfx906" "-o" "x"' ; echo ' "DIR/llvm/ld" "-o" "kbuild_output"' ;;
*) echo ' "DIR/llvm/clang" "-cc1" "-isystem" "DIR/include" "-mlink-builtin-bitcode" "'$libs'/ockl.bc" "-o" "x"' ;;
esac
echo ' "DIR/llvm/clang-offload-bundler" "-output=x"'
`, "DIR", dir), 0o755)
	return dir
}

func collectHIP(t *testing.T, vars map[string]string) (*hip.Compiler, string) {
	t.Helper()
	f, _, err := Collect(t.Context(), Request{Needs: needs("hip"), Env: env(vars)})
	if err != nil {
		t.Fatal(err)
	}
	return f.HIP.Compiler, f.HIP.Missing
}

// The identity of the HIP compiler is the content of all that it runs.
func TestHIPIdentity(t *testing.T) {
	dir, tmp := rocmDir(t), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	vars := map[string]string{"PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
	k, fault := collectHIP(t, vars)
	if k == nil {
		t.Fatal(fault)
	}
	if k.Major != 15 || len(k.Archs) != 2 || len(k.DeviceLibs) != 2 || len(k.Includes) != 1 || k.Clang.Path != filepath.Join(dir, "bin/clang++") {
		t.Errorf("%+v", k)
	}
	last := k.Driver.ID
	for _, name := range []string{"bin/hipcc.pl", "bin/hipcc", "bin/clang++", "bin/inner", "llvm/clang", "llvm/lld", "llvm/clang-offload-bundler", "llvm/ld"} {
		file := filepath.Join(dir, name)
		text, _ := os.ReadFile(file)
		write(t, file, string(text)+"# another\n", 0o755)
		k, fault := collectHIP(t, vars)
		if k == nil {
			t.Fatal(fault)
		}
		if k.Driver.ID == last {
			t.Errorf("another %s is the same compiler", name)
		}
		last = k.Driver.ID
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v stays in the folder for temporary files (%v)", left, err)
	}
}

// The steps are asked for with the variables that hipcc reads; a refusal, and an answer whose
// libraries have gone, are not believed later.
func TestHIPSteps(t *testing.T) {
	for i, called := range []string{"clang", "clang++-17", "/usr/lib/llvm-21/bin/clang-21"} { // how clang calls itself
		if testing.Short() && i > 0 {
			break
		}
		t.Run(called, func(t *testing.T) { hipSteps(t, called) })
	}
}

func hipSteps(t *testing.T, called string) {
	dir := rocmDir(t)
	write(t, filepath.Join(dir, "called"), called, 0o644)
	memo, other := t.TempDir(), t.TempDir()
	question := toolchain.Question{Tool: "hip", Args: []string{"-###", "-c"}}
	ask := func(libs string) toolchain.DryRun {
		vars := map[string]string{"PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
		if libs != "" {
			vars["HIP_DEVICE_LIB_PATH"] = libs
		}
		k, fault := collectHIP(t, vars)
		if k == nil {
			t.Fatal(fault)
		}
		s := OpenSteps(memo, plan.Facts{Installed: vendors.Installed{HIP: hip.Toolchain{Compiler: k}}}, os.Environ(), nil)
		if _, known := s.Runs[question.Key()]; !known {
			if err := s.Query(t.Context(), []toolchain.Question{question}); err != nil {
				t.Fatal(err)
			}
		}
		return s.Runs[question.Key()]
	}
	if a := ask(""); !strings.Contains(a.Text, dir+"/bitcode/ockl.bc") {
		t.Errorf("%+v", a)
	}
	if a := ask(other); !strings.Contains(a.Error, "cannot find ROCm device library") {
		t.Errorf("without libraries: %+v", a)
	}
	write(t, filepath.Join(other, "ockl.bc"), "", 0o644)
	if a := ask(other); !strings.Contains(a.Text, other+"/ockl.bc") {
		t.Errorf("a refusal is remembered: %+v", a)
	}
	os.Remove(filepath.Join(other, "ockl.bc"))
	if a := ask(other); a.Error == "" {
		t.Errorf("an answer is believed whose libraries are gone: %+v", a)
	}
}

// A program that the driver runs can be asked in its place, about code that is not there yet.
func TestHIPWrapperIsAsked(t *testing.T) {
	dir := t.TempDir()
	wrapper := filepath.Join(dir, "clang-linker-wrapper")
	write(t, wrapper, "#!/bin/sh\necho \"$*\"\ntr -d '\\000' <kbuild_input.o | grep -ac 'amdgcn-amd-amdhsa'\n", 0o755)
	s := OpenSteps(dir, plan.Facts{Installed: vendors.Installed{HIP: hip.Toolchain{Compiler: &hip.Compiler{Driver: toolchain.Tool{Path: "/nowhere/hipcc"}}}}}, os.Environ(), nil)
	q := toolchain.Question{Tool: "hip", Program: wrapper, Args: []string{"--dry-run"}, Offload: []string{"gfx906"}}
	other := q
	other.Offload = []string{"gfx90a"}
	if q.Key() == other.Key() || !strings.HasPrefix(q.Key(), "hip\n") {
		t.Errorf("two questions have the key %q", q.Key())
	}
	if err := s.Query(t.Context(), []toolchain.Question{q}); err != nil {
		t.Fatal(err)
	}
	if a := s.Runs[q.Key()]; a.Text != "--dry-run\n1\n" {
		t.Errorf("%+v", a)
	}
}

func TestHIPMissing(t *testing.T) {
	if k, fault := collectHIP(t, map[string]string{"PATH": t.TempDir(), "ROCM_PATH": "/nowhere"}); k != nil || !strings.Contains(fault, "/nowhere/bin/hipcc") {
		t.Errorf("%+v %s", k, fault)
	}
}

// Of two ROCms the one is taken whose clang the manifest wants, and it is run as itself whatever
// ROCM_PATH says.
func TestHIPVersions(t *testing.T) {
	old, recent := rocmDir(t), rocmDir(t)
	file := filepath.Join(recent, "bin/clang++")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.ReplaceAll(string(text), "15.0.6", "21.1.8"), 0o755)
	vars := map[string]string{"PATH": "/usr/bin:/bin", "ROCM_PATH": old, "HIP_PATH": recent}
	for _, tt := range []struct{ want, driver, path string }{
		{"", old, old}, {"15", old, old}, {"21", recent, recent},
	} {
		r := Request{Needs: needs("hip"), Env: env(vars)}
		if tt.want != "" {
			r.Want("hip", wanted(t, "~> "+tt.want+".0"))
			r.Env = env(map[string]string{"PATH": emptyPath(t), "ROCM_PATH": old, "HIP_PATH": recent})
		} else {
			r.Env = env(map[string]string{"PATH": emptyPath(t), "ROCM_PATH": old})
		}
		f, _, err := Collect(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if f.HIP.Compiler == nil {
			t.Fatal(f.HIP.Missing)
		}
		if f.HIP.Driver.Path != filepath.Join(tt.driver, "bin/hipcc") || !slices.Contains(f.HIP.Env, "ROCM_PATH="+tt.path) {
			t.Errorf("clang %s: %s with %q", tt.want, f.HIP.Driver.Path, f.HIP.Env)
		}
	}
	r := Request{Needs: wants("hip", wanted(t, "23")),
		Env: env(map[string]string{"PATH": emptyPath(t), "ROCM_PATH": old, "HIP_PATH": recent})}
	f, _, err := Collect(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{old + "/bin/hipcc runs clang 15.0.6", recent + "/bin/hipcc runs clang 21.1.8", "wants 23"} {
		if !strings.Contains(f.HIP.Missing, want) {
			t.Errorf("%q, want %q", f.HIP.Missing, want)
		}
	}
}

// emptyPath is a PATH with what the scripts of rocmDir run, and no hipcc.
func emptyPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "cat", "printf", "gcc", "g++", "ar", "ld", "as"} {
		if found := inPath(name, os.Getenv("PATH")); found != "" {
			if err := os.Symlink(found, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// HIP's headers for NVIDIA's GPUs are found where ROCm is, and again when they come.
func TestHIPHeaders(t *testing.T) {
	dir, memo := t.TempDir(), t.TempDir()
	headers := func() string {
		f, _, err := Collect(t.Context(), Request{Needs: wants("hip", find.Wanted{Headers: true}), MemoPath: memo, Env: env(map[string]string{"PATH": os.Getenv("PATH"), "ROCM_PATH": dir})})
		if err != nil {
			t.Fatal(err)
		}
		return f.HIP.NVIDIAHeaders
	}
	if got := headers(); strings.HasPrefix(got, dir) {
		t.Errorf("headers in an empty folder: %s", got)
	}
	write(t, filepath.Join(dir, "include/hip/nvidia_detail/nvidia_hip_runtime.h"), "", 0o644)
	if got := headers(); got != filepath.Join(dir, "include") {
		t.Errorf("%q", got)
	}
}

// A clang beside the hipcc of an older ROCm takes none of its device libraries, and says so beside
// its steps.
func TestHIPOldLibs(t *testing.T) {
	dir := rocmDir(t)
	file := filepath.Join(dir, "bin/hipcc")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const printed = `echo "clang++-22: error: cannot find ROCm device library for ABI version 6, which requires ROCm 6.3 or higher; provide its path"` + "\n"
	write(t, file, strings.Replace(string(text), "case", printed+"case", 1), 0o755)
	k, fault := collectHIP(t, map[string]string{"PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"})
	if k == nil || !strings.Contains(k.LibsFault, "ROCm 6.3") || !strings.Contains(k.LibsFault, "-mcode-object-version=5") {
		t.Errorf("%+v %s", k, fault)
	}
}
