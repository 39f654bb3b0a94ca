package discover

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLinkDepfile(t *testing.T) {
	files := []string{"/a b/lib/libcudart_static.a", "main.o", "src/of mine.o", "/usr/lib/libm.so", "$x.o"}
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"GNU ld": {"bin/my app: \\\n  main.o \\\n  src/of mine.o \\\n  /a b/lib/libcudart_static.a \\\n  $x.o\n\nmain.o:\n\n/a b/lib/libcudart_static.a:\n",
			[]string{"main.o", "src/of mine.o", "/a b/lib/libcudart_static.a", "$x.o"}},
		"lld":                  {"bin/app: \\\n  main.o \\\n  src/of\\ mine.o \\\n  $$x.o\n\nmain.o:\n", []string{"main.o", "src/of mine.o", "$x.o"}},
		"mold":                 {"bin/app: main.o /usr/lib/libm.so\n\nmain.o:\n", []string{"main.o", "/usr/lib/libm.so"}},
		"a file that is gone":  {"bin/app: \\\n  main.o \\\n  gone.o\n", []string{"main.o", "gone.o"}},
		"nothing":              {"bin/app:\n", nil},
		"Windows's line feeds": {"bin/app: \\\r\n  main.o\r\n", []string{"main.o"}},
	} {
		got, err := parseLinkDepfile([]byte(tt.text), func(name string) bool { return slices.Contains(files, name) })
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, text := range []string{"", "no rule\n", "bin/app: \\\n  main.o \\"} {
		if got, err := parseLinkDepfile([]byte(text), func(string) bool { return false }); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
