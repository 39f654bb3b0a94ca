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
		used := map[string]int{}
		for _, t := range g.targets {
			if t.kind == kind {
				t.name = g.plainName(t, programs)
				used[t.name]++
			}
		}
		taken := map[string]bool{}
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

// clean returns a name that is valid in references.
func clean(name string) string {
	name = strings.Trim(nameRE().ReplaceAllString(name, "_"), "_")
	if name == "" || name[0] == '-' || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

func (g *grouping) plainName(t *target, programs bool) string {
	if t.kind == "executable" {
		f := mainOf(t).file
		name := strings.TrimSuffix(path.Base(f), path.Ext(f))
		if dir := telling(t.dir); name == "main" && dir != "" {
			name = path.Base(dir)
		}
		return clean(name)
	}
	suffix := map[bool]string{true: "_hip", false: ""}[t.vendor == "amd" && slices.ContainsFunc(g.targets, func(o *target) bool { return o != t && o.dir == t.dir && o.kind == "library" })]
	if dir := telling(t.dir); dir != "" {
		return clean(path.Base(dir)) + suffix
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
			return clean(strings.TrimPrefix(dir+"_"+name, "_"))
		}
	}
	if dir == "" {
		return t.name
	}
	return clean(dir)
}

// outputName returns the file name of a program. It is the source's name if only the rules for
// references changed it.
func (t *target) outputName() string {
	f := path.Base(mainOf(t).file)
	if stem := strings.TrimSuffix(f, path.Ext(f)); clean(stem) == t.name && !strings.ContainsAny(stem, " /$`") {
		return stem
	}
	return strings.TrimPrefix(t.name, "_")
}
