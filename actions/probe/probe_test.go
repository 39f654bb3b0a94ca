package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// toolkitDir makes a toolkit of shell scripts in the layout of NVIDIA's installer, which says that
// it is of the given version and supports g++ up to limit.
func needs(language string) (n vendors.Needs) {
	n.Need(language)
	return n
}

func installed(k *cuda.Toolkit) plan.Facts {
	return plan.Facts{Installed: vendors.Installed{CUDA: nvcc.Toolchain{Host: cuda.Host{Toolkit: k}}}}
}

func wants(language string, w find.Wanted) (n vendors.Needs) {
	n.Want(language, w)
	return n
}

func toolkitDir(t *testing.T, version, limit string) string {
	t.Helper()
	return toolkitAt(t, t.TempDir(), version, limit)
}

// toolkitAt is toolkitDir in a folder.
func toolkitAt(t *testing.T, dir, version, limit string) string {
	t.Helper()
	script := func(name, text string) { write(t, filepath.Join(dir, name), "#!/bin/sh\n"+text, 0o755) }
	script("bin/nvcc", `here=$(cd "$(dirname "$0")" && pwd)
case $* in
*--version*) echo "Cuda compilation tools, release `+version+`, V`+version+`.89";;
*--list-gpu-code*) echo sm_80; echo sm_90;;
*--help*) echo "Allowed values for this option:  'all','compute_100f','sm_80','sm_90','sm_90a','sm_100f'";;
*--dryrun*)
	echo "#\$ _HERE_=$here"
	echo "#\$ PATH=$here:$PATH"
	echo "#\$ LD_LIBRARY_PATH=$here/../lib:$LD_LIBRARY_PATH"
	echo "#\$ LIBRARIES=  \"-L$here/../lib64/stubs\" \"-L$here/../lib64\""
	echo "#\$ INCLUDES=\"-I$here/../include\""
	echo "#\$ NVVMIR_LIBRARY_DIR=$here/../nvvm/libdevice"
	echo "#\$ nvlink -dlto -nvvmpath=\"$here/../nvvm\" x.o"
	echo "#\$ g++ \"$here/crt/link.stub\" -o x.o"
	;;
esac
`)
	for _, tool := range []string{"cicc", "cudafe++", "ptxas", "fatbinary", "nvlink"} {
		script("bin/"+tool, "echo "+tool+"\n")
	}
	write(t, filepath.Join(dir, "bin/nvcc.profile"), "PROFILE\n", 0o644)
	for _, lib := range []string{"nvvm/lib64/libnvvm.so", "lib64/libcudadevrt.a", "lib64/libcudart_static.a", "nvvm/libdevice/libdevice.10.bc", "bin/crt/link.stub", "include/fatbinary_section.h"} {
		write(t, filepath.Join(dir, lib), lib+"\n", 0o644)
	}
	write(t, filepath.Join(dir, "include/crt/host_config.h"), "#error -- unsupported GNU version! gcc versions later than "+limit+" are not supported!\n", 0o644)
	return dir
}

// compilers makes a PATH folder with g++ of version 12, g++-11, gcc, gcc-11 and ar.
func compilers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, version := range map[string]string{"g++": "12.2.0", "gcc": "12.2.0", "g++-11": "11.3.0", "gcc-11": "11.3.0"} {
		write(t, filepath.Join(dir, name), "#!/bin/sh\ncase $1 in -dump*) echo "+version+";; -print*) echo "+dir+"/cc1plus;; esac\n", 0o755)
	}
	write(t, filepath.Join(dir, "cc1plus"), "the compiler proper\n", 0o755)
	write(t, filepath.Join(dir, "ar"), "#!/bin/sh\n", 0o755)
	for _, tool := range []string{"dirname"} { // what the scripts use; /usr/bin would bring real compilers
		real, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour) // the memo does not trust files that were just written
	os.Chtimes(name, old, old)
}

func env(vars map[string]string) func(string) string {
	return func(n string) string { return vars[n] }
}

