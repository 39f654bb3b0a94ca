package manifest

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A library with sources = [] is its headers. No archive is made of it. What its block says of
// defines, flags and libs holds for the targets that depend on it, directly or through others.

// passedOn are the attributes of a library of headers. Others say how sources are compiled.
var passedOn = []string{
	"sources", "deps", "includes", "defines", "flags", "libs", "lib_dirs", "public_headers", "labels", "for_each",
}

// HeaderOnly reports a library without sources.
func (t *Target) HeaderOnly() bool { return t.Kind == Library && len(t.Sources) == 0 }

// isHeaderOnly reports a library with sources = [] as it is written: a list that a mistake left
// empty is an error.
func (r *reader) isHeaderOnly() bool {
	a := r.b.body.Attributes["sources"]
	if a == nil || r.b.kind != "library" {
		return false
	}
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	return ok && len(list.Exprs) == 0
}

// headerLibrary reads a library of headers. Users have their own share of defaults, so of what is
// passed on, includes alone may come from there, as those of other libraries do.
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

// passOn adds what libraries of headers pass on to the targets that use them. What a target says
// itself goes before that: its defines replace them, and its flags come later.
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
	behind := map[*Target][]*Target{} // libraries of headers, users before what they use
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

// use adds what libraries of headers pass on to t.
func (l *loader) use(t *Target, libraries []*Target) {
	flags, said := &Flags{}, map[string]*Target{}
	var defines []Define
	for _, h := range libraries {
		flags = flags.with(&h.Flags)
		t.Libs, t.LibDirs = union(t.Libs, h.Libs), union(t.LibDirs, h.LibDirs)
		for _, d := range h.Defines {
			first := said[d.Name]
			if first == nil {
				said[d.Name], defines = h, mergeDefines(defines, []Define{d})
			} else if !slices.ContainsFunc(first.Defines, d.equals) {
				diags := Diagnostics{{Pos: h.AttrPos["defines"], Detail: "Give them one value.",
					Summary: fmt.Sprintf("%s uses %s and %s, which define %s differently", t.Label(), first.Label(), h.Label(), d.Name),
					Also:    Place{Pos: first.AttrPos["defines"], Say: "defined here, too"}}}
				l.project.Quote(diags)
				l.add(diags[0])
			}
		}
	}
	parts := map[*Flags]*Flags{} // sources of a partition share their flags
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

// union appends those of more that list lacks, in a copy.
func union(list, more []string) []string {
	out := slices.Clone(list)
	for _, s := range more {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
