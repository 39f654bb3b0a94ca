package importer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Programs are found as a linker finds them, starting from each file with a main. A symbol that is
// declared and used but not defined is searched for in the other files, the nearest first. Sources
// that several programs need become one library per folder.

// target is a program or library of the manifest.
type target struct {
	kind, name string
	dir        string
	units      []*unit
	needs      []*target // libraries
	aside      []string  // reasons not to build it by default
	vendor     string    // nvidia, amd, or "" for host code only
}

func (t *target) label() string { return t.kind + "." + t.name }

// all returns the target and the libraries that it links, transitively.
func (t *target) all() []*target {
	list := []*target{t}
	for i := 0; i < len(list); i++ {
		for _, n := range list[i].needs {
			if !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	return list
}

// grouping is the state of grouping the sources of a tree into targets.
type grouping struct {
	*tree
	units     []*unit             // compiled
	lacking   []*unit             // not compiled: a header is missing
	unwanted  map[string][]string // assembler left out, by reason
	included  map[string]string
	providers map[string][]*unit
	links     map[*unit][]*unit // direct needs of a unit
	wants     map[*unit][]string
	rdc       map[*unit]string // why it needs relocatable device code
	targets   []*target
	names     map[string]bool // defined in some source
}

// language parses a source in its language, and records why if the extension does not imply it.
func (t *tree) language(file string) *unit {
	switch ext := path.Ext(file); ext {
	case ".hip":
		return t.unitOf(file, "hip")
	case ".s", ".S":
		return t.unitOf(file, "asm")
	case ".cu":
		u := t.unitOf(file, "cuda")
		if u.hip != "" {
			h := t.unitOf(file, "hip")
			h.why = u.hip + " includes hip/hip_runtime.h"
			return h
		}
		return u
	default:
		plain := map[bool]string{true: "c", false: "c++"}[ext == ".c"]
		as, why := plain, ""
		u := t.unitOf(file, plain)
		switch {
		case u.hip != "":
			as, why = "hip", u.hip+" includes hip/hip_runtime.h"
		case u.launch != "":
			as, why = "cuda", u.launch+" launches a kernel"
		case u.inside != "":
			as, why = "cuda", u.inside+" is code of a GPU"
		}
		if as != plain {
			u = t.unitOf(file, as)
			u.why = why
		}
		return u
	}
}

// group parses the sources and groups them into targets.
func (t *tree) group() *grouping {
	g := &grouping{tree: t, unwanted: map[string][]string{}, included: map[string]string{}, providers: map[string][]*unit{}, links: map[*unit][]*unit{}, wants: map[*unit][]string{}, rdc: map[*unit]string{}}
	var all []*unit
	for _, f := range t.sources {
		u := t.language(f)
		all = append(all, u)
		for r := range u.reads {
			if r != f && isSource(r) && (g.included[r] == "" || f < g.included[r]) {
				g.included[r] = f
			}
		}
	}
	defs := map[string]bool{}
	for _, u := range all {
		for key := range u.defs {
			defs[key] = defs[key] || u.language != "asm"
		}
	}
	var parts []*unit
	for _, u := range all {
		if u.language == "asm" && g.included[u.file] == "" {
			if why := t.whyUnwanted(u, defs); why != "" {
				g.unwanted[why] = append(g.unwanted[why], u.file)
				continue
			}
		}
		switch {
		case g.included[u.file] != "" && !u.main:
			parts = append(parts, u)
		case len(u.lacking) > 0:
			g.lacking = append(g.lacking, u)
		default:
			g.units = append(g.units, u)
		}
	}
	g.link(parts)
	g.makeTargets()
	return g
}

func headers(needs []need) (out []string) {
	for _, n := range needs {
		out = append(out, n.header)
	}
	return out
}

// link finds the units that each unit needs. parts are sources that other sources include. A part
// that a unit in the same folder needs but does not include is compiled as well.
func (g *grouping) link(parts []*unit) {
	index := func(units []*unit) map[string][]*unit {
		by := map[string][]*unit{}
		for _, u := range units {
			if !u.main {
				for key := range u.defs {
					by[key] = append(by[key], u)
				}
			}
		}
		return by
	}
	g.providers = index(g.units)
	included := index(parts)
	without := index(g.lacking)
	todo := slices.Concat(g.units, g.lacking)
	for i := 0; i < len(todo); i++ {
		u := todo[i]
		for _, s := range u.needs() {
			p := g.provider(u, g.providers[s.key()])
			if p == nil && s.class != "" && u.uses[s.class] && !u.spaces[s.class] { // template class A<float>;
				p = g.provider(u, g.providers[s.class])
			}
			if p == nil {
				p = g.provider(u, included[s.key()])
				if p != nil && (len(p.lacking)+len(u.lacking) > 0 || path.Dir(p.file) != path.Dir(u.file)) {
					p = nil
				}
				if p != nil && !slices.Contains(g.units, p) {
					g.units, todo = append(g.units, p), append(todo, p)
				}
			}
			if p == nil {
				if out := g.provider(u, without[s.key()]); out != nil {
					g.wants[u] = appendNew(g.wants[u], fmt.Sprintf("%s of %s, which needs %s", s.key(), out.file, out.lacking[0]))
				} else if s.external && u.uses[s.name] && !g.anywhere(s.name) {
					g.wants[u] = appendNew(g.wants[u], fmt.Sprintf("%s, which no source defines: %s", s.name, u.file))
				}
				continue
			}
			if !slices.Contains(g.links[u], p) {
				g.links[u] = append(g.links[u], p)
			}
			if d := p.defs[s.key()]; s.device && d.device && u.language == p.language && u.vendor() != "" {
				why := fmt.Sprintf("%s of %s:%d is called in %s", s.key(), p.file, d.line, u.file)
				g.rdc[u], g.rdc[p] = why, why
			}
		}
		if u.nested != "" && u.language == "cuda" {
			g.rdc[u] = u.nested + " launches a kernel in device code"
		}
	}
}

// anywhere reports whether a source defines the name, in any namespace.
func (g *grouping) anywhere(name string) bool {
	if g.names == nil {
		g.names = map[string]bool{}
		for _, u := range g.units {
			for _, s := range u.defs {
				g.names[s.name] = true
			}
		}
	}
	return g.names[name]
}

// provider returns the nearest unit that defines a symbol. Units in folders of tests and examples
// are a last resort outside these folders.
func (g *grouping) provider(u *unit, all []*unit) (best *unit) {
	far := 1 << 30
	for _, p := range all {
		if p == u || u.reads[p.file] || (p.language == "hip") != (u.language == "hip") && (p.language == "cuda" || u.language == "cuda") {
			continue
		}
		d := 2 * distance(path.Dir(u.file), path.Dir(p.file))
		if a := auxiliary(path.Dir(p.file)); a != "" && !strings.HasPrefix(u.file, a+"/") {
			d += 1000
		}
		if d < far {
			far, best = d, p
		}
	}
	return best
}

// reachable returns the nodes that edges lead to, from a node on.
func reachable[N comparable](from N, edges map[N][]N) map[N]bool {
	found := map[N]bool{}
	todo := slices.Clone(edges[from])
	for i := 0; i < len(todo); i++ {
		if n := todo[i]; !found[n] {
			found[n] = true
			todo = append(todo, edges[n]...)
		}
	}
	return found
}

// inOrder returns units sorted by file name.
func inOrder(set map[*unit]bool) []*unit {
	return slices.SortedFunc(maps.Keys(set), func(a, b *unit) int { return strings.Compare(a.file, b.file) })
}

// vendor returns the vendor of the unit's device code, or "".
func (u *unit) vendor() string {
	return map[string]string{"cuda": "nvidia", "hip": "amd"}[u.language]
}

// place identifies the library that a folder's units go to, unless they are programs.
type place struct{ dir, vendor string }

// adopt links units that nothing references, and that register themselves as tests do, to
// the only program of their folder.
func (g *grouping) adopt() {
	alone, needed := map[string]*unit{}, map[*unit]bool{}
	for _, u := range g.units {
		if !u.main {
			continue
		}
		dir := path.Dir(u.file)
		if _, ok := alone[dir]; ok {
			alone[dir] = nil
		} else {
			alone[dir] = u
		}
		maps.Copy(needed, reachable(u, g.links))
	}
	for _, u := range g.units {
		if m := alone[path.Dir(u.file)]; m != nil && !u.main && !needed[u] && u.registers && (u.language == "hip") == (m.language == "hip") {
			g.links[m] = append(g.links[m], u)
		}
	}
}

// makeTargets builds the targets: programs, and one library per folder.
func (g *grouping) makeTargets() {
	g.adopt()
	var programs []*target
	users := map[*unit][]*target{}
	for _, u := range slices.Concat(g.units, g.lacking) {
		if !u.main {
			continue
		}
		p := &target{kind: "executable", dir: path.Dir(u.file), units: []*unit{u}, vendor: u.vendor()}
		if n := len(u.lacking); n > 0 {
			p.aside = append(p.aside, "Needs "+several(headers(u.lacking))+", not found: "+u.lacking[0].from+".")
		}
		for _, c := range inOrder(reachable(u, g.links)) {
			users[c] = append(users[c], p)
			for _, w := range g.wants[c] {
				p.aside = appendNew(p.aside, "Needs "+w+".")
			}
		}
		for _, w := range g.wants[u] {
			p.aside = appendNew(p.aside, "Needs "+w+".")
		}
		programs = append(programs, p)
	}
	libraries, home := g.libraries(users, programs)
	for _, t := range slices.Concat(programs, libraries) {
		g.connect(t, home)
	}
	g.targets = slices.Concat(libraries, programs)
	g.nameTargets()
}

// libraries builds one library per folder. The units of a folder go into a program instead if only
// that program uses them. home maps each unit to its target.
func (g *grouping) libraries(users map[*unit][]*target, programs []*target) (libraries []*target, home map[*unit]*target) {
	places := map[place][]*unit{}
	for _, u := range g.units {
		if !u.main {
			at := place{path.Dir(u.file), ""}
			if u.vendor() == "amd" {
				at.vendor = "amd"
			}
			places[at] = append(places[at], u)
		}
	}
	home = map[*unit]*target{}
	for _, at := range slices.SortedFunc(maps.Keys(places), func(a, b place) int { return strings.Compare(a.dir+a.vendor, b.dir+b.vendor) }) {
		units := places[at]
		to := g.only(at, units, users, programs)
		if to == nil {
			to = &target{kind: "library", dir: at.dir}
			libraries = append(libraries, to)
		}
		for _, u := range units {
			home[u] = to
			to.units = append(to.units, u)
			if u.vendor() != "" && to.vendor == "" {
				to.vendor = u.vendor()
			}
		}
	}
	return g.merge(libraries, home), home
}

// only returns the program that all units of a folder belong to, or nil if they form a library. It
// is the only program that uses them, in that folder or elsewhere in the tree.
func (g *grouping) only(at place, units []*unit, users map[*unit][]*target, programs []*target) *target {
	var here []*target
	for _, p := range programs {
		if p.dir == at.dir && (p.vendor == "amd") == (at.vendor == "amd") {
			here = append(here, p)
		}
	}
	var user *target
	idle := 0
	for _, u := range units {
		for _, p := range users[u] {
			if user != nil && user != p {
				return nil
			}
			user = p
		}
		if len(users[u]) == 0 {
			idle++
		}
	}
	switch {
	case len(here) == 1 && (user == nil || user == here[0]):
		if user != nil && !g.defineTwice(here[0], units) {
			return here[0]
		}
	case len(here) == 0 && user != nil && idle == 0 && (user.vendor == "amd") == (at.vendor == "amd"):
		return user
	}
	return nil
}

// defineTwice reports whether adding the units to the program would define a symbol twice.
func (g *grouping) defineTwice(p *target, units []*unit) bool {
	seen := map[string]bool{}
	for _, u := range slices.Concat(p.units, units) {
		for key := range u.defs {
			if seen[key] {
				return true
			}
			seen[key] = true
		}
	}
	return false
}

// connect finds the libraries that a target links.
func (g *grouping) connect(t *target, home map[*unit]*target) {
	for _, u := range t.units {
		for _, p := range g.links[u] {
			if h := home[p]; h != nil && h != t && h.kind == "library" && !slices.Contains(t.needs, h) {
				t.needs = append(t.needs, h)
			}
		}
	}
	slices.SortFunc(t.needs, func(a, b *target) int { return strings.Compare(a.dir, b.dir) })
	slices.SortFunc(t.units, func(a, b *unit) int { return strings.Compare(a.file, b.file) })
}

// merge joins libraries that depend on each other.
func (g *grouping) merge(libraries []*target, home map[*unit]*target) (out []*target) {
	edges := map[*target][]*target{}
	for _, l := range libraries {
		for _, u := range l.units {
			for _, p := range g.links[u] {
				if h := home[p]; h != nil && h.kind == "library" {
					edges[l] = append(edges[l], h)
				}
			}
		}
	}
	reach := map[*target]map[*target]bool{}
	for _, l := range libraries {
		reach[l] = reachable(l, edges)
	}
	gone := map[*target]bool{}
	for _, l := range libraries {
		if gone[l] {
			continue
		}
		out = append(out, l)
		for _, other := range libraries {
			if other == l || gone[other] || !reach[l][other] || !reach[other][l] {
				continue
			}
			gone[other] = true
			for _, u := range other.units {
				home[u] = l
			}
			l.units = append(l.units, other.units...)
			l.dir = common(l.dir, other.dir)
			l.vendor = cmp.Or(l.vendor, other.vendor)
		}
	}
	return out
}

// common returns the nearest common parent of two folders.
func common(a, b string) string {
	for a != "." && a != b && !strings.HasPrefix(b, a+"/") {
		a = path.Dir(a)
	}
	return a
}
