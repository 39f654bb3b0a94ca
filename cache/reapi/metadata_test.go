package reapi

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// A server can tell which calls are of one build.
func TestOfOneBuild(t *testing.T) {
	var names []string
	for range 2 {
		f := &fake{message: 1 << 20}
		c := f.serve(t, 4<<20)
		r := record("one", "", bytes.Repeat([]byte("large"), 1<<20))
		if _, err := c.Store(t.Context(), r, opener(bytes.Repeat([]byte("large"), 1<<20))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Fetch(t.Context(), r.Outputs[0], t.TempDir(), io.Discard); err != nil {
			t.Fatal(err)
		}
		name := f.builds[0]
		if len(f.builds) < 5 || !strings.HasPrefix(name, "kbuild ") || slices.ContainsFunc(f.builds, func(b string) bool { return b != name }) {
			t.Errorf("the calls of one build are of %q", f.builds)
		}
		names = append(names, name)
	}
	if names[0] == names[1] {
		t.Errorf("two builds are called %q", names[0])
	}
}
