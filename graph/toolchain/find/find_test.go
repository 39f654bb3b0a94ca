package find

import (
	"strings"
	"testing"
)

func TestNewestFirst(t *testing.T) {
	got := NewestFirst([]string{"rocm-6.3.0", "rocm-7.0.2", "rocm-6.10.1", "rocm-5.7", "rocm-old"})
	if want := "rocm-7.0.2 rocm-6.10.1 rocm-6.3.0 rocm-5.7 rocm-old"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}
