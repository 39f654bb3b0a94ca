package nvcc

import (
	"slices"
	"testing"
)

// What is written for nvcc is read as it was.
func TestReadList(t *testing.T) {
	for _, value := range []string{"a,b", `"a\"b"`, `\`, `a\\,b`, "$x `y`", "a[1]", "'a b'"} {
		if got := ReadList(defineValue("X="+value), false); !slices.Equal(got, []string{"X=" + value}) {
			t.Errorf("%s is read as %q", value, got)
		}
	}
	for list, want := range map[string][]string{`A=1,B="x,y"`: {"A=1", `B="x,y"`}, "A,": {"A"}, "": nil} {
		if got := ReadList(list, false); !slices.Equal(got, want) {
			t.Errorf("%s is read as %q", list, got)
		}
	}
	if got := ReadList(`"in,c",b`, true); !slices.Equal(got, []string{"in,c", "b"}) {
		t.Errorf("folders are read as %q", got)
	}
}
