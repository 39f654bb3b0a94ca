package scaffold

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestManifest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"src/main.cu":        "int main() { return 0; }\n",
		"src/a.cu":           "extern __device__ int x;\n",
		"include/a.h":        "",
		"build/old.cu":       "int main() {}\n",
		"third_party/lib.cc": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Programs, []string{"src/main.cu"}) || !slices.Equal(s.Others, []string{"src/a.cu"}) {
		t.Errorf("found %q and %q", s.Programs, s.Others)
	}
	text := Manifest(s)
	for _, want := range []string{`executable "main"`, `var.lto ? "lto" : "rdc"`, `includes = ["include"]`, "deps    = [library.common]"} {
		if !strings.Contains(text, want) {
			t.Errorf("without %s:\n%s", want, text)
		}
	}
}
