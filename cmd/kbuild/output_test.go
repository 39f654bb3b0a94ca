package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
)

// evil sets the title of a terminal and clears it, also by the control characters above 0x80, and
// begins a line of its own.
const evil = "x\x1b]0;title\x07\x1b[2J\u009b2J\r\nkbuild: ok"

// printed runs kbuild and gives all that it says, of which a terminal must not obey anything.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	status := Main(args, &out, &errs)
	text := out.String() + errs.String()
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			t.Errorf("%v: status %d, %q", args, status, text)
			break
		}
	}
	if strings.Contains(text, "\nkbuild: ok") {
		t.Errorf("%v: a name is a line:\n%s", args, text)
	}
	return text
}

// Names in bundles, archives and manifests cannot speak to the terminal.
func TestForeignNames(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KBUILD_CACHE_DIR", filepath.Join(dir, "cache"))
	t.Setenv("MAKEFLAGS", "")
	store, err := disk.Open(filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	m := disk.Manifest{Targets: []string{evil}, Archs: []string{evil}, Fingerprint: []cache.Field{{Name: evil, Value: evil}}}
	for _, name := range []string{"key version", "platform", "environment"} {
		m.Fingerprint = append(m.Fingerprint, cache.Field{Name: name, Value: evil})
	}
	var bundle bytes.Buffer
	if _, err := store.Export(context.Background(), &bundle, m); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "b.kbundle")
	writeTestFile(t, name, bundle.String())
	if text := printed(t, "-C", dir, "-n", "cache", "import", name); !strings.Contains(text, `x\x1b]0;title\x07`) {
		t.Errorf("the names are not shown:\n%s", text)
	}
	writeTestFile(t, filepath.Join(dir, "kernels.hcl"), "library \"a\" {\n  sources = [\"a.cpp\"]\n}\n")
	writeTestFile(t, filepath.Join(dir, "a.cpp"), "int a;\n")
	printed(t, "-C", dir, "cache", "import", name)
	printed(t, "-C", dir, "cache", "import", "--force", name)

	archive := filepath.Join(dir, "lib.a")
	object, err := os.ReadFile("../../actions/fatbin/testdata/hiphost15.o")
	if err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, archive, "!<arch>\n"+fmt.Sprintf("%-16s%-12d%-6d%-6d%-8o%-10d`\n", "a\x1b[2J\x07.o/", 0, 0, 0, 0o644, len(object))+string(object))
	if text := printed(t, "inspect", archive); !strings.Contains(text, `a\x1b[2J\x07.o`) {
		t.Errorf("the member is not shown:\n%s", text)
	}

	source := "a\x1b[2J.cpp"
	writeTestFile(t, filepath.Join(dir, source), "int a;\n")
	writeTestFile(t, filepath.Join(dir, "kernels.hcl"), "library \"a\" {\n  sources = glob(\"a?[[]2J.cpp\")\n  defines = { \"\x1b[2J\" = 1 }\n}\n")
	printed(t, "-C", dir, "plan")
	printed(t, "-C", dir, "no\x1b[2Jtarget")
	printed(t, "--no\x1b[2Joption")
	writeTestFile(t, filepath.Join(dir, "kernels.hcl"), "library \"a\" {\n  sources = glob(\"a?[[]2J.cpp\")\n}\n")
	for _, command := range []string{"plan", "graph", "why", "build", "-v"} {
		printed(t, "-C", dir, "--no-cache", command)
	}
	printed(t, "-C", dir, "fmt", "no\x1b[2Jfile")
	printed(t, "inspect", filepath.Join(dir, source))
	printed(t, "-C", dir+"/no\x1b[2Jfolder")
}
