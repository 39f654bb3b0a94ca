package fatbin

import (
	"bytes"
	"strings"
	"testing"
)

// What clang-linker-wrapper is asked about is well-formed, and its words are those of the real
// packager.
func TestEmptyOffload(t *testing.T) {
	b := EmptyOffload([]string{"gfx906", "gfx90a:xnack-"})
	if images, err := readOffloading(b); err != nil || images != nil {
		t.Fatalf("%v %v", images, err)
	}
	for _, arch := range []string{"gfx906", "gfx90a:xnack-"} {
		one := EmptyOffload([]string{arch})
		if len(one)%8 != 0 {
			t.Errorf("%d bytes", len(one))
		}
		binary := offloadBinary{one, 1}
		words, err := binary.strings(offloadHeadSize+offloadEntrySize, 2)
		if err != nil || words["arch"] != arch || words["triple"] != "amdgcn-amd-amdhsa" || len(words) != 2 {
			t.Errorf("%s: %q %v", arch, words, err)
		}
		b = bytes.TrimPrefix(b, one)
	}
	if len(b) != 0 {
		t.Errorf("%d bytes more", len(b))
	}
}

// An object says what it calls linked device code: of clang 15 all the same, of clang 19 each
// something of its own.
func TestWantedFatbins(t *testing.T) {
	for name, want := range map[string]string{"hiprdc15.o": "__hip_fatbin", "hiprdc19.o": "__hip_fatbin_8223b9a03842cac4", "hipwhole19.o": ""} {
		data := testdata(t, name)
		f, err := Read(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.Members[0].Fatbins, " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