func collect(t *testing.T, r Request) plan.Facts {
	t.Helper()
	f, _, err := Collect(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestToolkit(t *testing.T) {
	tk, path := toolkitDir(t, "12.4", "13"), compilers(t)
	f := collect(t, Request{Needs: needs("cuda"), Root: t.TempDir(), Env: env(map[string]string{"PATH": path, "CUDA_HOME": tk})})
	if f.CUDA.Toolkit == nil {
		t.Fatal(f.CUDA.Missing)
	}
	if f.CUDA.Version != "12.4" || fmt.Sprint(f.CUDA.Archs) != "[sm_80 sm_90 sm_90a sm_100f]" || f.CUDA.LTOFault != "" {
		t.Errorf("toolkit %+v", f.CUDA)
	}
	if want := filepath.Join(tk, "lib64"); len(f.CUDA.LibDirs) != 2 || f.CUDA.LibDirs[1] != want {
		t.Errorf("library folders %q, want the second to be %s", f.CUDA.LibDirs, want)
	}
	if filepath.Base(f.CUDA.HostCXX.Path) != "g++" || filepath.Base(f.CC.Path) != "gcc" {
		t.Errorf("host compilers %s and %s", f.CUDA.HostCXX.Path, f.CC.Path)
	}
}

func TestHostCompilerWithinTheToolkitsLimit(t *testing.T) {
	tk, path := toolkitDir(t, "11.8", "11"), compilers(t)
	vars := map[string]string{"PATH": path, "CUDA_HOME": tk}
	f := collect(t, Request{Needs: needs("cuda"), Env: env(vars)})
	if f.CUDA.Toolkit == nil || filepath.Base(f.CUDA.HostCXX.Path) != "g++-11" || filepath.Base(f.CC.Path) != "gcc-11" {
		t.Errorf("chose %+v and %s: %s", f.CUDA, f.CC.Path, f.CUDA.Missing)
	}
	os.Remove(filepath.Join(path, "g++-11"))
	f = collect(t, Request{Needs: needs("cuda"), Env: env(vars)})
	if f.CUDA.Toolkit != nil || !strings.Contains(f.CUDA.Missing, "install g++-11") {
		t.Errorf("without g++-11: %q", f.CUDA.Missing)
	}
}

// Whatever a build runs or reads on its own account is in the identity; times are not.
func TestIdentity(t *testing.T) {
	tk, path := toolkitDir(t, "12.4", "13"), compilers(t)
	r := Request{Needs: needs("cuda"), Env: env(map[string]string{"PATH": path, "CUDA_HOME": tk}), MemoPath: t.TempDir()}
	last := collect(t, r).CUDA.NVCC.ID
	if again := collect(t, r).CUDA.NVCC.ID; again != last {
		t.Errorf("two probings differ: %s, %s", last, again)
	}
	os.Chtimes(filepath.Join(tk, "bin/ptxas"), time.Now(), time.Now())
	if touched := collect(t, r).CUDA.NVCC.ID; touched != last {
		t.Error("touch changes the identity")
	}
	for _, file := range []string{"bin/nvcc.profile", "bin/ptxas", "bin/cicc", "bin/cudafe++", "bin/fatbinary", "bin/nvlink",
		"bin/crt/link.stub", "include/fatbinary_section.h", "lib64/libcudadevrt.a", "lib64/libcudart_static.a",
		"nvvm/lib64/libnvvm.so", "nvvm/libdevice/libdevice.10.bc", path + "/cc1plus"} {
		name := file
		if !filepath.IsAbs(name) {
			name = filepath.Join(tk, file)
		}
		write(t, name, "#!/bin/sh\n# replaced\n", 0o755)
		now := collect(t, r).CUDA.NVCC.ID
		if now == last {
			t.Errorf("replacing %s does not change the identity", file)
		}
		last = now
	}
}

// A file of two names is read once, and no other is taken for it.
func TestDigestOfLinks(t *testing.T) {
	dir := t.TempDir()
	one, other, link := filepath.Join(dir, "one"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
	write(t, one, "one\n", 0o644)
	write(t, other, "two\n", 0o644)
	if err := os.Link(one, link); err != nil {
		t.Fatal(err)
	}
	_, w := newFinder(t.Context(), Request{Env: os.Getenv})
	var digests []cache.Digest
	for _, name := range []string{one, link, other} {
		d, err := w.digest(name)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
	}
	if digests[0] != digests[1] || digests[0] == digests[2] || len(w.digests) != 2 || len(w.digested) != 3 {
		t.Errorf("digests %q of %d files, stamps of %d", digests, len(w.digests), len(w.digested))
	}
	write(t, one, "ONE\n", 0o644) // as long, in the same file, at the same time but for a moment
	_, w = newFinder(t.Context(), Request{Env: os.Getenv})
	if d, err := w.digest(link); err != nil || d == digests[0] {
		t.Errorf("what is in the file now has the digest of what was: %v", err)
	}
	if _, err := w.digest(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there has a digest")
	}
}

// A link in the path of a compiler comes to lead to another installation, whose driver is equal and
// whose passes are not.
func TestLinkToAnotherInstallation(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "current")
	for _, version := range []string{"a", "b"} {
		write(t, filepath.Join(dir, version, "g++"), `#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd -P)
case $1 in -dump*) echo 12.2.0;; -print*) echo "$here/cc1plus";; esac
`, 0o755)
		write(t, filepath.Join(dir, version, "cc1plus"), version, 0o755)
	}
	if err := os.Symlink(filepath.Join(dir, "a"), link); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * cache.FileTick)
	r := Request{Needs: vendors.Needs{HostCompiler: filepath.Join(link, "g++")}, Env: env(map[string]string{"PATH": compilers(t)}), MemoPath: t.TempDir()}
	before := collect(t, r).CXX
	if _, _, ok := r.remembered(); !ok || before.Error != "" {
		t.Fatal("nothing is remembered", before.Error)
	}
	os.Remove(link)
	if err := os.Symlink(filepath.Join(dir, "b"), link); err != nil {
		t.Fatal(err)
	}
	if after := collect(t, r).CXX; after.ID == before.ID {
		t.Error("the compiler of another installation has the same identity")
	}
}

// A C compiler that does not work is queried again when it, or the program that it runs, changes.
func TestRepairedCompiler(t *testing.T) {
	bin := compilers(t)
	r := Request{Env: env(map[string]string{"PATH": bin}), MemoPath: t.TempDir()}
	gcc := filepath.Join(bin, "gcc")
	works, _ := os.ReadFile(gcc)
	write(t, gcc, "#!/bin/sh\nexit 1\n", 0o755)
	if f := collect(t, r); f.CC.Error == "" {
		t.Fatal("a compiler that fails works")
	}
	write(t, gcc, "#!/bin/sh\nexec "+bin+"/gcc-12 \"$@\"\n", 0o755)
	if f := collect(t, r); !strings.Contains(f.CC.Error, "127") {
		t.Error("a compiler that fails in another way:", f.CC.Error)
	}
	write(t, filepath.Join(bin, "gcc-12"), string(works), 0o755)
	if f := collect(t, r); f.CC.Error != "" {
		t.Error("it was repaired:", f.CC.Error)
	}
}

// A memo names tools and their command lines: one that is damaged in any byte, cut off, or
// another's is none.
func TestDamagedMemo(t *testing.T) {
	tooltest.Broad(t)
	tk, path := toolkitDir(t, "12.4", "13"), compilers(t)
	r := Request{Needs: needs("cuda"), Env: env(map[string]string{"PATH": path, "CUDA_HOME": tk}), MemoPath: t.TempDir()}
	k := collect(t, r).CUDA.Toolkit
	steps := func(keyEnv ...string) *Steps {
		return OpenSteps(r.MemoPath, installed(k), os.Environ(), keyEnv)
	}
	if err := steps().Query(t.Context(), []toolchain.Question{{Tool: "nvcc", Args: []string{"--dryrun", "a.cu"}}}); err != nil {
		t.Fatal(err)
	}
	memo, _ := r.memo()
	remembered := steps().file
	for file, holds := range map[string]func() bool{
		memo:       func() bool { _, _, ok := r.remembered(); return ok },
		remembered: func() bool { return len(steps().Runs) > 0 },
	} {
		text, _ := os.ReadFile(file)
		if !holds() {
			t.Fatalf("%s holds nothing", file)
		}
		for i := 0; i < len(text); i += map[bool]int{false: 1, true: 13}[testing.Short()] {
			flipped := bytes.Clone(text)
			flipped[i] ^= 1
			for _, damaged := range [][]byte{flipped, text[:i]} {
				if os.WriteFile(file, damaged, 0o666); holds() {
					t.Fatalf("%s is believed after damage at byte %d of %d", file, i, len(text))
				}
			}
		}
		os.WriteFile(file, text, 0o666)
	}
	other := steps("CPATH=/x").file
	if err := os.Rename(remembered, other); err != nil || len(steps("CPATH=/x").Runs) > 0 {
		t.Error("answers for another environment are believed", err)
	}
}

// An answer that did not come, since a tool was killed, is asked for again.
func TestTroubleIsNotRemembered(t *testing.T) {
	dir := t.TempDir()
	nvcc, killed := filepath.Join(dir, "nvcc"), filepath.Join(dir, "killed")
	script := "#!/bin/sh\n[ ! -e " + killed + " ] || kill -9 $$\n[ \"$1\" != --refused ] || exit 1\necho answer\n"
	if err := os.WriteFile(nvcc, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	k := &cuda.Toolkit{NVCC: toolchain.Tool{Path: nvcc, ID: "1"}}
	steps := func() *Steps {
		return OpenSteps(dir, installed(k), os.Environ(), nil)
	}
	ask := func(s *Steps, question string) toolchain.DryRun {
		q := toolchain.Question{Tool: "nvcc", Args: []string{question}}
		if err := s.Query(t.Context(), []toolchain.Question{q}); err != nil {
			t.Fatal(err)
		}
		return s.Runs[q.Key()]
	}
	os.WriteFile(killed, nil, 0o666)
	s := steps()
	if a := ask(s, "--dryrun"); a.Error == "" {
		t.Errorf("a killed nvcc answered %+v", a)
	}
	os.Remove(killed)
	if n := len(steps().Runs); n > 0 {
		t.Errorf("%d answers of a killed nvcc are remembered", n)
	}
	if a := ask(s, "--dryrun"); a.Text != "answer\n" {
		t.Errorf("%+v", a)
	}
	if a := ask(s, "--refused"); a.Error == "" {
		t.Errorf("refused: %+v", a)
	}
	if n := len(steps().Runs); n != 2 {
		t.Errorf("%d answers are remembered, not both", n)
	}

	tk, path := toolkitDir(t, "12.4", "13"), compilers(t)
	r := Request{Needs: needs("cuda"), Env: env(map[string]string{"PATH": path, "CUDA_HOME": tk}), MemoPath: t.TempDir()}
	memo, _ := r.memo()
	fatbinary := filepath.Join(tk, "bin", "fatbinary")
	was, err := os.ReadFile(fatbinary)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"#!/bin/sh\nkill -9 $$\n", string(was)} {
		os.WriteFile(fatbinary, []byte(text), 0o777)
		collect(t, r)
		if _, err := os.Stat(memo); (err == nil) != (text == string(was)) {
			t.Errorf("with a fatbinary of %d bytes: %v", len(text), err)
		}
	}
}

func TestMissing(t *testing.T) {
	path := compilers(t)
	f := collect(t, Request{Needs: wants("cuda", find.Wanted{Needed: true, Compiler: "no-such-nvcc"}), Env: env(map[string]string{"PATH": path})})
	if f.CUDA.Toolkit != nil || f.CUDA.Misses != (toolchain.Missed{Attribute: "compiler", Truth: "there is no no-such-nvcc"}) || !strings.Contains(f.CUDA.Missing, "Name an nvcc that is here") {
		t.Errorf("CUDAError %q, %+v", f.CUDA.Missing, f.CUDA.Misses)
	}
	f = collect(t, Request{Env: env(map[string]string{"PATH": t.TempDir()})})
	if f.CXX.Path != "" || !strings.Contains(f.CXX.Error, "build-essential") {
		t.Errorf("no compiler: %+v", f.CXX)
	}
}

// wanted returns what a manifest requires that states a version.
func wanted(t *testing.T, version string) find.Wanted {
	t.Helper()
	c, err := manifest.ParseConstraint(version)
	if err != nil {
		t.Fatal(err)
	}
	return find.Wanted{Needed: true, Version: version, Accepts: c}
}

func TestVersionConstraint(t *testing.T) {
	tk, path := toolkitDir(t, "11.8", "13"), compilers(t)
	vars := env(map[string]string{"PATH": path, "CUDA_HOME": tk})
	for version, ok := range map[string]bool{">= 11": true, ">= 12": false} {
		f := collect(t, Request{Needs: wants("cuda", wanted(t, version)), Env: vars})
		if (f.CUDA.Toolkit != nil) != ok {
			t.Errorf("%s: %v, %s", version, f.CUDA.Toolkit != nil, f.CUDA.Missing)
		}
		if m := f.CUDA.Misses; !ok && (m.Attribute != "version" || !strings.Contains(m.Truth, "is CUDA 11.8, and the manifest wants >= 12")) {
			t.Errorf("it says %q, %+v", f.CUDA.Missing, m)
		}
	}
}

func TestMissingLibnvvm(t *testing.T) {
	tk, path := toolkitDir(t, "11.8", "13"), compilers(t)
	os.Remove(filepath.Join(tk, "nvvm/lib64/libnvvm.so"))
	vars := env(map[string]string{"PATH": path, "CUDA_HOME": tk})
	f := collect(t, Request{Needs: needs("cuda"), Env: vars})
	if f.CUDA.Toolkit == nil || !strings.Contains(f.CUDA.LTOFault, "libnvvm.so") {
		t.Fatalf("fault not seen: %+v", f.CUDA)
	}
	if out := doctor(t, Request{Needs: needs("cuda"), Env: vars}); !strings.Contains(out, "fail    LTO") {
		t.Errorf("doctor says:\n%s", out)
	}
}

func TestPrebuilt(t *testing.T) {
	root := t.TempDir()
	text, err := os.ReadFile("../fatbin/testdata/lib.a")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "third_party/lib.a"), string(text), 0o644)
	f := collect(t, Request{Needs: vendors.Needs{Prebuilt: []string{"third_party/lib.a", "gone.a"}}, Root: root, Env: env(nil)})
	if lib := f.Prebuilt["third_party/lib.a"]; lib.Error != "" || len(lib.Members) != 3 || !lib.Members[0].Relocatable {
		t.Errorf("%+v", lib)
	}
	if lib := f.Prebuilt["gone.a"]; lib.Error != "there is no such file" {
		t.Errorf("%+v", lib)
	}
}

