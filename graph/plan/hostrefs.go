package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// nvlink removes what no host code of nvcc's objects refers to. What other host code of the program
// refers to is read from its objects and libraries:
//
//	table.cc.o, a.cu.o, libvendor.a -> host-refs -> nvlink [80]
//	                                a.cu.o -> slice [80] --^
//
// Its output holds kernels and variables of the program only: an edit of host code that refers to
// the same ones links no device code. Where it cannot be known what is referred to, everything is
// kept.

// keepsAll says why the device link of t keeps what nothing refers to; "" if it does not.
func (ck *checks) keepsAll(t *target) string {
	if !t.StripUnused {
		switch {
		case t.Shared:
			return "it is a shared library, and others may look its symbols up (strip_unused = true removes what it does not use itself)"
		case t.Kind == manifest.Library:
			return "it is a static library that is linked by others (strip_unused = true removes what it does not use itself)"
		}
	}
	for _, u := range append([]*target{t}, ck.closure(t)...) {
		if hostLTO(u) != "" {
			return "the host code of " + u.label + " is intermediate code, which does not show what it refers to"
		}
		if u.AlwaysLink && u != t && !t.StripUnused {
			return u.label + " has always_link = true (strip_unused = true removes what nothing uses)"
		}
		for _, l := range u.Libs {
			if why := ck.facts.Unseen[l]; why != "" {
				return fmt.Sprintf("kbuild cannot see what -l%s of %s refers to: %s", l, u.label, why)
			}
		}
		for _, file := range ck.hostFiles(u) {
			if missing := ck.facts.Behind[file].Missing; missing != "" {
				return fmt.Sprintf("kbuild cannot see what %s refers to, which %s needs: it was not found", missing, file)
			}
		}
		if u != t && !u.Shared {
			continue // whose flags no link takes
		}
		if why := host.HidesReferences(u.Flags.Link, t.StripUnused || u != t); why != "" {
			return fmt.Sprintf("flags.link of %s has %s", u.label, why)
		}
	}
	return ""
}

// hostRefs plans the reading of all host code that is linked with t, also of shared libraries, and
// returns its output.
func (b *builder) hostRefs(t *target) string {
	a := &graph.Action{Kind: graph.HostRefs, Name: t.Name, Argv: []string{string(graph.HostRefs)}, Intermediate: true,
		Outputs: []string{b.out(graph.PartsDir, fileName(t), "host-refs")}}
	if t.StripUnused {
		a.Argv = append(a.Argv, "strip_unused")
	}
	var inputs []string
	for _, u := range append([]*target{t}, b.closure(t)...) {
		if u.Kind == manifest.Library || u.Kind == manifest.Executable {
			inputs = append(inputs, paths(u.objects)...)
		}
		for _, file := range b.hostFiles(u) {
			inputs = append(append(inputs, file), b.facts.Behind[file].Files...)
		}
	}
	a.Inputs = appendNew(a.Inputs, inputs...)
	b.emit(t, a)
	return a.Outputs[0]
}

// hostFiles are the files that u brings into a link and that no action makes: its own, and those
// behind -l.
func (g *given) hostFiles(u *target) (files []string) {
	if u.Kind == manifest.Prebuilt && u.object == "" { // bare device code has no host code around it
		files = append(files, u.file)
	}
	for _, l := range u.Libs {
		files = append(files, g.facts.Libs[l]...)
	}
	return files
}
