package toolchain

import "testing"

func TestLibraryPath(t *testing.T) {
	for list, want := range map[string]string{
		"":                              "",
		":":                             "",
		"/cuda/bin/../lib:":             "/cuda/bin/../lib",
		":/a::/b;/c;:":                  "/a:/b:/c",
		"lib:./lib:/a:..":               "/a",
		"/a:$ORIGIN/../lib:/opt/${LIB}": "/a",
	} {
		if got := LibraryPath(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
