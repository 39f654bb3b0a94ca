package host

import (
	"slices"
	"testing"
)

// clang is told its linker by a path only where it would find another; -fuse-ld=lld then still says
// of what kind it is.
func TestHostLTOLink(t *testing.T) {
	for ld, want := range map[string][]string{
		"":                            {"-O2", "-flto=thin", "-fuse-ld=lld", "-Wl,--thinlto-jobs=1"},
		"/usr/lib/llvm-15/bin/ld.lld": {"-O2", "-flto=thin", "-fuse-ld=lld", "--ld-path=/usr/lib/llvm-15/bin/ld.lld", "-Wl,--thinlto-jobs=1"},
	} {
		if got := (LTO{Family: "clang", Kind: "thin", LD: ld}).Link("2", false); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", ld, got, want)
		}
	}
}
