package execute

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// refsArgv is the command of a device link that keeps what plain host code refers to.
type refsArgv struct {
	argv  []string
	shown []string // the command as a user could run it
	// the object with added names, and the one that it replaces, as commands see them
	from, to string
}

// withHostRefs adds the names that plain host code refers to, to the first input that can take
// them. If no input can, the link keeps everything.
func withHostRefs(root string, a *graph.Action, argv []string, dir scratch) (refsArgv, error) {
	out := refsArgv{argv: argv, shown: a.Argv}
	if a.Link().HostRefs == "" {
		return out, nil
	}
	text, err := regular.Read(cache.Absolute(root, a.Link().HostRefs))
	if err != nil {
		return out, fmt.Errorf("reading what host code of %s refers to: %w", a.Target, err)
	}
	names := strings.Fields(string(text))
	if len(names) == 0 {
		return out, nil
	}
	for _, in := range a.Inputs {
		if names[0] == "*" {
			break
		}
		content, err := regular.Read(cache.Absolute(root, in))
		if err == nil && strings.HasSuffix(in, ".a") {
			content, err = fatbin.ArchiveWithHostRefs(content, names)
		} else if err == nil {
			content, err = fatbin.WithHostRefs(content, names)
		}
		if err != nil {
			continue // it cannot take names
		}
		file := filepath.Join(dir.file("refs"), filepath.Base(in))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return out, fmt.Errorf("making a temporary folder: %w", err)
		}
		if err := os.WriteFile(file, content, 0o666); err != nil {
			return out, fmt.Errorf("writing an input of %s: %w", a.Name, err)
		}
		out.from, out.to = file, cache.Absolute(root, in)
		if !a.Step().EmptyCwd {
			out.from, out.to = dir.relative().file("refs")+"/"+filepath.Base(in), in
		}
		out.argv = slices.Clone(argv)
		for i, arg := range argv {
			if arg == in {
				out.argv[i] = out.from
			}
		}
		return out, nil
	}
	out.argv, out.shown = keepAll(a, argv), keepAll(a, a.Argv)
	return out, nil
}

// keepAll returns the command of a device link that removes nothing.
func keepAll(a *graph.Action, argv []string) []string {
	if a.Kind == graph.NVLink {
		return slices.Insert(slices.Clone(argv), 1, nvcc.KeepAll)
	}
	at := slices.Index(argv, "-dlink") + 1
	return slices.Insert(slices.Clone(argv), at, "-Xnvlink", nvcc.KeepAll)
}

// printed replaces the input's temporary name in messages by the name that the user knows.
func (v refsArgv) printed(text string) string {
	if v.from == "" {
		return text
	}
	return strings.ReplaceAll(text, v.from, v.to)
}
