package importer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
)

// vendor describes the device code that a new manifest ships for one GPU vendor, and its names
// there.
type vendor struct {
	name, variable, gencode string
	code                    []string
	describe, from          string
}

// drafter turns a grouping into a draft.
type drafter struct {
	*grouping
	draft     *Document
	vendors   []vendor
	prebuilts map[string]*block // by their names in -l
	made      map[string]string // labels of generate blocks, by header
	byDir     map[string]int    // number of sources by folder and extension
	settings  map[*target]*settings
}

// settings holds the attributes of a target.
type settings struct {
	block *block
	attrs map[string]*attribute
}

// shared lists the attributes that go into defaults if all targets that can have them agree.
var shared = []string{"gencode", "mode", "std", "fast_math", "max_registers", "includes", "defines", "flags", "libs"}

// Draft returns a first manifest for the tree.
func (t *Tree) Draft() *Document {
	g := t.group()
	s := &drafter{grouping: g, draft: &Document{Head: []string{"kernels.hcl: written by kbuild init. See kbuild's docs/init.md and docs/manifest.md."}, Lost: "Left out, or not built by default"}, prebuilts: map[string]*block{}, made: map[string]string{}, byDir: map[string]int{}, settings: map[*target]*settings{}}
	for f := range t.files {
		if !strings.HasPrefix(path.Base(f), ".") {
			s.byDir[path.Dir(f)+"/*"+path.Ext(f)]++
		}
	}
	s.findVendors()
	s.prebuilt()
	for _, target := range g.targets {
		s.target(target)
	}
	s.write()
	s.leaveOut()
	return s.draft
}

// findVendors selects the vendors that the sources target, or NVIDIA by default. A single vendor
// gets short names.
func (s *drafter) findVendors() {
	has := map[string]bool{}
	for _, t := range s.targets {
		has[t.vendor] = true
	}
	if has["nvidia"] || !has["amd"] {
		s.vendors = append(s.vendors, s.nvidia())
	}
	if has["amd"] {
		s.vendors = append(s.vendors, vendor{"amd", "hip_archs", "amd", []string{"gfx90a"}, "Code to ship: gfx* is a HIP code object.", ""})
	}
	if len(s.vendors) == 1 {
		s.vendors[0].variable, s.vendors[0].gencode = "archs", "gpus"
	}
}

// nvidia returns the architectures that most sources' build files select and the toolkit supports.
func (s *drafter) nvidia() vendor {
	v := vendor{"nvidia", "archs", "nvidia", []string{"sm_80", "sm_90"}, "Code to ship: sm_* is SASS, compute_* is PTX.", ""}
	votes, most := map[string]int{}, 0
	for _, u := range s.units {
		if u.language != "cuda" || len(u.hints.archs) == 0 {
			continue
		}
		var known []string
		for _, a := range u.hints.archs {
			if strings.HasPrefix(a, "all") || a != "native" && (len(s.Machine.Archs) == 0 || slices.Contains(s.Machine.Archs, strings.Replace(a, "compute_", "sm_", 1))) {
				known = append(known, a)
			}
		}
		key := strings.Join(known, " ")
		if votes[key]++; votes[key] > most {
			most = votes[key]
			v.from = "By " + u.hints.from["code"] + "."
			if v.code = known; len(known) == 0 {
				v.code, v.from = []string{"sm_80", "sm_90"}, fmt.Sprintf("%s asks for %s, and the toolkit here compiles for none of that (native is for a machine with a GPU).", u.hints.from["code"], strings.Join(u.hints.archs, ", "))
			}
		}
	}
	return v
}

// prebuilt creates a block for each archive in the tree.
func (s *drafter) prebuilt() {
	used := map[string]bool{}
	for _, a := range s.archives {
		name := strings.TrimPrefix(strings.TrimSuffix(path.Base(a), ".a"), "lib")
		if used[name] {
			continue
		}
		used[name] = true
		b := &block{kind: "prebuilt", name: clean(name)}
		b.set("archive", quote(a))
		s.prebuilts[name] = b
	}
}

