package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// factsOf probes a toolkit, and has doctor look at it.
func factsOf(t *testing.T, tk string) (k *cuda.Toolkit, findings string) {
	t.Helper()
	vars := env(map[string]string{"PATH": compilers(t), "CUDA_HOME": tk})
	f := collect(t, Request{Needs: needs("cuda"), Env: vars})
	if f.CUDA.Toolkit == nil {
		t.Fatal(f.CUDA.Missing)
	}
	return f.CUDA.Toolkit, strings.ReplaceAll(doctor(t, Request{Needs: needs("cuda"), Env: vars}), tk, "CU")
}

func TestToolkitWithBlank(t *testing.T) {
	tk := toolkitAt(t, filepath.Join(t.TempDir(), "a toolkit (of mine)"), "13.5", "15")
	k, doctor := factsOf(t, tk)
	if k.LTOFault != "" || len(k.LibFaults) > 0 && k.LibFaults["libcudart.so"] == "" {
		t.Errorf("LTO: %q, libraries: %q", k.LTOFault, k.LibFaults)
	}
	if diff := cmp.Diff([]string{tk + "/lib64/stubs", tk + "/lib64"}, k.LibDirs); diff != "" {
		t.Errorf("folders of libraries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{tk + "/include"}, k.Includes); diff != "" {
		t.Errorf("folders of headers (-want +got):\n%s", diff)
	}
	for _, want := range []string{"ok      LTO ", "ok      parts of the toolkit "} {
		if !strings.Contains(doctor, want) {
			t.Errorf("doctor does not say %q:\n%s", want, doctor)
		}
	}
}

// TestLibrariesElsewhere takes a toolkit in the layout of pip's packages, where nvcc and nvlink
// look in folders that are not there.
func TestLibrariesElsewhere(t *testing.T) {
	tk := toolkitDir(t, "13.0", "15")
	for _, move := range [][2]string{{"lib64", "lib"}, {"nvvm/lib64/libnvvm.so", "lib/libnvvm.so.4"}, {"nvvm/lib64", "unused"}} {
		if err := os.Rename(filepath.Join(tk, move[0]), filepath.Join(tk, move[1])); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(tk, "lib/libcudart.so.13"), "", 0o644)
	k, doctor := factsOf(t, tk)
	if want := "mkdir -p CU/nvvm/lib64 && ln -s CU/lib/libnvvm.so.4 CU/nvvm/lib64/libnvvm.so"; k.LibNVVM != tk+"/lib/libnvvm.so.4" ||
		!strings.HasSuffix(strings.ReplaceAll(k.LTOFault, tk, "CU"), want) {
		t.Errorf("libnvvm: %q, %q", k.LibNVVM, k.LTOFault)
	}
	if want := []string{tk + "/lib64/stubs", tk + "/lib64", tk + "/lib"}; k.LibDir != tk+"/lib" || !slices.Equal(k.LibDirs, want) {
		t.Errorf("libraries: %q in %q, want the last of %q", k.LibDir, k.LibDirs, want)
	}
	if k.CUDART != ":libcudart.so.13" || len(k.LibFaults) > 0 {
		t.Errorf("shared runtime: %q, faults: %q", k.CUDART, k.LibFaults)
	}
	if strings.Contains(doctor, "lib64") || !strings.Contains(doctor, "ok      LTO ") {
		t.Errorf("doctor:\n%s", doctor)
	}
	for _, missing := range []string{"libcudadevrt.a", "libcudart_static.a"} {
		file := filepath.Join(tk, "lib", missing)
		os.Rename(file, file+".gone")
		if k, _ := factsOf(t, tk); k.LibDir != tk+"/lib" || len(k.LibFaults) > 1 || len(k.LibFaults) == 1 && k.LibFaults[missing] == "" {
			t.Errorf("without %s: libraries in %q, faults: %q", missing, k.LibDir, k.LibFaults)
		}
		os.Rename(file+".gone", file)
	}
	before := k.NVCC.ID
	write(t, filepath.Join(tk, "lib/libnvvm.so.4"), "another", 0o644)
	if k, _ := factsOf(t, tk); k.NVCC.ID == before {
		t.Error("the identity of the toolkit leaves out libnvvm")
	}
}

// TestLibnvvmOfAnotherToolkit wants no advice to link Debian's libnvvm into a toolkit that is not
// Debian's: 11.8's refuses the LTO-IR of every later one.
func TestLibnvvmOfAnotherToolkit(t *testing.T) {
	tk := toolkitDir(t, "13.5", "15")
	os.Remove(filepath.Join(tk, "nvvm/lib64/libnvvm.so"))
	if k, _ := factsOf(t, tk); !strings.HasSuffix(k.LTOFault, "which is missing; install libnvvm of CUDA 13.5 (pip: nvidia-nvvm).") {
		t.Errorf("%q", k.LTOFault)
	}
}

// TestLibrariesOfSteps puts a library of the system's shell, and of a host compiler, into the
// folder that nvcc.profile has the loader search first.
func TestLibrariesOfSteps(t *testing.T) {
	tk := toolkitDir(t, "13.5", "15")
	shell := sharedLibs(t, "/bin/sh", nil)["libc.so.6"]
	if shell == "" {
		t.Skip("/bin/sh is not linked with libc.so.6")
	}
	r := Request{Needs: needs("cuda"), Env: env(map[string]string{"PATH": compilers(t), "CUDA_HOME": tk})}
	before := collect(t, r).CUDA.Toolkit
	if want := tk + "/bin/../lib"; before.LibPath != want {
		t.Errorf("nvcc is started with LD_LIBRARY_PATH=%s, want %s", before.LibPath, want)
	}
	libc, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tk, "lib/libc.so.6"), string(libc)+"another", 0o755)
	if after := collect(t, r).CUDA.Toolkit; after.NVCC.ID == before.NVCC.ID || after.HostCXX.ID != before.HostCXX.ID {
		t.Errorf("with another libc before the system's: nvcc %s and %s, the host compiler %s and %s", before.NVCC.ID, after.NVCC.ID, before.HostCXX.ID, after.HostCXX.ID)
	}
	t.Setenv("LD_LIBRARY_PATH", "/usr/share")
	if k := collect(t, r).CUDA.Toolkit; k.LibPath != "" {
		t.Errorf("LD_LIBRARY_PATH has a folder, and nvcc is started with %s", k.LibPath)
	}
}

