package importer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Settings that all groups of a target share become attributes of the target. The others become
// partitions.

// groupOverrides holds the flags and defines of a group that the block's attributes do not express.
type groupOverrides struct {
	group   *Group
	flags   map[string][]string // by tool
	defines map[string]string   // HCL expression by name
}

var tools = []string{"nvcc", "cicc", "ptxas", "nvlink", "host", "link"}

// alike sets the attributes for sources of all languages and adds partitions.
func (s *shaper) alike(b *block, t *Target, first *Group) {
	std := s.standards(b, t, first)
	if opt := first.Opt; len(opt) > 1 {
		b.set("opt", quote(opt))
	} else {
		b.set("opt", opt)
	}
	if first.Debug {
		b.set("debug", "true")
	}
	lto := slices.ContainsFunc(t.Groups, func(g *Group) bool { return g.HostLTO })
	if lto {
		b.set("host_lto", `"full"`)
	}
	includes := commonIncludes(t)
	b.list(map[bool]string{true: "includes", false: "private_includes"}[s.Draft], includes)
	var list []groupOverrides
	for _, g := range t.Groups {
		list = append(list, s.say(g, first, std[g.Language], includes, lto))
	}
	all := hoist(list)
	if len(t.LinkFlags) > 0 {
		all.flags["link"] = t.LinkFlags
	}
	all.flags["nvlink"] = append(all.flags["nvlink"], t.NVLink...)
	if t.Relinks && t.Kind == "executable" {
		all.flags["nvlink"] = append(all.flags["nvlink"], "-ignore-host-info") // CMake links libcudart_static there, which makes nvlink keep all kernels
	}
	languages := map[string]bool{}
	for _, g := range t.Groups {
		languages[unlikeEnding(g)] = true
	}
	if len(languages) == 1 {
		if l := unlikeEnding(first); l != "" {
			b.set("language", quote(l), first.Why...)
		}
	}
	all.set(b)
	s.partitions(b, list, first, len(languages) > 1)
}

// unlikeEnding returns the language of a group if the extension of a source implies another one.
func unlikeEnding(g *Group) string {
	for _, f := range g.Sources {
		if manifest.LanguageOf(f) != g.Language && !(path.Ext(f) == ".cu" && g.Language == "hip") {
			return g.Language
		}
	}
	return ""
}

// standards sets std and returns the standards by language.
func (s *shaper) standards(b *block, t *Target, first *Group) map[string]string {
	std := map[string]string{"cuda": first.Std}
	for _, g := range slices.Backward(t.Groups) {
		if g.Language == "c" && g.Std != "" {
			std["c"] = g.Std
		}
		if g.Language == "c++" && first.Language != "cuda" && g.Std != "" {
			std["c++"] = g.Std
		}
	}
	if first.Language == "cuda" {
		std["c++"] = first.Std
	}
	var texts []string
	for _, v := range []string{std["c++"], std["c"]} {
		if v != "" {
			texts = append(texts, v)
		}
	}
	if len(texts) == 1 {
		b.set("std", quote(texts[0]))
	} else {
		b.items("std", "[", quoted(texts))
	}
	return std
}

// commonIncludes returns the longest common prefix of the groups' include folders.
func commonIncludes(t *Target) []string {
	common := t.Groups[0].Includes
	for _, g := range t.Groups[1:] {
		n := 0
		for n < len(common) && n < len(g.Includes) && common[n] == g.Includes[n] {
			n++
		}
		common = common[:n]
	}
	return common
}