// target collects the attributes of a target.
func (s *drafter) target(t *target) {
	b := &block{kind: t.kind, name: t.name}
	set := &settings{b, map[string]*attribute{}}
	s.settings[t] = set
	b.comments = t.aside
	b.attrs = append(b.attrs, s.sources(t))
	if name := t.outputName(); t.kind == "executable" && name != t.name {
		b.set("output_name", quote(name))
	}
	var deps []string
	for _, n := range t.needs {
		deps = append(deps, n.label())
	}
	deps = append(deps, s.generated(t)...)
	libs, prebuilts := s.libs(t)
	b.items("deps", "[", append(deps, prebuilts...))
	scratch := &block{}
	for i, v := range s.vendors {
		if t.vendor == v.name && i > 0 {
			scratch.set("gencode", "gencode."+v.gencode)
		}
	}
	if t.vendor == s.vendors[0].name || t.vendor == "" && len(s.vendors) > 0 {
		scratch.set("gencode", "gencode."+s.vendors[0].gencode)
	}
	s.mode(t, scratch)
	s.compile(t, scratch)
	scratch.list("libs", libs)
	s.languages(t, b, scratch)
	for _, a := range scratch.attrs {
		set.attrs[a.key] = a
	}
}

// sources lists the sources. It uses a glob if the target has all sources of a folder.
func (s *drafter) sources(t *target) *attribute {
	count := map[string]int{}
	key := func(u *unit) string { return path.Dir(u.file) + "/*" + path.Ext(u.file) }
	for _, u := range t.units {
		count[key(u)]++
	}
	var globs, items []string
	for _, u := range t.units {
		k := key(u)
		if n := count[k]; n > 1 && n == s.byDir[k] && !strings.ContainsAny(path.Dir(k), "*?[]{}\\") {
			if pattern := quote(strings.TrimPrefix(k, "./")); !slices.Contains(globs, pattern) {
				globs = append(globs, pattern)
			}
			continue
		}
		items = append(items, quote(u.file))
	}
	switch {
	case len(globs) == 0:
		return &attribute{key: "sources", open: "[", items: items}
	case len(items) == 0:
		return &attribute{key: "sources", expr: "glob(" + strings.Join(globs, ", ") + ")"}
	}
	return &attribute{key: "sources", open: "concat(glob(" + strings.Join(globs, ", ") + "), [", items: items}
}

// libs returns the libraries of the system and those of the tree. A missing library excludes the
// target from the default build.
func (s *drafter) libs(t *target) (libs, prebuilts []string) {
	for _, u := range t.units {
		for _, l := range u.libs() {
			name, doubtful := strings.CutPrefix(l, "?")
			if p := s.prebuilts[name]; p != nil {
				prebuilts = appendNew(prebuilts, p.label())
				continue
			}
			switch {
			case slices.ContainsFunc(s.targets, func(o *target) bool { return o.kind == "library" && o.name == name }):
			case s.Machine.links(name) && (!doubtful || len(s.Machine.LibDirs) > 0 && t.kind == "executable"):
				libs = appendNew(libs, name)
			case !doubtful && len(u.lacking) == 0:
				t.aside = appendNew(t.aside, fmt.Sprintf("Needs -l%s for %s, not found.", name, u.file))
				libs = appendNew(libs, name)
			case !doubtful:
				libs = appendNew(libs, name)
			}
		}
	}
	if s.hostOnly(t) {
		libs = appendNew(libs, map[bool]string{true: "cudart", false: "cudart_static"}[s.Machine.links("cudart")])
	}
	sort.Strings(libs)
	s.settings[t].block.comments = t.aside
	return libs, prebuilts
}

// hostOnly reports whether a program without device code calls the CUDA runtime. kbuild links the
// runtime implicitly only if there is device code.
func (s *drafter) hostOnly(t *target) bool {
	if t.kind != "executable" {
		return false
	}
	calls := false
	for _, p := range t.all() {
		for _, u := range p.units {
			if u.language == "cuda" || u.language == "hip" {
				return false
			}
			calls = calls || u.callsRuntime()
		}
	}
	return calls
}

// mode sets the device code mode if a source needs another mode than whole.
func (s *drafter) mode(t *target, b *block) {
	for _, u := range t.units {
		if u.language != "cuda" && u.language != "hip" {
			continue
		}
		if u.hints.mode != "" && u.language == "cuda" {
			b.set("mode", quote(u.hints.mode), "By "+u.hints.from["mode"]+".")
			return
		}
	}
	for _, u := range t.units {
		if why := s.rdc[u]; why != "" {
			b.set("mode", `var.lto ? "lto" : "rdc"`, why+".")
			return
		}
	}
	if t.vendor != "" {
		b.set("mode", `"whole"`)
	}
}

