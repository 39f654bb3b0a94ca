package execute

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// CopyPart writes the output of a part that the last run settled to the file name: from the cache, or by running the part
// again if no cache has it.
func (r *Runner) CopyPart(ctx context.Context, output, name string) error {
	if _, ok := r.partDigest(output); !ok {
		return fmt.Errorf("%s was not built", output)
	}
	if err := r.put(ctx, output); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	tmp := name + ".new"
	if err := copyFile(r.abs(output), tmp); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}
