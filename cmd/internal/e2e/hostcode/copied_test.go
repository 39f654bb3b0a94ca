package hostcode

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// A source of a copied project names a header of the first one. The copy reads that one, and what
// it takes from the cache does not go by its own header of that name.
func TestCopiedProject(t *testing.T) {
	t.Parallel()
	first := e2e.Bare(t)
	first.Write("kernels.hcl", "executable \"m\" {\n  sources = [\"m.c\"]\n}\n")
	first.Write("m.c", fmt.Sprintf("#include %q\nint main(void) { return VALUE; }\n", filepath.Join(first.Dir, "value.h")))
	first.Write("value.h", "#define VALUE 1\n")
	first.Run("kbuild")
	second := first.In(filepath.Join(filepath.Dir(first.Dir), "copy"))
	if text, err := exec.Command("cp", "-r", first.Dir, second.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := exec.Command("rm", "-r", filepath.Join(second.Dir, "build")).Run(); err != nil {
		t.Fatal(err)
	}
	second.Run("kbuild")
	first.Write("value.h", "#define VALUE 2\n")
	second.Run("kbuild")
	second.Run("sh", "-c", "build/bin/m; [ $? = 2 ]")
	made := second.Read("build/bin/m")
	first.Run("kbuild")
	if !bytes.Equal(made, first.Read("build/bin/m")) {
		t.Error("the two differ")
	}
}
