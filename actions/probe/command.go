package probe

import (
	"context"
	"fmt"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// ForCommand makes r a request for what the command c needs, which runs in dir. absent are paths
// that must stay absent. The error is the reason why the command passes through to its compiler: a
// script or a variable may have the compiler do anything.
func (r *Request) ForCommand(c *host.Command, dir string) (absent []string, err error) {
	f, _ := newFinder(context.Background(), *r)
	for _, name := range run.Names(run.Launched | run.PassOptions | run.NVCCOptions) {
		f.Env[name] = r.Env(name)
	}
	absent, known, err := r.Launched(f, c, dir)
	if err == nil && !known && IsScript(c.Argv[0]) {
		err = fmt.Errorf("%s is a script, which may ask for any variable", c.Argv[0])
	}
	return absent, err
}
