package gencode

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, s := range []string{"sm_80", "sm_90a", "compute_75", "lto_80", "lto_90a", "sm_100f", "sm_120", "gfx90a", "gfx942:sramecc+:xnack-", "gfx9-generic", "gfx9-4-generic:sramecc+:xnack-", "gfx10-3-generic", "gfx11-generic", "amdgcnspirv", "native", "all", "all-major"} {
		c, err := Parse(s)
		if err != nil || c.String() != s {
			t.Errorf("Parse(%q) = %v, %v", s, c, err)
		}
	}
	for _, s := range []string{"", "80", "sm_", "sm80", "sm_8", "sm_080", "sm_80b", "SM_80", "compute_80 ", "gfx", "gfx90a:xnack", "gfx-generic", "gfx9-4", "gfx11-generics", "gfx0-generic", "amdgcnspirv:xnack-", "spirv", "lto_1000", "all_major"} {
		if c, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, c)
		}
	}
}

// A toolchain makes the code of each name; of bitcode, the name tells which.
func TestLanguage(t *testing.T) {
	for _, c := range append(parse(t, "gfx90a", "gfx11-generic", "amdgcnspirv"),
		Code{Kind: Bitcode, Name: "gfx90a"}, Code{Kind: Bitcode}, Code{Kind: SPIRV, Name: SPIRVTarget}) {
		if c.Language() != "hip" {
			t.Errorf("%v (%v) is code of %s", c, c.Kind, c.Language())
		}
	}
	for _, c := range append(parse(t, "sm_80", "compute_80", "lto_80", "native", "all"), Code{Kind: Bitcode, Name: "sm_80"}) {
		if c.Language() != "cuda" {
			t.Errorf("%v (%v) is code of %s", c, c.Kind, c.Language())
		}
	}
}

func TestCompare(t *testing.T) {
	got := parse(t, "gfx90a", "sm_100", "native", "compute_80", "sm_90a", "sm_80", "lto_80", "sm_90")
	slices.SortFunc(got, Compare)
	want := parse(t, "sm_80", "compute_80", "lto_80", "sm_90", "sm_90a", "sm_100", "gfx90a", "native")
	for i := range want {
		if got[i] != want[i] && want[i].Num != 0 {
			t.Errorf("%d: %v, want %v", i, got[i], want[i])
		}
	}
}

// The order of AMD's is that of clang: of the images in a bundle, whatever was asked for.
func TestCompareAMD(t *testing.T) {
	got := parse(t, "gfx9-4-generic", "gfx90a", "gfx906", "gfx11-generic", "amdgcnspirv", "gfx1030", "gfx90a:xnack+")
	slices.SortFunc(got, Compare)
	var names []string
	for _, c := range got {
		names = append(names, c.String())
	}
	if want := "amdgcnspirv gfx1030 gfx11-generic gfx9-4-generic gfx906 gfx90a gfx90a:xnack+"; strings.Join(names, " ") != want {
		t.Errorf("%s, want %s", strings.Join(names, " "), want)
	}
}

