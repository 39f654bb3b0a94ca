package gencode

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for _, s := range []string{"sm_80", "sm_90a", "compute_75", "lto_80", "lto_90a", "sm_100f", "sm_120", "gfx90a", "gfx942:sramecc+:xnack-", "native", "all", "all-major"} {
		c, err := Parse(s)
		if err != nil || c.String() != s {
			t.Errorf("Parse(%q) = %v, %v", s, c, err)
		}
	}
	for _, s := range []string{"", "80", "sm_", "sm80", "sm_8", "sm_080", "sm_80b", "SM_80", "compute_80 ", "gfx", "gfx90a:xnack", "lto_1000", "all_major"} {
		if c, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, c)
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

// The table is what nvlink 11.8 and 12.4 accepted.
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
