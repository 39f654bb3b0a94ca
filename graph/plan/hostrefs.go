package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// nvlink removes what no host code of nvcc's objects refers to. kbuild reads the references of the
// program's other host code from its objects and libraries:
//
//	table.cc.o, a.cu.o, libvendor.a -> host-refs -> nvlink [80]
//	                                a.cu.o -> slice [80] --^
//
// The output of host-refs lists kernels and variables of the program only. An edit of host code
// that keeps its references does not rerun the device link. If references cannot be determined,
// everything is kept.

// keepsAll returns why the device link of t keeps unreferenced code, or "" if it does not.
func (b *builder) keepsAll(t *target) string {
	if !t.StripUnused {
		switch {
		case t.Shared:
			return "it is a shared library, and others may look its symbols up (strip_unused = true removes what it does not use itself)"
		case t.Kind == manifest.Library:
			return "it is a static library that is linked by others (strip_unused = true removes what it does not use itself)"
		}
	}
	for _, u := range append([]*target{t}, b.walk.closure(t)...) {
		if hostLTO(u) != "" {
			return "the host code of " + u.Label + " is intermediate code, which does not show what it refers to"
		}
		if u.AlwaysLink && u != t && !t.StripUnused {
			return u.Label + " has always_link = true (strip_unused = true removes what nothing uses)"
		}
		for _, l := range u.Libs {
			if why := b.facts.Unseen[l]; why != "" {
				return fmt.Sprintf("kbuild cannot see what -l%s of %s refers to: %s", l, u.Label, why)
			}
		}
		for _, file := range b.facts.hostFiles(u) {
			if missing := b.facts.Behind[file].Missing; missing != "" {
				return fmt.Sprintf("kbuild cannot see what %s refers to, which %s needs: it was not found", missing, file)
			}
		}
		if u != t && !u.Shared {
			continue // no link uses its flags
		}
		if why := host.HidesReferences(u.Flags.Link, t.StripUnused || u != t); why != "" {
			return fmt.Sprintf("flags.link of %s has %s", u.Label, why)
		}
	}
	return ""
}

// hostRefs returns the action that reads all host code linked with t, including shared libraries.
func (b *builder) hostRefs(t *target) *graph.Action {
	a := &graph.Action{Kind: graph.HostRefs, Name: t.Name, Argv: []string{string(graph.HostRefs)}, Intermediate: true,
		Outputs: []string{b.build.Out(graph.PartsDir, t.Folder(), "host-refs")}}
	if t.StripUnused {
		a.Argv = append(a.Argv, "strip_unused")
	}
	var inputs []string
	for _, u := range append([]*target{t}, b.walk.closure(t)...) {
		if u.Kind == manifest.Library || u.Kind == manifest.Executable {
			inputs = append(inputs, u.ObjectPaths()...)
		}
		for _, file := range b.facts.hostFiles(u) {
			inputs = append(append(inputs, file), b.facts.Behind[file].Files...)
		}
	}
	a.Inputs = appendNew(a.Inputs, inputs...)
	return a
}

// hostFiles returns the files that u contributes to a link and that no action writes: its own, and
// those that -l finds.
func (f *Facts) hostFiles(u *target) (files []string) {
	if u.Kind == manifest.Prebuilt && u.Wrapped == "" { // bare device code has no host code
		files = append(files, u.File)
	}
	for _, l := range u.Libs {
		files = append(files, f.Libs[l]...)
	}
	return files
}
