package main

import (
	"bytes"
	"testing"
)

// Debug information names the file that the host compiler was given, which lies in the build tree
// while it runs: such host code is not another tree's, nor another target's.
func TestDebugOfAnotherTree(t *testing.T) {
	e := fakeSplit(t, map[string]string{
		"kernels.hcl": "executable \"app\" {\n  sources = [\"a.cu\"]\n  code    = [\"sm_80\"]\n  flags   = { host = [\"-g\"] }\n}\n",
		"a.cu":        "int main() { return 0; }\n",
	})
	const object = "build/obj/executable.app/a.cu.o"
	e.Run("kbuild", "-q", "--no-cache")
	clean := e.Read(object)
	if !bytes.Contains(clean, []byte("build/.kbuild/tmp/")) {
		t.Fatal("the object names no temporary file")
	}
	e.Run("rm", "-rf", "build")
	e.Run("kbuild", "-q", "--build-dir", "out")
	e.Run("kbuild", "-q")
	if !bytes.Equal(e.Read(object), clean) {
		t.Error("an object of another build tree was taken from the cache")
	}
}
