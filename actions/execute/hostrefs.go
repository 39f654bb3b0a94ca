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
	argv     []string
	keepsAll bool
	// the object with added names, and the one that it replaces, as commands see them
	from, to string
}

// withHostRefs adds the names that plain host code refers to, to the first input that can take
// them. If no input can, the link keeps everything.
func withHostRefs(root string, a *graph.Action, argv []string, dir scratch) (refsArgv, error) {
	out := refsArgv{argv: argv}
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
	if names[0] != "*" {
		for _, in := range a.Inputs {
			if content := takesRefs(cache.Absolute(root, in), names); content != nil {
				return out, out.replaceInput(root, a, in, content, dir)
			}
		}
	}
	out.keepsAll = true
	out.argv = keepAll(a, argv)
	return out, nil
}

// takesRefs returns an input of a device link with names added, or nil if it cannot take them.
func takesRefs(input string, names []string) []byte {
	data, err := regular.Read(input)
	if err != nil {
		return nil
	}
	add := fatbin.WithHostRefs
	if strings.HasSuffix(input, ".a") {
		add = fatbin.ArchiveWithHostRefs
	}
	if data, err = add(data, names); err != nil {
		return nil
	}
	return data
}

func (out *refsArgv) replaceInput(root string, a *graph.Action, input string, content []byte, dir scratch) error {
	file := filepath.Join(dir.file("refs"), filepath.Base(input))
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	if err := os.WriteFile(file, content, 0o666); err != nil {
		return fmt.Errorf("writing an input of %s: %w", a.Name, err)
	}
	out.from, out.to = file, cache.Absolute(root, input)
	if !a.Step().EmptyCwd {
		out.from, out.to = dir.seen().file("refs")+"/"+filepath.Base(input), input
	}
	out.argv = slices.Clone(out.argv)
	for i, arg := range out.argv {
		if arg == input {
			out.argv[i] = out.from
		}
	}
	return nil
}

// keepAll returns the command of a device link that removes nothing.
func keepAll(a *graph.Action, argv []string) []string {
	if a.Kind == graph.NVLink {
		return slices.Insert(slices.Clone(argv), 1, nvcc.KeepAll)
	}
	return slices.Insert(slices.Clone(argv), slices.Index(argv, "-dlink")+1, "-Xnvlink", nvcc.KeepAll)
}

// shown returns the command as a user could run it.
func (v refsArgv) shown(a *graph.Action) []string {
	if v.keepsAll {
		return keepAll(a, a.Argv)
	}
	return a.Argv
}

// printed replaces the input's temporary name in messages by the name that the user knows.
func (v refsArgv) printed(text string) string {
	if v.from == "" {
		return text
	}
	return strings.ReplaceAll(text, v.from, v.to)
}
