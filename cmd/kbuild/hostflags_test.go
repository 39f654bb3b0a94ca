package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// hostFlagsProject is a program of one kernel, with more in its toolchain block or target.
func hostFlagsProject(t *testing.T, toolchain, target string) *e2e.Project {
	return fakeSplit(t, map[string]string{
		"kernels.hcl": toolchain + "executable \"app\" {\n  sources = [\"a.cu\"]\n  code    = [\"sm_80\"]\n  cudart  = \"none\"\n" + target + "}\n",
		"a.cu":        "__global__ void k() {}\nint main() { return 0; }\n",
	})
}

// A link with intermediate code of the host compiler takes the device code from there, so it must
// not be put into the object beside it.
func TestIntermediateHostCode(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles with the real g++")
	}
	t.Parallel()
	const lto = "-flto -ffat-lto-objects"
	for name, c := range map[string]struct {
		toolchain, target string
		env               []string
		learned           bool // only when it was built
	}{
		"machine code":            {},
		"flags.host":              {target: "  flags = { host = [\"-flto\", \"-ffat-lto-objects\"] }\n"},
		"flags.nvcc":              {target: "  flags = { nvcc = [\"-Xcompiler\", \"-flto\", \"-Xcompiler\", \"-ffat-lto-objects\"] }\n"},
		"environment":             {env: []string{"NVCC_APPEND_FLAGS=-Xcompiler -flto -Xcompiler -ffat-lto-objects"}},
		"specs":                   {target: "  flags = { host = [\"-specs=./lto.specs\"] }\n"},
		"a file":                  {target: "  flags = { host = [\"@lto.txt\"] }\n"},
		"a compiler that adds it": {toolchain: "toolchain \"cuda\" {\n  host_compiler = \"./cxx\"\n}\n", learned: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := hostFlagsProject(t, c.toolchain, c.target)
			e.Env = append(e.Env, c.env...)
			script := "#!/bin/sh\nfor a; do case $a in -c) exec g++ " + lto + " \"$@\";; esac; done\nexec g++ \"$@\"\n"
			if err := os.WriteFile(filepath.Join(e.Dir, "cxx"), []byte(script), 0o777); err != nil {
				t.Fatal(err)
			}
			e.Write("lto.specs", "*cc1_options:\n+ "+lto+"\n")
			e.Write("lto.txt", lto)
			_, printed := e.Run("kbuild", "--progress", "plain")
			if !bytes.Contains(e.Read("build/bin/app"), []byte("CUBIN sm_80")) {
				t.Errorf("the program holds no device code\n%s", printed)
			}
			if strings.Contains(printed, "misparsed") != c.learned {
				t.Errorf("found when it was built: want %v\n%s", c.learned, printed)
			}
		})
	}
}
