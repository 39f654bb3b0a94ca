package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// plainDirs lists folder names that do not describe their content.
var plainDirs = []string{"src", "source", "sources", "lib", "cuda", "hip", "gpu", "cpp", "app", "apps"}

// nameTargets names programs after their sources and libraries after their folders. It adds parent
// folders to make names unique.
func (g *grouping) nameTargets() {
	programs := slices.ContainsFunc(g.targets, func(t *target) bool { return t.kind == "executable" })
	for _, kind := range []string{"library", "executable"} {
		used, taken := map[string]int{}, map[string]bool{}
		for _, t := range g.targets {
			if t.kind == kind {
				t.name = g.shortName(t, programs)
				used[t.name]++
			}
		}
		for _, t := range g.targets {
			if t.kind != kind {
				continue
			}
			if used[t.name] > 1 {
				t.name = longName(t)
			}
			name := t.name
			for n := 2; taken[t.name]; n++ {
				t.name = fmt.Sprintf("%s_%d", name, n)
			}
			taken[t.name] = true
		}
	}
}

func (g *grouping) shortName(t *target, programs bool) string {
	if t.kind == "executable" {
		f := mainOf(t).file
		name := strings.TrimSuffix(path.Base(f), path.Ext(f))
		if dir := telling(t.dir); name == "main" && dir != "" {
			name = path.Base(dir)
		}
		return plainName(name)
	}
	suffix := map[bool]string{true: "_hip", false: ""}[t.vendor == "amd" && slices.ContainsFunc(g.targets, func(o *target) bool { return o != t && o.dir == t.dir && o.kind == "library" })]
	if dir := telling(t.dir); dir != "" {
		return plainName(path.Base(dir)) + suffix
	}
	return map[bool]string{true: "common", false: "kernels"}[programs] + suffix
}

func mainOf(t *target) *unit {
	if i := slices.IndexFunc(t.units, func(u *unit) bool { return u.main }); i >= 0 {
		return t.units[i]
	}
	return t.units[0]
}

// telling drops trailing folders that do not describe their content.
func telling(dir string) string {
	for dir != "." && slices.Contains(plainDirs, strings.ToLower(path.Base(dir))) {
		dir = path.Dir(dir)
	}
	if dir == "." {
		return ""
	}
	return dir
}

// longName returns a name that includes the folders.
func longName(t *target) string {
	dir := strings.ReplaceAll(telling(t.dir), "/", "_")
	if t.kind == "executable" {
		f := mainOf(t).file
		if name := strings.TrimSuffix(path.Base(f), path.Ext(f)); name != "main" || dir == "" {
			return plainName(dir + "_" + name)
		}
	}
	if dir == "" {
		return t.name
	}
	return plainName(dir)
}
