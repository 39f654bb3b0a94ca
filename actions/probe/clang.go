package probe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clangcuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// isClang reports whether a compiler of the toolchain block is a clang, by its name. nvcc then only
// locates the toolkit; clang uses its ptxas, fatbinary, device libraries, headers and runtime.
func isClang(compiler string) bool { return strings.Contains(filepath.Base(compiler), "clang") }

// debianCUDA is a folder in the layout that clang requires. Debian and Ubuntu provide it, since
// they spread the toolkit over /usr.
const debianCUDA = "/usr/lib/cuda"

// clang finds and identifies the clang that compiles for the toolkit k. It reduces k.Archs to the
// architectures that both support.
func (w *hostEnv) clang(k *cuda.Toolkit, deviceLibs string) (*cuda.Clang, string) {
	driver := w.lookup(w.req.Compiler, w.env("PATH"))
	if driver == "" {
		return nil, fmt.Sprintf("Looked for %s in PATH. Install it (on Debian and Ubuntu: apt install clang), or name another as compiler "+
			"of the toolchain block.", w.req.Compiler)
	}
	version, err := w.answer(driver, "-dumpversion")
	if err != nil {
		return nil, fmt.Sprintf("%s does not work: %v", driver, err)
	}
	c := &cuda.Clang{Driver: toolchain.Tool{Path: driver, Version: version, Family: "clang"}}
	known := w.knownTo(driver, "nvptx64-nvidia-cuda", gencode.SASS)
	k.Archs = slices.DeleteFunc(slices.Clone(k.Archs), func(a gencode.Code) bool { return !slices.Contains(known, a) })
	if len(k.Archs) == 0 {
		return nil, fmt.Sprintf("%s compiles for no GPU that CUDA %s knows (--target=nvptx64 -print-supported-cpus). Was it built without NVPTX?",
			driver, k.Version)
	}
	steps, msg := w.askClang(c, k, deviceLibs)
	if msg != "" {
		return nil, msg
	}
	// Clang's code generator may know sm_90a before its driver does (17).
	k.Archs = slices.DeleteFunc(k.Archs, func(a gencode.Code) bool { return a.Suffix != "" && complaint(w.clangSteps(c, a).Said) != "" })
	if c.Driver.ID, err = w.clangFingerprint(driver, version, c.CUDAPath, steps); err != nil {
		return nil, err.Error()
	}
	c.Libs, _ = filepath.Glob(filepath.Join(deviceLibs, "*.bc"))
	return c, ""
}

// askClang finds the --cuda-path with which clang uses the toolkit k and no other, and returns the
// steps of a compile. The device library that clang links shows which toolkit it uses. (By default
// clang looks in /usr/local/cuda and /usr/lib/cuda, whatever PATH says.)
func (w *hostEnv) askClang(c *cuda.Clang, k *cuda.Toolkit, deviceLibs string) (clang.Steps, string) {
	printed, newest := "", k.Archs[0]
	for _, a := range k.Archs {
		if a.Suffix == "" {
			newest = a
		}
	}
	for _, dir := range []string{k.Root, debianCUDA} {
		c.CUDAPath = dir
		steps := w.clangSteps(c, newest)
		for _, file := range w.deviceLibs(steps.Steps) {
			w.reads(file)
			if sameFile(filepath.Dir(file), deviceLibs) {
				return steps, ""
			}
		}
		printed += fmt.Sprintf(" With --cuda-path=%s: %.300s", dir, cmp.Or(complaint(steps.Said), "it uses other device libraries."))
	}
	return clang.Steps{}, fmt.Sprintf("%s does not accept the toolkit of %s, whose device libraries are in %s.%s "+
		"Set CUDA_HOME to a toolkit that it accepts.", c.Driver.Path, k.NVCC.Path, deviceLibs, printed)
}

func sameFile(a, b string) bool {
	first, err := filepath.EvalSymlinks(a)
	if err != nil {
		return false
	}
	second, err := filepath.EvalSymlinks(b)
	return err == nil && first == second
}

// clangSteps queries the steps of a compile for some GPU.
func (w *hostEnv) clangSteps(c *cuda.Clang, arch gencode.Code) clang.Steps {
	compile := toolchain.Compile{Source: clang.QuerySource, Output: toolchain.AskOutput, Codes: []gencode.Code{arch}}
	argv := clangcuda.Driver{Path: c.Driver.Path, CUDAPath: c.CUDAPath}.Compile(compile, "", toolchain.Options{})
	return w.steps(append(argv[:1:1], clang.Query(argv, "", compile.Source, compile.Output)...), nil)
}

// linkerTools are the programs of clang's own LLVM that pack and link relocatable CUDA code.
var linkerTools = []string{"clang-offload-packager", "llvm-offload-binary", "clang-linker-wrapper", "clang-nvlink-wrapper"}

// addSystem adds the files from which a clang driver detects the distribution to its parts: its
// links differ between distributions.
func (w *hostEnv) addSystem(parts map[string]string) {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release", "/etc/lsb-release", "/etc/redhat-release", "/etc/debian_version", "/etc/SuSE-release"} {
		if w.there(file) {
			parts[file] = file
		}
	}
}

// clangFingerprint returns a fingerprint of clang, of the programs that it runs, and of the shared
// libraries of both. As a host compiler clang uses the headers of an installed gcc; the fingerprint
// covers other files of that gcc.
func (w *hostEnv) clangFingerprint(driver, version, cudaPath string, steps clang.Steps) (string, error) {
	parts := map[string]string{"clang++": driver}
	for _, argv := range steps.Steps {
		if role := filepath.Base(argv[0]); parts[role] == "" && w.there(argv[0]) {
			parts[role] = argv[0]
			// clang looks in PATH for ptxas and fatbinary: another one earlier in PATH changes the
			// answer.
			w.lookup(role, w.env("PATH"))
		}
	}
	for _, name := range linkerTools {
		if p := filepath.Join(realDir(driver), name); w.there(p) {
			parts[name] = p
		}
	}
	w.addLibraries(parts, slices.Sorted(maps.Keys(parts)))
	w.addSystem(parts)
	// The driver reads the version of CUDA from cuda.h.
	if header := filepath.Join(cudaPath, "include", "cuda.h"); w.there(header) {
		parts["cuda.h"] = header
	}
	host := w.gcc(driver)
	if host.Error != "" {
		return "", errors.New(host.Error)
	}
	return w.fingerprint(parts, version, host.ID)
}
