package inprocess

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// hostRefs lists the kernels and variables of a program that plain host code refers to.
type hostRefs struct {
	everything string              // why all are kept; "" if only names are kept
	names      map[string][]string // the files that refer to a name
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
			refs.everything = fmt.Sprintf("kbuild cannot see what %s refers to: %s", file, h.Unknown)
			return refs, nil
		case h.Lookups != "" && !strip:
			refs.everything = fmt.Sprintf("%s calls %s, which finds symbols by name at run time "+
				"(strip_unused = true says that it looks up none of these)", file, h.Lookups)
			return refs, nil
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
		names, unknown, err := object.Names(wants)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if unknown != "" {
			refs.everything = fmt.Sprintf("%s refers to %s, which %s registers by another name",
				wants[unknown][0], unknown, file)
			return nil
		}
		for _, name := range names {
			for _, by := range wants[name] {
				if !slices.Contains(refs.names[name], by) {
					refs.names[name] = append(refs.names[name], by)
				}
			}
		}
	}
	return nil
}

// writeHostRefs writes the names, one per line, or a star. It does not write which files refer to
// them, since a device link does not depend on that.
func writeHostRefs(w Work) error {
	refs, err := readHostRefs(w.Root, w.Action)
	if err != nil {
		return fmt.Errorf("reading what host code of %s refers to: %w", w.Target, err)
	}
	lines := slices.Sorted(maps.Keys(refs.names))
	if refs.everything != "" {
		lines = []string{"*"}
	}
	return w.write(0, []byte(strings.Join(append(lines, ""), "\n")))
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
		out = append(out, fmt.Sprintf("keeps %s for %s",
			modules.Readable(name), strings.Join(refs.names[name], ", ")))
	}
	return out
}