// compile sets the attributes that build files define.
func (s *drafter) compile(t *target, b *block) {
	var includes, nvcc, host []string
	defines := map[string]string{}
	maxRegs, fast := "", false
	for _, u := range t.units {
		h := u.hints
		includes, host = union(includes, u.dirs), union(host, h.host)
		for name, v := range h.defines {
			if _, ok := defines[name]; !ok {
				defines[name] = v
			}
		}
		if u.language == "cuda" {
			nvcc = union(nvcc, h.nvcc)
			fast, maxRegs = fast || h.fastMath, cmp.Or(maxRegs, h.maxRegs)
		}
		if u.openMP || u.system["omp.h"] {
			host = appendNew(host, "-fopenmp")
		}
	}
	s.standard(t, b)
	if fast {
		b.set("fast_math", "true", t.by("fast_math")...)
	}
	if maxRegs != "" {
		b.set("max_registers", maxRegs, t.by("max_registers")...)
	}
	b.list("includes", includes)
	b.items("defines", "{", defineItems(defines), t.by("defines")...)
	flags := &attribute{key: "flags", comments: t.by("flags")}
	for _, f := range []struct {
		key  string
		list []string
	}{{"nvcc", nvcc}, {"host", host}} {
		if len(f.list) > 0 {
			flags.sub = append(flags.sub, &attribute{key: f.key, open: "[", items: quoted(f.list)})
		}
	}
	if flags.sub != nil {
		b.attrs = append(b.attrs, flags)
	}
}

// by returns a comment that names the origin of an attribute.
func (t *target) by(what string) []string {
	for _, u := range t.units {
		if at := u.hints.from[what]; at != "" {
			return []string{"By " + at + "."}
		}
	}
	return nil
}

// standard sets the C++ and the C standard. nvcc supports C++20 only since CUDA 12.
func (s *drafter) standard(t *target, b *block) {
	std, cStd := "", ""
	for _, u := range t.units {
		if u.language == "asm" {
			continue
		}
		if u.language == "c" {
			cStd = cmp.Or(cStd, u.hints.cStd)
		} else {
			std = cmp.Or(std, u.hints.std)
		}
	}
	major := 0
	fmt.Sscanf(s.Machine.Version, "%d", &major)
	by := t.by("std")
	if major > 0 && major < 12 && standardYear(std) >= 20 && t.vendor == "nvidia" {
		by = append(by, "nvcc "+s.Machine.Version+" does not know "+std+", which is asked for there.")
		std = "c++17"
	}
	if major >= 13 && std != "" && standardYear(std) < 17 && t.vendor == "nvidia" && slices.ContainsFunc(t.units, (*unit).usesCCCL) {
		by = append(by, "Thrust and CUB of CUDA "+s.Machine.Version+" need C++17; "+std+" is asked for there.")
		std = "c++17"
	}
	if v, ok := strings.CutPrefix(std, "gnu++"); ok && t.vendor == "nvidia" {
		by = append(by, "nvcc does not know "+std+", which is asked for there.")
		std = "c++" + v
	}
	if std == "c++98" && t.vendor == "nvidia" {
		by = append(by, "nvcc knows the same standard as c++03.")
		std = "c++03"
	}
	switch {
	case std != "" && cStd != "":
		b.list("std", []string{std, cStd}, by...)
	case std+cStd != "":
		b.set("std", quote(std+cStd), by...)
	}
}

func union(list, more []string) []string {
	for _, s := range more {
		list = appendNew(list, s)
	}
	return list
}

func defineItems(defines map[string]string) (items []string) {
	for _, name := range slices.Sorted(maps.Keys(defines)) {
		items = append(items, name+" = "+quote(defines[name]))
	}
	return items
}

// usesCCCL reports whether the unit includes CUDA's C++ libraries, which need a newer standard.
func (u *unit) usesCCCL() bool {
	for header := range u.system {
		if strings.HasPrefix(header, "thrust/") || strings.HasPrefix(header, "cub/") || strings.HasPrefix(header, "cuda/std/") {
			return true
		}
	}
	return false
}

// languages sets the language of sources whose extension does not imply it.
func (s *drafter) languages(t *target, b, set *block) {
	other := map[string][]*unit{}
	for _, u := range t.units {
		if u.why != "" && path.Ext(u.file) != ".cu" {
			other[u.language] = append(other[u.language], u)
		}
	}
	for _, l := range slices.Sorted(maps.Keys(other)) {
		units := other[l]
		var files, why []string
		for _, u := range units {
			files, why = append(files, u.file), append(why, u.why+".")
		}
		if len(why) > 4 {
			why = append(why[:3], fmt.Sprintf("And %d more.", len(units)-3))
		}
		same := !slices.ContainsFunc(t.units, func(u *unit) bool { return u.language != l })
		if same {
			set.set("language", quote(l), why...)
			continue
		}
		p := &block{kind: "partition", name: l}
		p.list("match", files)
		p.set("language", quote(l), why...)
		b.nested = append(b.nested, p)
	}
}
