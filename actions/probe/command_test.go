package probe

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// A script that does more than start another program may ask for any variable.
func TestOnlyStarts(t *testing.T) {
	for text, want := range map[string]bool{
		"#!/bin/sh\n\nexec /usr/lib/nvidia-cuda-toolkit/bin/nvcc \"$@\"\n": true,
		"#!/bin/sh\n# exec $X\n  exec /nvcc \"$@\"":                        true,
		"#!/bin/sh\nexec $HOME/nvcc \"$@\"\n":                              false,
		"#!/bin/sh\nexec /nvcc -O3 \"$@\"\n":                               false,
		"#!/bin/sh\nexec /nvcc $@\n":                                       false,
		"#!/bin/sh\nexec /nvcc \"$@\"; x\n":                                false,
		"#!/bin/sh\nX=1\nexec /nvcc \"$@\"\n":                              false,
		"#!/bin/sh\nexec nvcc \"$@\"\n":                                    false,
	} {
		file := filepath.Join(t.TempDir(), "nvcc")
		if err := os.WriteFile(file, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
		f, _ := newFinder(t.Context(), Request{Env: env(nil)})
		if _, got, err := new(nvcc.Toolchain).Launched(f, file, "/"); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
