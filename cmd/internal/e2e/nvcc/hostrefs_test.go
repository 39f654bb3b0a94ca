package nvcc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// TestRealHostRefs holds what a device link keeps against what plain host code names.
func TestRealHostRefs(t *testing.T) {
	t.Parallel()
	e := realProject(t, "hostrefs")
	long := filepath.Join(filepath.Dir(e.Dir), strings.Repeat("a long path ", 12), strings.Repeat("longer", 12)) // nvlink 11.8 dies of a long TMPDIR
	if err := os.MkdirAll(filepath.Dir(long), 0o777); err != nil {
		t.Fatal(err)
	}
	e2e.CopyTree(t, e.Dir, long)
	e.Dir = long
	e.Run(tooltest.HostGCC(t), "-c", "vendor.cc", "-o", "vendor.o")
	e.Run("ar", "qcsD", "libvendor.a", "vendor.o")
	const named = "_Z4instIfEvPT_ _Z8in_tablePi _Z8launchedPi op_named op_vendors"
	const all = "_Z4instIfEvPT_ _Z4instIiEvPT_ _Z7nobodysPi _Z8in_tablePi _Z8launchedPi op_named op_nobodys op_vendors"
	expect := func(what, want string) {
		t.Helper()
		if got := strings.Join(e.Functions("build/bin/app"), " "); got != want {
			t.Errorf("%s: the program has the kernels\n%s\nwant\n%s", what, got, want)
		}
	}
	e.Kbuild()
	expect("in parts", named)
	why, _ := e.Run("kbuild", "why", "app")
	for _, want := range []string{"keeps in_table(int*) (_Z8in_tablePi) for build/obj/executable.app/table.cc.o",
		"keeps op_named for build/obj/library.ops/names.cc.o", "keeps op_vendors for libvendor.a", "keeps shown for"} {
		if !strings.Contains(why, want) {
			t.Errorf("why does not say %q:\n%s", want, why)
		}
	}
	e.Edit("table.cc", "&shown", "&shown, 0")
	e.Ran("host code that names the same", "host-compile 1, host-refs 1, link 1")
	e.Edit("names.cc", "names[] = {(void *)op_named}", "names[] = {(void *)op_nobodys}")
	e.Ran("host code that names another", "archive 1, fatbinary 1, host-compile 1, host-part 1, host-refs 1, link 1, nvlink 1, slice 1")
	expect("another name", strings.Replace(named, "op_named", "op_nobodys", 1))

	// Who looks up by name may find anything, unless strip_unused says that none of these.
	const looks = `more=["calls.cc"]`
	e.Kbuild("--var", looks)
	expect("dlsym", all)
	if why, _ = e.Run("kbuild", "why", "app", "--var", looks); !strings.Contains(why, "calls.cc.o calls dlsym") {
		t.Errorf("why does not tell of dlsym:\n%s", why)
	}
	e.Kbuild("--var", looks, "--var", "strip=true")
	expect("strip_unused", strings.Replace(named, "op_named", "op_nobodys", 1))
}