// say returns the flags and defines that the group needs besides the attributes.
func (s *shaper) say(g, first *Group, std string, includes []string, lto bool) groupOverrides {
	out := groupOverrides{g, map[string][]string{}, map[string]string{}}
	add := func(tool string, words ...string) { out.flags[tool] = append(out.flags[tool], words...) }
	compiler := "host"
	if g.Language == "cuda" {
		compiler = "nvcc"
		add("cicc", g.CICC...)
		add("ptxas", g.PTXAS...)
		if g.LineInfo && !first.LineInfo {
			add("nvcc", "-lineinfo")
		}
	}
	for _, dir := range g.Includes[len(includes):] {
		add(compiler, "-I"+dir)
	}
	for _, dir := range g.System {
		add(compiler, "-isystem", dir)
	}
	add("nvcc", g.Flags...)
	if g.Std != std && g.Language != "cuda" {
		if g.Std == "" && g.Language == "c++" && s.DefaultStd != "" {
			add("host", "-std="+s.DefaultStd)
		} else if g.Std == "" {
			s.note("", "%s: compiled by the compiler's own standard, here as %s", strings.Join(g.Sources, ", "), std)
		} else {
			add("host", "-std="+g.Std)
		}
	}
	if g.Opt != first.Opt {
		add("host", "-O"+g.Opt)
	}
	if g.Debug != first.Debug {
		add("host", map[bool]string{true: "-g", false: "-g0"}[g.Debug])
	}
	if lto && !g.HostLTO && g.Language != "cuda" && g.Language != "asm" {
		add("host", "-fno-lto")
	}
	add("host", g.Host...)
	for _, d := range g.Defines {
		name, value, ok := strings.Cut(d, "=")
		out.defines[name] = "null"
		if ok {
			out.defines[name] = quote(value)
		}
	}
	return out
}

// hoist moves the settings that all groups share into the result.
func hoist(list []groupOverrides) groupOverrides {
	all := groupOverrides{nil, map[string][]string{}, maps.Clone(list[0].defines)}
	for name, value := range list[0].defines {
		for _, s := range list[1:] {
			if s.defines[name] != value {
				delete(all.defines, name)
			}
		}
	}
	for _, s := range list {
		maps.DeleteFunc(s.defines, func(name, value string) bool { return all.defines[name] == value })
	}
	hoistPacking(list, &all)
	for _, tool := range tools {
		var flags [][]string
		for _, s := range list {
			if tool == "host" || s.group.Language == "cuda" {
				flags = append(flags, s.flags[tool])
			}
		}
		if len(flags) == 0 || slices.ContainsFunc(flags, func(f []string) bool { return !slices.Equal(f, flags[0]) }) {
			continue
		}
		all.flags[tool] = append(all.flags[tool], flags[0]...)
		for _, s := range list {
			delete(s.flags, tool)
		}
	}
	return all
}

// hoistPacking moves the flags for packing device code out of the groups if they are equal. The
// device link uses the flags of the target, not those of partitions.
func hoistPacking(list []groupOverrides, all *groupOverrides) {
	var common [][]string
	for _, s := range list {
		if s.group.Language == "cuda" {
			packing, _ := nvcc.Packing(s.flags["nvcc"])
			common = append(common, packing)
		}
	}
	if len(common) == 0 || slices.ContainsFunc(common, func(p []string) bool { return !slices.Equal(p, common[0]) }) {
		return
	}
	all.flags["nvcc"] = common[0]
	for _, s := range list {
		_, s.flags["nvcc"] = nvcc.Packing(s.flags["nvcc"])
	}
}

// set writes the settings into a block.
func (s groupOverrides) set(b *block) {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(s.defines)) {
		key := name
		if plainName(name) != name {
			key = quote(name)
		}
		items = append(items, key+" = "+s.defines[name])
	}
	b.items("defines", "{", items)
	flags := &attribute{key: "flags"}
	for _, tool := range tools {
		var items []string
		for _, option := range splitFlags(tool, s.flags[tool]) {
			items = append(items, strings.Join(quoted(option), ", "))
		}
		if len(items) > 0 {
			flags.sub = append(flags.sub, &attribute{key: tool, items: items, open: "["})
		}
	}
	if flags.sub != nil {
		b.attrs = append(b.attrs, flags)
	}
}

// partitions adds a partition for each group with its own settings.
func (s *shaper) partitions(b *block, list []groupOverrides, first *Group, languages bool) {
	used := map[string]int{}
	for _, one := range list {
		name := map[string]string{"cuda": "cuda", "hip": "hip", "c++": "cxx", "c": "c", "asm": "asm"}[one.group.Language]
		if used[name]++; used[name] > 1 {
			name = fmt.Sprintf("%s_%d", name, used[name])
		}
		p := &block{kind: "partition", name: name}
		p.list("match", one.group.Sources)
		if l := unlikeEnding(one.group); languages && l != "" {
			p.set("language", quote(l), one.group.Why...)
		}
		if one.group.Language == "cuda" && one.group.Mode != first.Mode {
			p.set("mode", quote(one.group.Mode))
		}
		if one.set(p); len(p.attrs) > 1 {
			b.nested = append(b.nested, p)
		}
	}
}
