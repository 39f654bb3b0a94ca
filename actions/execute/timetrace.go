package execute

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// takeTimeTraces moves the time traces of clang's passes to the last outputs of a: one for the host
// and one for each architecture. clang writes the host trace beside the object, if it writes the
// object. It writes the others among its temporary files, under random names. No option sets these
// paths, so another version of clang may use other ones. A missing trace does not fail the compile:
// its output is an empty trace.
func (t *buildTree) takeTimeTraces(a *graph.Action, dir scratch) error {
	last := a.Outputs[len(a.Outputs)-1]
	if slices.Contains(a.Tools, "nvcc") || len(a.Archs) == 0 || !toolchain.IsTimeTrace(a, last) {
		return nil
	}
	patterns := []string{"*.json"}
	for _, arch := range a.Archs {
		patterns = append(patterns, "*/*-"+arch+".json")
	}
	for i, output := range a.Outputs[len(a.Outputs)-len(patterns):] {
		file := t.abs(output)
		if _, err := os.Lstat(file); err == nil {
			continue
		}
		text := []byte(`{"traceEvents":[]}`)
		left, _ := fs.Glob(os.DirFS(dir.tmp), patterns[i])
		if len(left) > 0 {
			var err error
			if text, err = regular.Read(filepath.Join(dir.tmp, left[0])); err != nil {
				return err
			}
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
		t.written(output)
	}
	return nil
}
