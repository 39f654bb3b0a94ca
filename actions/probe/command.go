package probe

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
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
	case "hip":
		r.HIP.Compiler, r.NeedAMD, known = compiler, true, isROCmScript(compiler)
		absent, err = r.checkHIPPlatform(compiler, dir)
	default:
		r.CUDA.HostCompiler = compiler
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

// checkHIPPlatform returns an error if the environment adds options, or if hipcc may not compile for
// AMD. Without HIP_PLATFORM, hipcc compiles for NVIDIA if it finds an nvcc and no clang.
func (r *Request) checkHIPPlatform(compiler, dir string) (absent []string, err error) {
	for _, name := range []string{"HIPCC_COMPILE_FLAGS_APPEND", "HIP_COMPILE_CXX_AS_HIP"} {
		if r.Env(name) != "" {
			return nil, fmt.Errorf("%s is set", name)
		}
	}
	switch platform := r.Env("HIP_PLATFORM"); {
	case !isHipcc(compiler) || platform == "amd":
		return nil, nil
	case platform != "":
		return nil, fmt.Errorf("HIP_PLATFORM is %q", platform)
	}
	toolkit := cmp.Or(r.Env("CUDA_PATH"), "/usr/local/cuda")
	for _, d := range append(filepath.SplitList(r.Env("PATH")), filepath.Join(toolkit, "bin")) {
		file := cache.Absolute(dir, filepath.Join(d, "nvcc"))
		if exists(file) {
			return nil, fmt.Errorf("hipcc may compile for NVIDIA, since there is %s: "+
				"set HIP_PLATFORM=amd", file)
		}
		absent = append(absent, file)
	}
	return absent, nil
}

// isHipcc reports whether a file is hipcc, with any version in its name.
func isHipcc(file string) bool { return strings.HasPrefix(filepath.Base(file), "hipcc") }

// isROCmScript reports whether a file is ROCm's script hipcc. That script reads only variables that
// are in keys. Another script may be in its place.
func isROCmScript(file string) bool {
	real, err := filepath.EvalSymlinks(file)
	return err == nil && isHipcc(file) && exists(filepath.Join(filepath.Dir(real), "hipvars.pm"))
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