// Libraries of one name in several folders are told apart.
func TestLibrariesOfOneName(t *testing.T) {
	root := t.TempDir()
	text, err := os.ReadFile("../fatbin/testdata/lib.a")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"a/libx.a", "b/libx.a", "c/libx.a"} {
		write(t, filepath.Join(root, file), string(text), 0o644)
	}
	write(t, filepath.Join(root, "c/libx.so"), "", 0o644)
	write(t, filepath.Join(root, "e/liby.a"), string(text), 0o644)
	r := Request{Root: root, Libs: []Lib{{"x", []string{"a"}}, {"x", []string{"c", "b"}}, {"y", nil}, {":libx.a", []string{"a", "c", "b", "a"}}},
		Env: env(map[string]string{"LIBRARY_PATH": "d:e"})}
	f := collect(t, r)
	want := map[string]string{"a/libx": "a/libx.a", "b/libx": "b/libx.a", "c/libx": "", "y": "e/liby.a",
		"a/lib:libx.a": "a/libx.a", "b/lib:libx.a": "b/libx.a", "c/lib:libx.a": "c/libx.a"}
	if !maps.Equal(f.Static, want) || len(f.Prebuilt["a/libx.a"].Members) != 3 || len(f.Prebuilt["b/libx.a"].Members) != 3 {
		t.Errorf("%v\n%v", f.Static, f.Prebuilt)
	}
	if have := slices.Sorted(slices.Values(f.Libs["x"])); !slices.Equal(have, []string{"a/libx.a", "b/libx.a", "c/libx.so"}) {
		t.Errorf("-lx may be %v", have)
	}
	if have := slices.Sorted(slices.Values(f.Libs[":libx.a"])); !slices.Equal(have, []string{"a/libx.a", "b/libx.a", "c/libx.a"}) {
		t.Errorf("-l:libx.a may be %v", have)
	}
}

