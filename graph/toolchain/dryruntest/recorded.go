// Package dryruntest helps to test parsers of dry runs against recorded output. It runs no
// compiler.
package dryruntest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

var update = flag.Bool("update", false, "rewrite the wanted passes")

// Recorded compares what learned returns for each recording in testdata with the .want file beside
// it.
func Recorded(t *testing.T, learned func(t *testing.T, file string) string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			got := learned(t, file)
			want := strings.TrimSuffix(file, ".txt") + ".want"
			if *update {
				os.WriteFile(want, []byte(got), 0o666)
			}
			golden, _ := os.ReadFile(want)
			if string(golden) != got {
				t.Errorf("got:\n%s\nwant (-update rewrites):\n%s", got, golden)
			}
		})
	}
}

// Read returns a recording of clang or hipcc: the query from the first line, where tabs separate
// the arguments, its architectures, and the output.
func Read(t *testing.T, file string) (asked []string, codes []gencode.Code, text string) {
	t.Helper()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, text, _ := strings.Cut(strings.TrimPrefix(string(whole), "asked: "), "\n")
	asked = strings.Split(strings.TrimRight(first, "\t"), "\t")
	for _, a := range asked {
		if name, ok := strings.CutPrefix(a, "--offload-arch="); ok {
			c, _ := gencode.Parse(name)
			codes = append(codes, c)
		}
	}
	return asked, codes, text
}
