package execute

import (
	"fmt"
	"maps"
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

// hostRefs lists the kernels and variables of a program that plain host code refers to.
type hostRefs struct {
	everything string // why all are kept; "" if only names are kept
	// the files that refer to a name, which is spelled as nvlink does in lists
	names map[string][]string
}

// readHostRefs reads all host code of a link. nvlink knows the references in nvcc's own objects.
// The result includes those from one of these objects to another, too.
func readHostRefs(root string, a *graph.Action) (hostRefs, error) {
	strip := slices.Contains(a.Argv, "strip_unused")
	refs, wants := hostRefs{names: map[string][]string{}}, map[string][]string{}
	var cuda []string
	for _, file := range a.Inputs {
		data, err := regular.Read(cache.Absolute(root, file))
		if err != nil {
			return refs, err
		}
		h := fatbin.ReadHostSymbols(data)
		switch {
		case h.Unknown != "":
			return hostRefs{everything: fmt.Sprintf("kbuild cannot see what %s refers to: %s", file, h.Unknown)}, nil
		case h.Lookups != "" && !strip:
			return hostRefs{everything: fmt.Sprintf("%s calls %s, which finds symbols by name at run time (strip_unused = true says that it looks up none of these)", file, h.Lookups)}, nil
		}
		for _, w := range h.Wants {
			if by := wants[w]; len(by) == 0 || by[len(by)-1] != file {
				wants[w] = append(by, file)
			}
		}
		if len(h.CUDA) > 0 {
			cuda = append(cuda, file)
		}
	}
	for _, file := range cuda {
		if err := refs.addNames(root, file, wants); err != nil || refs.everything != "" {
			return refs, err
		}
	}
	return refs, nil
}

// addNames adds the wanted names that nvcc's objects in a file define.
func (refs *hostRefs) addNames(root, file string, wants map[string][]string) error {
	data, err := regular.Read(cache.Absolute(root, file))
	if err != nil {
		return err
	}
	for _, object := range fatbin.ReadHostSymbols(data).CUDA {
		names, unknown, err := object.Names(func(name string) bool { return wants[name] != nil })
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if unknown != "" {
			refs.everything = fmt.Sprintf("%s refers to %s, which %s registers by another name", wants[unknown][0], unknown, file)
			return nil
		}
		for wanted, name := range names {
			for _, by := range wants[wanted] {
				if !slices.Contains(refs.names[name], by) {
					refs.names[name] = append(refs.names[name], by)
				}
			}
		}
	}
	return nil
}

// hostRefsStep writes the names, one per line, or a star. It does not write which files refer to
// them, since a device link does not depend on that.
type hostRefsStep struct{ inProcess }

func (hostRefsStep) run(w work) error {
	refs, err := readHostRefs(w.root, w.Action)
	if err != nil {
		return fmt.Errorf("reading what host code of %s refers to: %w", w.Target, err)
	}
	lines := slices.Sorted(maps.Keys(refs.names))
	if refs.everything != "" {
		lines = []string{"*"}
	}
	return w.write(0, []byte(strings.Join(append(lines, ""), "\n")))
}

// refsArgv is the command of a device link that keeps what plain host code refers to.
type refsArgv struct {
	argv     []string
	keepsAll bool
	// the object with added names, and the one that it replaces, as commands see them
	from, to string
}

// Kept describes what a device link keeps for plain host code, and for which files. It reads the
// present host code.
func Kept(root string, a *graph.Action) []string {
	if a.Kind != graph.HostRefs {
		if a.Link().KeepsAll != "" {
			return []string{"keeps all kernels and variables: " + a.Link().KeepsAll}
		}
		return nil
	}
	refs, err := readHostRefs(root, a)
	switch {
	case err != nil: // host code is not built
		return nil
	case refs.everything != "":
		return []string{"keeps all kernels and variables: " + refs.everything}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(refs.names)) {
		out = append(out, fmt.Sprintf("keeps %s for %s", readable(name), strings.Join(refs.names[name], ", ")))
	}
	return out
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