// TestRealToolkit holds the probe against the installed toolkit.
func TestRealToolkit(t *testing.T) {
	tooltest.Need(t, "nvcc")
	r := Request{Needs: needs("cuda"), Env: os.Getenv, MemoPath: t.TempDir()}
	f := collect(t, r)
	if f.CUDA.Toolkit == nil {
		t.Fatal(f.CUDA.Missing)
	}
	if len(f.CUDA.Archs) < 5 || f.CUDA.HostCXX.Path == "" || len(f.CUDA.NVCC.ID) != 64 || !f.LinkDepfile {
		t.Errorf("%+v", f)
	}
	if again := collect(t, r); again.CUDA.NVCC.ID != f.CUDA.NVCC.ID {
		t.Error("two probings differ")
	}
	replaceParts(t, f.CUDA.Toolkit)
}

// replaceParts copies the installed toolkit, as links but for nvcc, its profile and what is
// replaced: each part under the same nvcc is another toolkit.
func replaceParts(t *testing.T, k *cuda.Toolkit) {
	dir := t.TempDir()
	root := k.Root
	here := filepath.Join(root, "bin")
	run := func(argv ...string) {
		t.Helper()
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
	}
	run("cp", "-rs", root+"/.", dir)
	for _, tool := range nvcc.Programs {
		run("ln", "-sf", k.Programs[tool], filepath.Join(dir, "bin", tool))
	}
	profile, _ := os.ReadFile(filepath.Join(here, "nvcc.profile"))
	os.Remove(filepath.Join(dir, "bin/nvcc.profile"))
	write(t, filepath.Join(dir, "bin/nvcc.profile"), strings.ReplaceAll(string(profile), root, dir), 0o644)
	run("cp", "--remove-destination", filepath.Join(here, "nvcc"), filepath.Join(dir, "bin/nvcc"))
	parts, _ := filepath.Glob(filepath.Join(dir, "bin/nvcc.profile"))
	for _, p := range []string{"bin/cicc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink", "libdevice/*.bc", "nvvm/libdevice/*.bc"} {
		found, _ := filepath.Glob(filepath.Join(dir, p))
		parts = append(parts, found...)
	}
	if len(parts) < 7 {
		t.Errorf("the toolkit has only %q", parts)
	}
	r := Request{Needs: needs("cuda"), MemoPath: t.TempDir(), Env: env(map[string]string{"PATH": filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "CUDA_HOME": dir})}
	last := collect(t, r)
	for _, p := range parts {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(p) // a link
		write(t, p, string(text)+"\n", 0o755)
		now := collect(t, r)
		if now.CUDA.Toolkit == nil || last.CUDA.Toolkit == nil || now.CUDA.NVCC.ID == last.CUDA.NVCC.ID {
			t.Errorf("replacing %s is not noticed: %s", p, now.CUDA.Missing)
		}
		last = now
	}
}

