package clangcuda

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// debianCUDA is a folder in the layout that clang requires. Debian and Ubuntu provide it, since
// they spread the toolkit over /usr.
const debianCUDA = "/usr/lib/cuda"

// linkerTools are the programs of clang's own LLVM that pack and link relocatable CUDA code.
var linkerTools = []string{"clang-offload-packager", "llvm-offload-binary", "clang-linker-wrapper", "clang-nvlink-wrapper"}

// Find finds and identifies the clang that compiles for the toolkit k: clang uses its ptxas,
// fatbinary, device libraries, headers and runtime. It reduces k.Archs to the architectures that
// both support. fault says why there is no such clang.
func Find(f *find.Finder, want find.Wanted, k *cuda.Toolkit) (c *cuda.Clang, fault string) {
	driver := f.Lookup(want.Compiler)
	if driver == "" {
		return nil, fmt.Sprintf("Looked for %s in PATH. Install it (on Debian and Ubuntu: apt install clang), or name another as compiler "+
			"of the toolchain block.", want.Compiler)
	}
	version, err := f.Answer(driver, "-dumpversion")
	if err != nil {
		return nil, fmt.Sprintf("%s does not work: %v", driver, err)
	}
	c = &cuda.Clang{Driver: toolchain.Tool{Path: driver, Version: version, Family: "clang"}}
	known := clang.KnownTo(f, driver, "nvptx64-nvidia-cuda", gencode.SASS)
	k.Archs = slices.DeleteFunc(slices.Clone(k.Archs), func(a gencode.Code) bool { return !slices.Contains(known, a) })
	if len(k.Archs) == 0 {
		return nil, fmt.Sprintf("%s compiles for no GPU that CUDA %s knows (--target=nvptx64 -print-supported-cpus). Was it built without NVPTX?",
			driver, k.Version)
	}
	steps, fault := findCUDA(f, c, k)
	if fault != "" {
		return nil, fault
	}
	// Clang's code generator may know sm_90a before its driver does (17).
	k.Archs = slices.DeleteFunc(k.Archs, func(a gencode.Code) bool { return a.Suffix != "" && find.Complaint(querySteps(f, c, a).Said) != "" })
	if err := identify(f, c, steps); err != nil {
		return nil, err.Error()
	}
	c.Libs = f.Glob(k.DeviceLibs, "*.bc")
	return c, ""
}

// findCUDA finds the --cuda-path with which clang uses the toolkit k and no other, and returns the
// steps of a compile. The device library that clang links shows which toolkit it uses. (By default
// clang looks in /usr/local/cuda and /usr/lib/cuda, whatever PATH says.)
func findCUDA(f *find.Finder, c *cuda.Clang, k *cuda.Toolkit) (clang.Steps, string) {
	printed, newest := "", k.Archs[0]
	for _, a := range k.Archs {
		if a.Suffix == "" {
			newest = a
		}
	}
	for _, dir := range []string{k.Root, debianCUDA} {
		c.CUDAPath = dir
		steps := querySteps(f, c, newest)
		for _, file := range clang.LibsIn(f, steps.Steps) {
			f.Digest(file)
			if libs := f.Real(path.Dir(file)); libs != "" && libs == f.Real(k.DeviceLibs) {
				return steps, ""
			}
		}
		printed += fmt.Sprintf(" With --cuda-path=%s: %.300s", dir, cmp.Or(find.Complaint(steps.Said), "it uses other device libraries."))
	}
	return clang.Steps{}, fmt.Sprintf("%s does not accept the toolkit of %s, whose device libraries are in %s.%s "+
		"Set CUDA_HOME to a toolkit that it accepts.", c.Driver.Path, k.NVCC.Path, k.DeviceLibs, printed)
}

// querySteps queries the steps of a compile for some GPU.
func querySteps(f *find.Finder, c *cuda.Clang, arch gencode.Code) clang.Steps {
	compile := toolchain.Compile{Source: clang.QuerySource, Output: toolchain.AskOutput, Codes: []gencode.Code{arch}}
	argv := Driver{Path: c.Driver.Path, CUDAPath: c.CUDAPath}.Compile(compile, "", toolchain.Options{})
	return clang.QuerySteps(f, append(argv[:1:1], clang.Query(argv, "", compile.Source, compile.Output)...), nil)
}

// identify sets the fingerprint of clang, of the programs that it runs, and of the shared libraries
// of both. As a host compiler clang uses the headers of an installed gcc; the fingerprint covers
// other files of that gcc.
func identify(f *find.Finder, c *cuda.Clang, steps clang.Steps) (err error) {
	parts := map[string]string{"clang++": c.Driver.Path}
	clang.AddSteps(f, parts, steps.Steps)
	for _, argv := range steps.Steps {
		// clang looks in PATH for ptxas and fatbinary: another one earlier in PATH changes the
		// answer.
		f.Lookup(path.Base(argv[0]))
	}
	clang.AddBeside(f, c.Driver.Path, parts, linkerTools)
	f.AddLibraries(parts, slices.Sorted(maps.Keys(parts)))
	f.AddSystem(parts)
	// The driver reads the version of CUDA from cuda.h.
	if header := path.Join(c.CUDAPath, "include/cuda.h"); f.Exists(header) {
		parts["cuda.h"] = header
	}
	host := f.Identified(c.Driver.Path)
	if host.Error != "" {
		return errors.New(host.Error)
	}
	c.Driver.ID, err = f.Identify(parts, c.Driver.Version, host.ID)
	return err
}
