package probe

import (
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// linked makes bin/prog, which needs libdirect.so, which needs libdeep.so, and finds both in
// another folder. dtags says how the folders are written: "--enable-new-dtags" is DT_RUNPATH,
// "--disable-new-dtags" DT_RPATH.
func linked(t *testing.T, dtags string) (dir string) {
	t.Helper()
	gcc := inPath("gcc", os.Getenv("PATH"))
	if gcc == "" {
		t.Skip("needs gcc, which is not in PATH")
	}
	dir = t.TempDir()
	write(t, dir+"/deep.c", "int deep(void) { return 0; }\n", 0o644)
	write(t, dir+"/direct.c", "int deep(void); int direct(void) { return deep(); }\n", 0o644)
	write(t, dir+"/prog.c", "int direct(void); int main(void) { return direct(); }\n", 0o644)
	for _, d := range []string{"bin", "lib", "else", "alt"} {
		os.Mkdir(filepath.Join(dir, d), 0o777)
	}
	for _, argv := range [][]string{
		{"-shared", "-fPIC", "deep.c", "-o", "else/libdeep.so"},
		{"-shared", "-fPIC", "direct.c", "-o", "lib/libdirect.so", "-Lelse", "-ldeep"},
		{"prog.c", "-o", "bin/prog", "-Llib", "-ldirect", "-Wl,-rpath-link,else", "-Wl," + dtags + ",-rpath,$ORIGIN/../lib:" + dir + "/else"},
	} {
		cmd := exec.Command(gcc, argv...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gcc %q: %v\n%s", argv, err, out)
		}
	}
	if err := os.Symlink("../bin/prog", dir+"/alt/prog"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// loaderSays is what the loader of glibc would take.
func loaderSays(t *testing.T, program string, vars ...string) map[string]string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append([]string{"LD_TRACE_LOADED_OBJECTS=1"}, vars...)
	out, err := cmd.CombinedOutput()
	libs := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) => (\S+) \(`).FindAllStringSubmatch(string(out), -1) {
		libs[m[1]] = m[2]
	}
	if len(libs) == 0 {
		t.Skipf("the loader does not list what %s is made of: %v", program, err)
	}
	return libs
}

func sharedLibs(t *testing.T, program string, vars map[string]string) map[string]string {
	f, _ := newFinder(t.Context(), Request{Env: env(vars)})
	return f.Libraries(program)
}

// atLeast checks that all that the loader takes is found, in the same files.
func atLeast(t *testing.T, found, want map[string]string) {
	t.Helper()
	for name, file := range want {
		a, errA := os.Stat(found[name])
		b, errB := os.Stat(file)
		if errA != nil || errB != nil || !os.SameFile(a, b) {
			t.Errorf("%s: found %q, the loader takes %s", name, found[name], file)
		}
	}
}

// What is found is what the loader takes: DT_RUNPATH is of the file alone, DT_RPATH also of what it
// brings in, LD_LIBRARY_PATH is between.
func TestSharedLibs(t *testing.T) {
	for _, c := range []struct {
		dtags   string
		libPath bool
		deep    bool // libdeep.so is found
	}{
		{dtags: "--disable-new-dtags", deep: true},
		{dtags: "--enable-new-dtags"},
		{dtags: "--enable-new-dtags", libPath: true, deep: true},
	} {
		dir := linked(t, c.dtags)
		vars := map[string]string{}
		var list []string
		if c.libPath {
			vars["LD_LIBRARY_PATH"] = dir + "/else"
			list = []string{"LD_LIBRARY_PATH=" + dir + "/else"}
		}
		found := sharedLibs(t, dir+"/alt/prog", vars)
		if want := dir + "/lib/libdirect.so"; found["libdirect.so"] == "" || filepath.Clean(found["libdirect.so"]) != want {
			t.Errorf("%+v: libdirect.so is %q, not %s", c, found["libdirect.so"], want)
		}
		if deep, asked := found["libdeep.so"]; !asked || (deep != "") != c.deep {
			t.Errorf("%+v: libdeep.so is %q", c, deep)
		}
		if c.deep {
			atLeast(t, found, loaderSays(t, dir+"/bin/prog", list...))
		}
	}
}

// A build of a library for some processors is a part where the loader takes it, and so is the
// loader. What may come is observed.
func TestLibsForProcessors(t *testing.T) {
	dir := linked(t, "--enable-new-dtags")
	f, w := newFinder(t.Context(), Request{Env: env(nil)})
	found := f.Libraries(dir + "/bin/prog")
	if loader := found["loader"]; !filepath.IsAbs(loader) || !cache.Exists(loader) {
		t.Errorf("the loader is %q", loader)
	}
	for _, file := range []string{dir + "/lib/glibc-hwcaps", "/etc/ld.so.preload"} {
		if !cache.Exists(file) && !w.asked[file] {
			t.Errorf("%s may come, and nothing says so", file)
		}
	}
	fast := dir + "/lib/glibc-hwcaps/x86-64-v2/libdirect.so"
	if err := os.MkdirAll(filepath.Dir(fast), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/lib/libdirect.so", fast); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-SSE4_2") // commands do not get it
	found = sharedLibs(t, dir+"/bin/prog", nil)
	atLeast(t, found, loaderSays(t, dir+"/bin/prog"))
	if runtime.GOARCH == "amd64" && filepath.Clean(found["libdirect.so"]) != fast {
		t.Errorf("libdirect.so is %q", found["libdirect.so"])
	}
}

// The installed compilers, where there are any.
func TestSharedLibsOfCompilers(t *testing.T) {
	path := os.Getenv("PATH")
	for _, name := range []string{"as", "clang-15", "clang-17", "clang", "git"} {
		if p := inPath(name, path); p != "" {
			atLeast(t, sharedLibs(t, p, nil), loaderSays(t, p))
		}
	}
	if libs := sharedLibs(t, "/dev/null", nil); len(libs) != 0 {
		t.Errorf("/dev/null is made of %v", libs)
	}
	f, w := newFinder(t.Context(), Request{Env: env(nil)})
	if f.Libraries(""); len(w.digested)+len(w.byStat) != 0 {
		t.Errorf("a program that is absent depends on %v", w.digested)
	}
}

// A library replaced under the same program is another compiler.
func TestIdentityOfSharedLibs(t *testing.T) {
	dir, path := linked(t, "--disable-new-dtags"), compilers(t)
	write(t, dir+"/version.c", `#include <stdio.h>
int direct(void);
int main(void) { puts("12.2.0"); return direct(); }
`, 0o644)
	cmd := exec.Command(inPath("gcc", os.Getenv("PATH")), "version.c", "-o", "bin/prog", "-Llib", "-ldirect", "-Wl,-rpath-link,else",
		"-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:"+dir+"/else")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := Request{Needs: vendors.Needs{HostCompiler: dir + "/bin/prog"}, Env: env(map[string]string{"PATH": path}), MemoPath: t.TempDir()}
	last := collect(t, r).CXX
	if last.Error != "" {
		t.Fatal(last.Error)
	}
	for _, lib := range []string{"lib/libdirect.so", "else/libdeep.so"} {
		text, err := os.ReadFile(filepath.Join(dir, lib))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, lib), string(text)+"\n", 0o755)
		now := collect(t, r).CXX
		if now.ID == last.ID {
			t.Errorf("replacing %s does not change the identity", lib)
		}
		last = now
	}
}
