package host

import (
	"slices"
	"strings"
	"testing"
)

func TestAskSearch(t *testing.T) {
	for _, c := range []struct{ argv, source, want string }{
		{"g++ -c -std=c++17 -DX=1 -I inc -Bdir -MD -MF a.d -frandom-seed=a -o a.o a.cpp", "a.cpp", "g++ -std=c++17 -I inc -Bdir -E -v -x c++ /dev/null"},
		{"gcc -c a.c -include cfg.h -iquote q -o a.o", "a.c", "gcc -iquote q -E -v -x c /dev/null"},
		{"clang++ -E -x cuda -D X -U Y a.cu", "a.cu", "clang++ -E -v -x cuda /dev/null"},
		{"clang++ -Xclang -cuid=1 -E -Xclang -dependency-file -Xclang a.d -Xclang -MT -Xclang text -Xclang -sys-header-deps -x hip a.hip", "a.hip",
			"clang++ -Xclang -sys-header-deps -E -v -x hip /dev/null"},
		{"clang++ -Xclang -fcuda-include-gpubinary -Xclang F -Xclang -fembed-offload-object=F -c -o a.o -x hip a.hip", "a.hip",
			"clang++ -E -v -x hip /dev/null"},
		{"clang++ -ftime-trace -Xarch_host -ftime-trace -Xarch_host -DX -Xarch_device -Iinc -c -o a.o -x hip a.hip", "a.hip",
			"clang++ -Xarch_device -Iinc -E -v -x hip /dev/null"},
	} {
		if got := strings.Join(AskSearch(strings.Fields(c.argv), []string{c.source}, ""), " "); got != c.want {
			t.Errorf("%s\n is asked %s\n    want %s", c.argv, got, c.want)
		}
	}
}

func TestParseSearch(t *testing.T) {
	const text = `ignoring nonexistent directory "/usr/local/include/x86_64-linux-gnu"
#include "..." search starts here:
 quoted dir
#include <...> search starts here:
 inc
 /usr/include
End of search list.
`
	s, ok := ParseSearch("g++ (Debian) 12\n" + text + strings.ReplaceAll(text, " inc", " other"))
	if want := []string{"quoted dir", "inc", "/usr/include", "other"}; !ok || !slices.Equal(s.Dirs, want) {
		t.Errorf("%v, %q, want %q", ok, s.Dirs, want)
	}
	if want := []string{"/usr/local/include/x86_64-linux-gnu"}; !slices.Equal(s.Missing, want) {
		t.Errorf("missing %q, want %q", s.Missing, want)
	}
	for _, bad := range []string{"", "g++: error: unrecognized option\n", strings.TrimSuffix(text, "End of search list.\n")} {
		if s, ok := ParseSearch(bad); ok {
			t.Errorf("%+v is an answer: %+v", bad, s)
		}
	}
}

// A compile that has words for the linker runs the programs of its installation.
func TestRedirectsCompile(t *testing.T) {
	for command, want := range map[string]bool{
		"gcc -c a.c": false, "gcc -Wl,-Bsymbolic -c a.c": false,
		"gcc -B/opt/bin -c a.c": true, "gcc -B /opt/bin -c a.c": true, "gcc @args": true, "nvcc -Xcompiler=-Wall,-B/opt/bin -c a.cu": true,
	} {
		if got := RedirectsCompile(strings.Fields(command)); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
	if !Redirects([]string{"gcc", "-Wl,-Bsymbolic", "a.o"}) {
		t.Error("of a link nothing is known")
	}
}
