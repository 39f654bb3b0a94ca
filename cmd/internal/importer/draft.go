package importer

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// ReadSources reads the sources below a folder without starting a program. Each file with a main
// becomes a program, and shared sources become libraries.
func ReadSources(dir string, m Machine) (*Build, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t, err := findTree(abs, m)
	if err != nil {
		return nil, err
	}
	g := t.group()
	b := &Build{Root: abs, From: "the sources alone", Draft: true}
	linked := map[string]bool{}
	for _, target := range g.targets {
		out := g.convert(target)
		b.Targets = append(b.Targets, out)
		for _, archive := range out.Prebuilt {
			linked[archive] = true
		}
	}
	g.leaveOut(b, linked)
	if len(b.Targets)+len(b.Notes) == 0 {
		return nil, fmt.Errorf("no .cu, .hip, .c, .cc, .cpp or .cxx file below %s", dir)
	}
	return b, nil
}

// codesOf lists the device code that a draft ships, by language.
var codesOf = map[string][]gencode.Code{
	"cuda": {{Kind: gencode.SASS, Num: 80}, {Kind: gencode.SASS, Num: 90}},
	"hip":  {{Kind: gencode.GFX, Name: "gfx90a"}},
}

// convert returns the target in the terms of a foreign build. All sources have the same options.
func (g *grouping) convert(t *target) *Target {
	out := &Target{Name: t.name, Kind: t.kind, Aside: t.aside, Globs: g.globs(t)}
	if t.kind == "executable" {
		f := path.Base(mainOf(t).file)
		stem := strings.TrimSuffix(f, path.Ext(f))
		if stem != t.name && plainName(stem) == t.name && !strings.ContainsAny(stem, " /$`") {
			out.OutputName = stem
		}
	}
	for _, n := range t.needs {
		out.Deps = append(out.Deps, n.name)
	}
	var includes, host []string
	for _, u := range t.units {
		for _, dir := range u.dirs {
			includes = appendNew(includes, dir)
		}
		if u.openMP || u.system["omp.h"] {
			host = appendNew(host, "-fopenmp")
		}
		of := slices.IndexFunc(out.Groups, func(h *Group) bool { return h.Language == u.language })
		if of < 0 {
			of = len(out.Groups)
			h := &Group{Language: u.language}
			h.Codes = codesOf[u.language]
			h.Mode = "whole"
			out.Groups = append(out.Groups, h)
		}
		h := out.Groups[of]
		h.Sources = append(h.Sources, u.file)
		if u.why != "" {
			h.Why = append(h.Why, u.why+".")
		}
		if why := g.rdc[u]; why != "" && h.Mode == "whole" {
			h.Mode, h.ModeWhy = "lto", why+"."
		}
	}
	for _, h := range out.Groups {
		h.Includes, h.Host = includes, host
		if n := len(h.Why); n > 4 {
			h.Why = append(h.Why[:3], fmt.Sprintf("And %d more.", n-3))
		}
	}
	g.addLibs(t, out)
	return out
}

// globs returns patterns for folders all of whose sources of one extension are in the target.
func (g *grouping) globs(t *target) (patterns []string) {
	count := map[string]int{}
	for _, u := range t.units {
		count[path.Dir(u.file)+"/*"+path.Ext(u.file)]++
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		all := 0
		for f := range g.files {
			if path.Dir(f)+"/*"+path.Ext(f) == k && !strings.HasPrefix(path.Base(f), ".") {
				all++
			}
		}
		if count[k] > 1 && count[k] == all && !strings.ContainsAny(path.Dir(k), "*?[]{}\\") {
			patterns = append(patterns, strings.TrimPrefix(k, "./"))
		}
	}
	return patterns
}

// addLibs adds the libraries of the system and the archives of the tree. A missing library excludes
// the target from the default build.
func (g *grouping) addLibs(t *target, out *Target) {
	for _, u := range t.units {
		for _, name := range u.libs() {
			isIt := func(a string) bool { return path.Base(a) == "lib"+name+".a" }
			if i := slices.IndexFunc(g.archives, isIt); i >= 0 {
				out.Prebuilt = appendNew(out.Prebuilt, g.archives[i])
				continue
			}
			if !g.Machine.links(name) && len(u.lacking) == 0 {
				out.Aside = appendNew(out.Aside, fmt.Sprintf("Needs -l%s for %s, not found.", name, u.file))
			}
			out.Libs = appendNew(out.Libs, name)
		}
	}
	if g.hostOnly(t) {
		runtime := "cudart_static"
		if g.Machine.links("cudart") {
			runtime = "cudart"
		}
		out.Libs = append(out.Libs, runtime)
	}
	slices.Sort(out.Libs)
}

// hostOnly reports whether a program without device code calls the CUDA runtime. kbuild links the
// runtime implicitly only if there is device code.
func (g *grouping) hostOnly(t *target) (calls bool) {
	if t.kind != "executable" {
		return false
	}
	for _, p := range t.all() {
		for _, u := range p.units {
			if u.vendor() != "" {
				return false
			}
			calls = calls || u.callsRuntime()
		}
	}
	return calls
}

// leaveOut notes every source that is not built, and each missing header once.
func (g *grouping) leaveOut(b *Build, linked map[string]bool) {
	files := func(why string, files []string) {
		if len(files) > 0 {
			b.note("", "%s: %s", why, several(files))
		}
	}
	byHeader, optional := map[string][]string{}, map[string]string{}
	left := map[string]bool{} // sources that no other note names
	for _, f := range g.sources {
		left[f] = true
	}
	for _, u := range g.lacking {
		delete(left, u.file)
		for _, n := range u.lacking {
			byHeader[n.header] = append(byHeader[n.header], u.file)
		}
	}
	for _, header := range slices.Sorted(maps.Keys(byHeader)) {
		b.note("", "%s was not found, for %s", header, several(byHeader[header]))
	}
	for i, t := range g.targets {
		for _, u := range t.units {
			delete(left, u.file)
		}
		for _, why := range b.Targets[i].Aside {
			if strings.Contains(why, "Needs -l") {
				b.note(t.label(), "n%s", strings.TrimSuffix(why[1:], "."))
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(g.unwanted)) {
		files(why, g.unwanted[why])
		for _, f := range g.unwanted[why] {
			delete(left, f)
		}
	}
	for _, u := range g.units {
		delete(g.included, u.file)
		for _, n := range u.optional {
			optional[n.header] = n.from
		}
	}
	for _, header := range slices.Sorted(maps.Keys(optional)) {
		if byHeader[header] == nil {
			b.note("", "%s was not found; %s includes it in some cases only", header, optional[header])
		}
	}
	files("included by other sources, so not compiled", slices.Collect(maps.Keys(g.included)))
	byEnding := map[string][]string{}
	for _, f := range g.others {
		byEnding[path.Ext(f)] = append(byEnding[path.Ext(f)], f)
	}
	for _, ending := range slices.Sorted(maps.Keys(byEnding)) {
		files("kbuild has no language for "+ending, byEnding[ending])
	}
	files("links to folders outside are not followed", g.unfollowed)
	files("sources in folders of third-party code", g.foreign)
	isLinked := func(archive string) bool { return linked[archive] }
	files("archives that no header names", slices.DeleteFunc(slices.Clone(g.archives), isLinked))
	for f := range g.included {
		delete(left, f)
	}
	files("no target needs", slices.Collect(maps.Keys(left)))
}

// several lists a few files and counts the rest.
func several(files []string) string {
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(files[:5], ", "), len(files)-5)
	}
	return strings.Join(files, ", ")
}