// TestMixedToolkit takes parts of several versions, as pip installs them where only one package is
// pinned.
func TestMixedToolkit(t *testing.T) {
	tk := toolkitDir(t, "13.0", "15")
	cicc := func(version string) {
		write(t, filepath.Join(tk, "bin/cicc"), "#!/bin/sh\nfor a; do :; done\necho '// Cuda compilation tools, release "+version+", V"+version+".37' >\"$a\"\n", 0o755)
	}
	header := func(version string) {
		write(t, filepath.Join(tk, "include/cuda_runtime_api.h"), "/* text */\n#define CUDART_VERSION  "+version+"\n", 0o644)
	}
	libnvvm := func(version string) {
		write(t, filepath.Join(tk, "nvvm/lib64/libnvvm.so"), "\x00Cuda compilation tools, release %s\x00Cuda compilation tools, release "+version+", V"+version+".37\x00", 0o644)
	}
	cicc("13.0")
	header("13000")
	libnvvm("13.0")
	if k, doctor := factsOf(t, tk); k.Mixed != "" || strings.Contains(doctor, "versions") {
		t.Errorf("one version: %q\n%s", k.Mixed, doctor)
	}
	cicc("13.5")
	header("13050")
	libnvvm("13.4")
	k, doctor := factsOf(t, tk)
	want := "nvcc is of CUDA 13.0, cicc is of 13.5, libnvvm is of 13.4, the headers of the runtime are of 13.5. Install all of one version (pip: 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*')."
	if k.Mixed != want || !strings.Contains(doctor, want) {
		t.Errorf("%q, want %q\n%s", k.Mixed, want, doctor)
	}
}

// TestReleaseOfLibNVVM looks for the release in the libnvvm of each toolkit, and compares it with
// that of its nvcc.
func TestReleaseOfLibNVVM(t *testing.T) {
	for _, tk := range tooltest.Toolkits(t) {
		r := Request{Needs: needs("cuda"), Env: func(name string) string {
			if name == "CUDA_HOME" {
				return tk.Root
			}
			return os.Getenv(name)
		}}
		f, observed, err := Collect(t.Context(), r)
		if f.CUDA.Toolkit == nil || f.CUDA.Mixed != "" || err != nil {
			t.Errorf("%s: %+v, %v", tk.Release, f.CUDA, err)
			continue
		}
		if observed == nil {
			t.Errorf("%s: nothing is remembered of it", tk.Release)
		}
		covered, _ := Covered(t.Context(), r)
		i := slices.IndexFunc(covered[f.CUDA.NVCC.ID], func(file string) bool { return strings.HasPrefix(filepath.Base(file), "libnvvm.so") })
		if i < 0 {
			t.Errorf("%s: no libnvvm", tk.Release)
			continue
		}
		text, err := os.ReadFile(covered[f.CUDA.NVCC.ID][i])
		if !bytes.Contains(text, []byte("Cuda compilation tools, release "+tk.Release)) {
			t.Errorf("%s: libnvvm contains another release: %v", tk.Release, err)
		}
	}
}
