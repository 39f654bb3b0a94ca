package fatbin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// TestVersions reads what made the code that is still to be linked. Nothing is told of final code,
// which no linker reads again.
func TestVersions(t *testing.T) {
	for name, want := range map[string]string{
		"mixed.o":        "SASS 11.8, PTX 7.8, LTO-IR 1.54 with NVVM IR 2.48",
		"bare.ltoir":     "LTO-IR 1.54 with NVVM IR 2.48",
		"concat.fatbin":  "SASS 13.5, PTX 9.5",
		"concat.o":       "SASS 13.5",
		"lz4.fatbin":     "SASS 13.5, PTX 9.5, LTO-IR 1.67", // it is scrambled
		"none.fatbin":    "SASS 13.5, LTO-IR 1.67 with NVVM IR 2.131",
		"specific.ltoir": "LTO-IR 1.67 with NVVM IR 2.131",
		"whole.o":        "",
		"hiprdc15.o":     "",
	} {
		f, err := ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, kind := range []gencode.Kind{gencode.SASS, gencode.PTX, gencode.LTO} {
			if v, ok := f.Members[0].Versions[kind]; ok {
				got += fmt.Sprintf(", %s %s", kind, v)
			}
		}
		if diff := cmp.Diff(want, got[min(2, len(got)):]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestVersionOfNothing(t *testing.T) {
	ltoir, err := os.ReadFile("testdata/bare.ltoir")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"", "\x7fELF", string(ltoir[:7])} {
		for _, kind := range []gencode.Kind{gencode.SASS, gencode.PTX, gencode.LTO, gencode.GFX} {
			if v := VersionOf(kind, []byte(code)); v != (gencode.Version{}) {
				t.Errorf("%s of %q: %v", kind, code, v)
			}
		}
	}
}
