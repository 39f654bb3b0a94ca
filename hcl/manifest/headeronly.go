package manifest

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A library with sources = [] consists of headers. It has no archive. Its defines, flags and libs
// apply to all targets that depend on it, directly or transitively.

// passedOn are the attributes that a header-only library may set. Others are about compiling
// sources.
var passedOn = []string{
	"sources", "deps", "includes", "defines", "flags", "libs", "lib_dirs", "public_headers", "labels", "for_each",
}

// HeaderOnly reports whether the target is a library without sources.
func (t *Target) HeaderOnly() bool { return t.Kind == Library && len(t.Sources) == 0 }

// isHeaderOnly reports whether a library has the literal sources = []. A computed list that is
// empty is a mistake, and an error elsewhere.
func (r *reader) isHeaderOnly() bool {
	a := r.b.body.Attributes["sources"]
	if a == nil || r.b.kind != "library" {
		return false
	}
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	return ok && len(list.Exprs) == 0
}

// headerLibrary reads a header-only library. Of the passed-on attributes only includes is inherited
// from `defaults`, as for other libraries: the dependents have their own defaults.
func (r *reader) headerLibrary() *Target {
	t := r.newTarget(Library)
	for _, a := range r.b.attrs() {
		if r.b.schema.Attribute(a.Name) != nil && !slices.Contains(passedOn, a.Name) {
			r.l.errorAt(a.NameRange, "Remove it, or add sources.", "%s has no sources, and %s is about those", r.b.heading(), a.Name)
		}
	}
	for _, b := range r.b.nested {
		r.l.errorAt(b.rng, "Remove it, or add sources.", "%s has no sources for a %s", r.b.heading(), b.kind)
	}
	written := func(name string) bool { return r.b.body.Attributes[name] != nil }
	t.Includes, t.PublicHeaders = r.paths("includes"), r.publicHeaders(t)
	if written("defines") {
		t.Defines = r.defines()
	}
	if written("flags") {
		t.Flags = *r.flags()
	}
	if written("libs") {
		t.Libs = r.noPrefix("libs", "-l")
	}
	if written("lib_dirs") {
		t.LibDirs = r.paths("lib_dirs")
	}
	return t
}

// passOn adds the attributes of header-only libraries to their dependents. A dependent's own
// defines override them, and its own flags come after theirs.
func (l *loader) passOn() {
	if !slices.ContainsFunc(l.project.Targets, (*Target).HeaderOnly) {
		return
	}
	named := map[string][]*Target{}
	for _, t := range l.project.Targets {
		named[t.Label()] = append(named[t.Label()], t)
		if base := string(t.Kind) + "." + t.Base; base != t.Label() {
			named[base] = append(named[base], t)
		}
	}
	behind := map[*Target][]*Target{} // header-only libraries, dependents before their dependencies
	var visit func(t *Target)
	visit = func(t *Target) {
		if _, visited := behind[t]; visited {
			return
		}
		behind[t] = nil
		for _, dep := range t.Deps {
			for _, d := range named[dep.Label] {
				visit(d)
				if d.HeaderOnly() && !slices.Contains(behind[t], d) {
					behind[t] = append(behind[t], d)
				}
				for _, h := range behind[d] {
					if !slices.Contains(behind[t], h) {
						behind[t] = append(behind[t], h)
					}
				}
			}
		}
	}
	for _, t := range l.project.Targets {
		visit(t)
	}
	for _, t := range l.project.Targets {
		if len(t.Sources) > 0 && len(behind[t]) > 0 {
			l.use(t, behind[t])
		}
	}
}

// use adds the attributes of header-only libraries to t.
func (l *loader) use(t *Target, libraries []*Target) {
	flags, definedBy := &Flags{}, map[string]*Target{}
	var defines []Define
	for _, h := range libraries {
		flags = flags.with(&h.Flags)
		t.Libs, t.LibDirs = union(t.Libs, h.Libs), union(t.LibDirs, h.LibDirs)
		for _, d := range h.Defines {
			first := definedBy[d.Name]
			if first == nil {
				definedBy[d.Name], defines = h, mergeDefines(defines, []Define{d})
			} else if !slices.ContainsFunc(first.Defines, d.equals) {
				diags := Diagnostics{{Pos: h.AttrPos["defines"], Detail: "Give them one value.",
					Summary: fmt.Sprintf("%s uses %s and %s, which define %s differently", t.Label(), first.Label(), h.Label(), d.Name),
					Also:    Place{Pos: first.AttrPos["defines"], Say: "defined here, too"}}}
				l.project.Quote(diags)
				l.add(diags[0])
			}
		}
	}
	parts := map[*Flags]*Flags{} // the sources of a partition share one Flags
	for i := range t.Sources {
		s := &t.Sources[i]
		s.Defines = mergeDefines(defines, s.Defines)
		if parts[s.Flags] == nil {
			parts[s.Flags] = flags.with(s.Flags)
		}
		s.Flags = parts[s.Flags]
	}
	t.Flags = *flags.with(&t.Flags)
}

func (d Define) equals(other Define) bool {
	return d.Name == other.Name && (d.Value == nil) == (other.Value == nil) && (d.Value == nil || *d.Value == *other.Value)
}

// union returns list with the elements of more that it lacks, as a copy.
func union(list, more []string) []string {
	out := slices.Clone(list)
	for _, s := range more {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
