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

// addHostRefs adds the names that plain host code refers to, to the first input that can take
// them. If no input can, the link keeps everything.
func (v *refsArgv) addHostRefs(root string, a *graph.Action, dir scratch) error {
	text, err := regular.Read(cache.Absolute(root, a.Link().HostRefs))
	if err != nil {
		return fmt.Errorf("reading what host code of %s refers to: %w", a.Target, err)
	}
	names := strings.Fields(string(text))
	if len(names) == 0 {
		return nil
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
			return fmt.Errorf("making a temporary folder: %w", err)
		}
		if err := os.WriteFile(file, content, 0o666); err != nil {
			return fmt.Errorf("writing an input of %s: %w", a.Name, err)
		}
		v.from, v.to = file, cache.Absolute(root, in)
		if !a.Step().EmptyCwd {
			v.from, v.to = dir.relative().file("refs")+"/"+filepath.Base(in), in
		}
		v.argv = slices.Clone(v.argv)
		for i, arg := range v.argv {
			if arg == in {
				v.argv[i] = v.from
			}
		}
		return nil
	}
	v.argv, v.shown = keepAll(a, v.argv), keepAll(a, a.Argv)
	return nil
}

// keepAll returns the command of a device link that removes nothing.
func keepAll(a *graph.Action, argv []string) []string {
	if at := slices.Index(argv, "-dlink") + 1; at > 0 { // by nvcc
		return slices.Insert(slices.Clone(argv), at, "-Xnvlink", nvcc.KeepAll)
	}
	return slices.Insert(slices.Clone(argv), 1, nvcc.KeepAll)
}

// printed replaces the input's temporary name in messages by the name that the user knows.
func (v refsArgv) printed(text string) string {
	if v.from == "" {
		return text
	}
	return strings.ReplaceAll(text, v.from, v.to)
}