func parse(t *testing.T, names ...string) []Code {
	var out []Code
	for _, n := range names {
		c, err := Parse(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// The rows are what nvlink 11.8, 12.4 and 13.5 accepted.
func TestLinksInto(t *testing.T) {
	tests := []struct {
		image, target string
		lto, want     bool
	}{
		{"sm_80", "sm_80", false, true},
		{"sm_80", "sm_86", false, true},
		{"sm_86", "sm_80", false, false},
		{"sm_75", "sm_80", false, false},
		{"compute_80", "sm_80", false, true},
		{"compute_70", "sm_90", true, true},
		{"compute_90", "sm_80", false, false},
		{"lto_80", "sm_80", true, true},
		{"lto_70", "sm_80", true, true},
		{"lto_90", "sm_80", true, false},
		{"lto_80", "sm_80", false, false},
		{"sm_90a", "sm_90a", false, true},
		{"sm_90a", "sm_90", false, false},
		{"sm_90", "sm_90a", false, true},
	}
	for _, tt := range tests {
		i, _ := Parse(tt.image)
		c, _ := Parse(tt.target)
		if got := LinksInto(Image{Kind: i.Kind, Num: i.Num, Suffix: i.Suffix}, c, tt.lto); got != tt.want {
			t.Errorf("%s into %s (lto %v): %v, want %v", tt.image, tt.target, tt.lto, got, tt.want)
		}
	}
}

// TestLinksIntoAsNVLink13 holds every pair of names against what nvlink 13.5 did.
func TestLinksIntoAsNVLink13(t *testing.T) {
	table, err := os.ReadFile("testdata/links.txt")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string // in the order of the rows of machine code
	accepted := map[string][]string{}
	for line := range strings.Lines(string(table)) {
		image, into, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		accepted[image] = strings.Fields(into)
		if name, ok := strings.CutPrefix(image, "sm_"); ok {
			targets = append(targets, name)
		}
	}
	if len(targets) != 26 || len(accepted) != 3*26 {
		t.Fatalf("%d targets and %d images, want 26 of each kind", len(targets), len(accepted))
	}
	for image, into := range accepted {
		img := Image(parse(t, image)[0])
		for _, name := range targets {
			target, want := parse(t, "sm_"+name)[0], slices.Contains(into, name)
			if got := LinksInto(img, target, img.Kind == LTO); got != want {
				t.Errorf("%s into %s: %v, want %v", image, target, got, want)
			}
		}
	}
}

// Half of a version is known of scrambled LTO-IR: it is newer if its container is.
func TestNewer(t *testing.T) {
	own := Version{1, 65, 2, 98}
	for _, tt := range []struct {
		of   Version
		want bool
	}{{own, false}, {Version{1, 65}, false}, {Version{1, 67}, true}, {Version{1, 65, 2, 107}, true}, {Version{1, 54, 2, 48}, false}, {Version{}, false}} {
		if got := tt.of.Newer(own); got != tt.want {
			t.Errorf("%s is newer than %s: %t", tt.of, own, got)
		}
	}
}

func TestImages(t *testing.T) {
	images := []Image{{Kind: SASS, Num: 90, Suffix: "a"}, {Kind: LTO, Num: 80}, {Kind: GFX, Name: "gfx906"},
		{Kind: Bitcode, Name: "gfx90a", Feature: ":xnack-"}, {Kind: Bitcode}}
	if got, want := Spell(images), "sm_90a, lto_80, gfx906 code object, gfx90a:xnack- bitcode, bitcode"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := Spell(nil); got != "no device code" {
		t.Error(got)
	}
	for _, i := range images[:3] {
		if c, err := Parse(i.Code().String()); err != nil || c != i.Code() {
			t.Errorf("%v parses as %v, %v", i, c, err)
		}
	}
}

// The rows are those of LLVM's documentation: a feature that the code was compiled without a word
// on is "any", and is loaded by a process with either setting; "on" and "off" must match.
func TestCovers(t *testing.T) {
	tests := []struct {
		have, want string
		covers     bool
	}{
		{"gfx90a", "gfx90a", true},
		{"gfx90a", "gfx90a:xnack-", true},
		{"gfx90a", "gfx90a:xnack+", true},
		{"gfx90a", "gfx90a:sramecc+:xnack-", true},
		{"gfx90a:xnack-", "gfx90a:xnack-", true},
		{"gfx90a:xnack-", "gfx90a:xnack+", false},
		{"gfx90a:xnack-", "gfx90a", false},
		{"gfx90a:xnack-", "gfx90a:sramecc+:xnack-", true},
		{"gfx90a:sramecc+", "gfx90a:xnack-", false},
		{"gfx90a:sramecc+:xnack-", "gfx90a:xnack-", false},
		{"gfx90a:xnack-:sramecc+", "gfx90a:sramecc+:xnack-", true},
		{"gfx906", "gfx90a", false},
		{"gfx906:xnack-", "gfx908:xnack-", false},
		{"sm_80", "sm_80", false},
		{"native", "native", false},
		{"sm_80", "gfx906", false},
		{"gfx906", "sm_80", false},
		{"gfx9-generic", "gfx906", true},
		{"gfx9-generic:xnack-", "gfx906:xnack-", true},
		{"gfx9-generic:xnack-", "gfx906", false},
		{"gfx9-generic", "gfx908", false},
		{"gfx9-generic", "gfx90c", true},
		{"gfx9-4-generic", "gfx942", true},
		{"gfx9-4-generic", "gfx950:sramecc+:xnack-", true},
		{"gfx9-4-generic", "gfx90a", false},
		{"gfx10-1-generic", "gfx1013", true},
		{"gfx10-1-generic", "gfx1030", false},
		{"gfx10-3-generic", "gfx1036", true},
		{"gfx11-generic", "gfx1100", true},
		{"gfx11-generic", "gfx1153", true},
		{"gfx11-generic", "gfx1200", false},
		{"gfx11-generic", "gfx11-generic", true},
		{"gfx12-generic", "gfx1201", true},
		{"gfx12-generic", "gfx1250", false},
		{"gfx12-5-generic", "gfx1250", true},
		{"gfx1100", "gfx11-generic", false},
		{"amdgcnspirv", "gfx906:xnack-", true},
		{"amdgcnspirv", "gfx11-generic", true},
		{"amdgcnspirv", "amdgcnspirv", true},
		{"amdgcnspirv", "sm_80", false},
		{"gfx906", "amdgcnspirv", false},
	}
	for _, tt := range tests {
		codes := parse(t, tt.have, tt.want)
		if got := Covers(codes[0], codes[1]); got != tt.covers {
			t.Errorf("Covers(%s, %s) = %t", tt.have, tt.want, got)
		}
	}
	spirv := Image{Kind: Bitcode, Name: SPIRVTarget}.Code()
	if Covers(spirv, parse(t, "gfx90a")[0]) || !Covers(spirv, parse(t, SPIRVTarget)[0]) {
		t.Error("bitcode that becomes SPIR-V links for SPIR-V alone")
	}
	bitcode := Image{Kind: Bitcode, Name: "gfx90a"}.Code()
	if !Covers(bitcode, parse(t, "gfx90a:xnack-")[0]) {
		t.Error("bitcode is not held to the same rules")
	}
}

func TestSameTarget(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"gfx90a", "gfx90a", true},
		{"gfx90a:sramecc+:xnack-", "gfx90a:xnack-:sramecc+", true},
		{"gfx90a", "gfx90a:xnack-", false},
		{"gfx11-generic", "gfx1100", false},
		{"amdgcnspirv", "gfx906", false},
		{"sm_80", "sm_80", false},
	} {
		codes := parse(t, tt.a, tt.b)
		if SameTarget(codes[0], codes[1]) != tt.same || SameTarget(codes[1], codes[0].As(Bitcode)) != tt.same && tt.same {
			t.Errorf("%s and %s: want %t", tt.a, tt.b, tt.same)
		}
	}
}
