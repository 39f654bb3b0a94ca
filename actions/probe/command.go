package probe

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// ForCommand makes r a request for what the command c needs, which runs in dir. absent are paths
// that must stay absent. The error is the reason why the command passes through to its compiler: a
// script or a variable may have the compiler do anything.
func (r *Request) ForCommand(c *host.Command, dir string) (absent []string, err error) {
	compiler := c.Argv[0]
	known := false
	switch c.Tool {
	case "nvcc":
		r.CUDA.Compiler, r.NeedCUDA, known = compiler, true, onlyStarts(compiler)
		err = r.checkNVCCOptions()
	case "cxx":
		r.CUDA.HostCompiler = compiler
	default:
		f, _ := newFinder(context.Background(), *r)
		for _, name := range run.Names(run.Launched) {
			f.Env[name] = r.Env(name)
		}
		absent, known, err = r.Launched(f, compiler, dir)
	}
	if err == nil && !known && IsScript(compiler) {
		err = fmt.Errorf("%s is a script, which may ask for any variable", compiler)
	}
	return absent, err
}

// checkNVCCOptions returns an error if options of the environment name files or a compiler.
func (r *Request) checkNVCCOptions() error {
	for _, name := range run.Names(run.PassOptions) {
		value := r.Env(name)
		if strings.ContainsAny(value, "@$`") || strings.Contains(value, "optf") ||
			strings.Contains(value, "options-file") {
			return fmt.Errorf("%s names a file of options", name)
		}
	}
	for _, name := range run.Names(run.NVCCOptions) {
		if err := nvcc.PlainFlags(strings.Fields(r.Env(name))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// onlyStarts reports whether a script only starts another program with all its arguments, as
// Debian's nvcc does.
func onlyStarts(file string) bool {
	text, err := regular.ReadAtMost(file, 1<<16)
	return err == nil && starterRE().Match(text)
}

var starterRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^([ \\t]*(#.*|exec /[^ $`\"'\\\\;|&<>()\\n]+ \"\\$@\")?[ \\t]*(\\n|$))*$")
})
