package discover

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

func TestTellsUser(t *testing.T) {
	for arg, want := range map[string]bool{
		"-Wl,-M": true, "-Wl,--print-map": true, "-Wl,-t": true, "-Wl,--trace": true, "-Wl,-Map=-": true, "-Wl,-Map,/dev/stdout": true, "-Wl,--cref": true, "@rsp": true,
		"-Wl,-Map=build/app.map": false, "-Wl,-Map,build/app.map": false, "-O2": false, "-lm": false,
		"build/dev/bin/app": false, "build/obj/src/print.cu.o": false, "-Ltrace/stats": false, "-lprint": false, "-Wl,-trace-symbol=f": true,
	} {
		if got := TellsUser(&graph.Action{Argv: []string{"g++", arg}}); got != want {
			t.Errorf("TellsUser(%s) = %v", arg, got)
		}
	}
}

// libgcc_s.so of gcc is a script, and names a library without a folder: the linker looks for it
// where it runs, and in all folders.
func TestAbsentInScripts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("second/libgcc_s.so", "/* GNU ld script */\nGROUP ( libgcc_s.so.1 -lgcc )\n")
	write("second/libelf.so", "\x7fELF\x00GROUP ( other.so )")
	write("first/other", "")
	write("third/libgcc_s.so.1", "")
	write("third/libgcc.a", "")
	d := New(Config{Tree: Tree{Root: dir, Listing: cache.NewListing(dir)}})
	rec := &cache.Record{Discovered: []cache.FileDigest{{Path: "second/libgcc_s.so"}, {Path: "second/libelf.so"}}}
	got := d.drivers.absentInScripts([]string{"ld", "-Lfirst", "-Lsecond", "-Lthird"}, rec)
	slices.Sort(got)
	want := []string{"first/libgcc.a", "first/libgcc.so", "first/libgcc_s.so.1", "libgcc_s.so.1", "second/libgcc.a", "second/libgcc.so",
		"second/libgcc_s.so.1", "third/libgcc.so"}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("missing %q\nwant %q", got, want)
	}
}
