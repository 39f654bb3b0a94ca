package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/graph"
)

// CopyPart writes the output of a part that the last run settled to the file name: from the cache, or by running the part
// again if no cache has it.
func (r *Runner) CopyPart(ctx context.Context, a *graph.Action, output, name string) error {
	r.parts.mu.Lock()
	o, ok := r.parts.outputs[output]
	r.parts.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s was not built", output)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	tmp := name + ".new"
	os.Remove(tmp)
	if r.Keep == nil || r.Keep.Restore(ctx, o, tmp) != nil {
		os.Remove(tmp)
		if err := r.put(ctx, output); err != nil {
			return err
		}
		if err := copyFile(r.abs(output), tmp); err != nil {
			return err
		}
	}
	return os.Rename(tmp, name)
}
