package graph

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Names that fit stay, others fit, differ where the names do, and end as they did.
func TestShortName(t *testing.T) {
	long := strings.Repeat("ü", 120)
	seen := map[string]string{}
	for _, tt := range []struct{ name, ending string }{
		{"a.cu.o", "a.cu.o"}, {strings.Repeat("a", 224), "a"}, {strings.Repeat("a", 225), ""}, {long + ".cu.o", ".cu.o"}, {"x" + long + ".cu.o", ".cu.o"},
		{long + "x.cu.o", ".cu.o"}, {strings.Repeat("a.b", 100), ""}, {long + ".a very long ending of a name", ""},
	} {
		short := ShortName(tt.name, 224)
		if len(short) > 224 || len(tt.name) <= 224 && short != tt.name || !strings.HasSuffix(short, tt.ending) || !utf8.ValidString(short) || seen[short] != "" {
			t.Errorf("%q: %q, which is that of %q", tt.name, short, seen[short])
		}
		seen[short] = tt.name
	}
}
