package nvcc

import (
	"slices"
	"strings"
	"testing"
)

func TestOfHost(t *testing.T) {
	got := HostOptions(strings.Fields(`-O2 -Xcompiler=-a,-b -Xcompiler -Wl\,x,-c --compiler-options=-d --compiler-options -e -lineinfo -Xptxas=-v`))
	if want := []string{"-a", "-b", "-Wl,x", "-c", "-d", "-e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