// doctor returns what the doctor prints.
func doctor(t *testing.T, r Request) string {
	var out strings.Builder
	list, _ := Doctor(t.Context(), r)
	for _, f := range list {
		fmt.Fprintln(&out, f)
	}
	return out.String()
}

// Programs that are asked something run where nobody else may put files, and do not say where.
func TestProbesRunInPrivateFolders(t *testing.T) {
	shared := t.TempDir()
	t.Setenv("TMPDIR", shared)
	f, _ := newFinder(t.Context(), Request{Env: os.Getenv})
	got, err := f.Output("sh", "-c", "stat -c %a .; ls -A; pwd")
	if want := "700\n\n"; got != want || err != nil {
		t.Errorf("printed %q, %v; want %q", got, err, want)
	}
	if left, err := os.ReadDir(shared); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// Two drivers may be one file, as in environments of conda: beside each a compiler finds other parts.
func TestLinkToOtherName(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a/bin", "b/bin", "bin"} {
		os.MkdirAll(filepath.Join(dir, sub), 0o777)
	}
	write(t, dir+"/a/bin/g++", "driver", 0o777)
	err := errors.Join(os.Link(dir+"/a/bin/g++", dir+"/b/bin/g++"),
		os.Symlink("../env/bin/g++", dir+"/bin/g++"), os.Symlink("a", dir+"/env"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // else the driver is too recent
	for _, listed := range []bool{false, true} {
		for _, link := range []struct{ name, target string }{
			{dir + "/env", "b"}, {dir + "/env", "a"}, {dir + "/bin/g++", "../b/bin/g++"}, {dir + "/bin/g++", "../env/bin/g++"},
		} {
			h := newHostEnv(t.Context(), "")
			h.digest(dir + "/bin/g++")
			if listed {
				h.List(dir)
				h.List(dir + "/bin")
			}
			list, ok := h.observed()
			blob, err := trace.Encode(nil, list)
			if err != nil || !ok {
				t.Fatal(err, ok)
			}
			observed, _ := trace.Open(blob, nil)
			if _, broken, err := observed.Check("/"); err != nil || len(broken) > 0 {
				t.Error("changed before the link moved:", observed.Paths("/", broken), err)
			}
			if err := errors.Join(os.Remove(link.name), os.Symlink(link.target, link.name)); err != nil {
				t.Fatal(err)
			}
			if _, broken, err := observed.Check("/"); err != nil || len(broken) == 0 {
				t.Errorf("%s leads to %s now: not seen, %v", link.name, link.target, err)
			}
		}
	}
}
