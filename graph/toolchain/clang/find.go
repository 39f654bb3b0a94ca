package clang

import (
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// QuerySteps queries the steps of a command of hipcc or clang. A failed query is not an error here:
// its output still has steps, and the planner queries again.
func QuerySteps(f *find.Finder, argv, env []string) Steps {
	r := f.Run(find.Command{Argv: argv, Env: env, Files: map[string]string{QuerySource: "", toolchain.QueryInput: ""}})
	return ReadSteps(r.Text, argv)
}

// LibsIn returns all device libraries in the folders that the steps of a compile read some from:
// clang selects libraries there by name.
func LibsIn(f *find.Finder, steps [][]string) (libs []string) {
	for _, argv := range steps {
		for i, a := range argv[:len(argv)-1] {
			if a != "-mlink-builtin-bitcode" {
				continue
			}
			for _, file := range f.Glob(path.Dir(argv[i+1]), "*.bc") {
				if !slices.Contains(libs, file) {
					libs = append(libs, file)
				}
			}
		}
	}
	return libs
}

// KnownTo returns the GPUs of a target that a clang knows, or nil if clang cannot list them.
func KnownTo(f *find.Finder, clang, target string, kind gencode.Kind) (archs []gencode.Code) {
	text, err := f.Output(clang, "--target="+target, "-nogpulib", "-print-supported-cpus")
	for _, word := range strings.Fields(text) {
		if c, parsed := gencode.Parse(word); parsed == nil && c.Kind == kind && err == nil {
			archs = append(archs, c)
		}
	}
	return archs
}

// AddSteps adds the programs that steps run to the parts of a tool.
func AddSteps(f *find.Finder, parts map[string]string, steps [][]string) {
	for _, argv := range steps {
		if role := path.Base(argv[0]); parts[role] == "" && f.Exists(argv[0]) {
			parts[role] = argv[0]
		}
	}
}

// AddBeside adds the programs beside a clang to its parts, links resolved, and returns those that
// exist by name.
func AddBeside(f *find.Finder, clang string, parts map[string]string, names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if file := path.Join(f.RealDir(clang), name); f.Exists(file) {
			found[name] = file
			if parts[name] == "" {
				parts[name] = file
			}
		}
	}
	return found
}
