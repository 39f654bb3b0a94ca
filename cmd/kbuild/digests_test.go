package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/cache/tree"
)

// Digests are kept where a build leaves no view: the next one hashes large files no more. A source
// that asks for a file whose name nobody can tell is compiled each time.
func TestDigestsWithoutView(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kernels.hcl"), "executable \"app\" {\n  sources = [\"a.cpp\"]\n}\n")
	write(t, filepath.Join(dir, "a.cpp"), "#define N(a, b) <a##b.h>\n#if __has_include(N(no, ne))\n#endif\nint a;\n")
	var out bytes.Buffer
	for range 2 {
		if status := Main([]string{"-C", dir, "--no-cache"}, &out, &out); status != 0 {
			t.Fatalf("status %d:\n%s", status, &out)
		}
	}
	db, err := tree.Open(filepath.Join(dir, "build/.kbuild/tree.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, ok := db.Known("a.cpp"); !ok {
		t.Errorf("the source is not known:\n%s", &out)
	}
}
