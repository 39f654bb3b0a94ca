package hostcode

import (
	"fmt"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// A precompiled header in a folder of -I is in no dependency file, and neither is its header.
func TestPrecompiledSearched(t *testing.T) {
	t.Parallel()
	p := e2e.Bare(t)
	p.Write("kernels.hcl", "executable \"m\" {\n  sources = [\"m.cpp\"]\n  includes = [\"first\", \"inc\"]\n}\n")
	p.Write("m.cpp", "#include <h.h>\nint main() { return VALUE; }\n")

	precompile := func(dir string, value int) string {
		return fmt.Sprintf("echo '#define VALUE %d' >%s/h.h; g++ -O2 -x c++-header %[2]s/h.h -o %[2]s/h.h.gch", value, dir)
	}
	for _, step := range []struct {
		edit string
		want int
	}{
		{precompile("inc", 3), 3},
		{precompile("inc", 4), 4},
		{"rm inc/h.h.gch; echo '#define VALUE 5' >inc/h.h", 5},
		{precompile("inc", 6), 6},
		{"rm -r build", 6},
		{"echo '#define VALUE 7' >first/h.h", 7},
		{"rm first/h.h", 6},
		{precompile("first", 8) + "; rm first/h.h", 8},
	} {
		p.Run("sh", "-c", "mkdir -p inc first; "+step.edit)
		p.Run("kbuild")
		p.Run("sh", "-c", fmt.Sprintf("build/bin/m; [ $? = %d ]", step.want))
	}
}
