package engine

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// librariesOf returns the libraries behind -l, each with the folders that some link searches for
// it. These are the folders of the target, and of the targets that it is linked with.
func librariesOf(p *manifest.Project) (libs []probe.Lib) {
	known, anyDirs := map[string]bool{}, false
	add := func(names, dirs []string) {
		for _, name := range names {
			if key := name + "\x00" + strings.Join(dirs, "\x00"); !known[key] {
				known[key], libs = true, append(libs, probe.Lib{Name: name, Dirs: dirs})
			}
		}
	}
	index := map[string]int{}
	for i, t := range p.Targets {
		index[t.Label()] = i
		anyDirs = anyDirs || len(t.LibDirs) > 0
		add(t.Libs, t.LibDirs)
	}
	if !anyDirs {
		return libs
	}
	visited := make([]int, len(p.Targets)) // the number of the last walk that visited a target
	for i, t := range p.Targets {
		if t.Kind == manifest.Library && !t.Shared && !t.DeviceLink {
			continue // other targets link it
		}
		var names, dirs []string
		visited[i] = i + 1
		for walk := []int{i}; len(walk) > 0; {
			u := p.Targets[walk[len(walk)-1]]
			walk = walk[:len(walk)-1]
			names, dirs = append(names, u.Libs...), append(dirs, u.LibDirs...)
			for _, d := range u.Deps {
				if k, ok := index[d.Label]; ok && visited[k] != i+1 {
					visited[k] = i + 1
					walk = append(walk, k)
				}
			}
		}
		slices.Sort(names)
		slices.Sort(dirs)
		add(slices.Compact(names), slices.Compact(dirs))
	}
	return libs
}
