package build

import (
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

func TestTells(t *testing.T) {
	for arg, want := range map[string]bool{
		"-Wl,-M": true, "-Wl,--print-map": true, "-Wl,-t": true, "-Wl,--trace": true, "-Wl,-Map=-": true, "-Wl,-Map,/dev/stdout": true, "-Wl,--cref": true, "@rsp": true,
		"-Wl,-Map=build/app.map": false, "-Wl,-Map,build/app.map": false, "-O2": false, "-lm": false,
	} {
		if got := tells(&graph.Action{Argv: []string{"g++", arg}}); got != want {
			t.Errorf("tells(%s) = %v", arg, got)
		}
	}
}
