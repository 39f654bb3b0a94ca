package main

import (
	"os"
	"path/filepath"
)

// locate finds the manifest in the current folder or the nearest parent, as git and cargo do. It
// does nothing if -C or -f is given.
func (c *cli) locate() {
	if c.Dir != "." || c.File != "" || c.located {
		return
	}
	c.located = true
	here, err := filepath.Abs(".")
	if err != nil {
		return
	}
	for dir, up := here, "."; ; dir, up = filepath.Dir(dir), filepath.Join(up, "..") {
		if info, err := os.Stat(filepath.Join(dir, c.manifestName())); err == nil && info.Mode().IsRegular() {
			if c.Dir = up; up != "." {
				c.below, _ = filepath.Rel(dir, here)
			}
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// named maps names on the command line to the manifest's folder. Only names of existing files in a
// folder below it change.
func (c *cli) named(names []string) []string {
	c.locate()
	if c.below == "" {
		return names
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if info, err := os.Stat(name); err == nil && !info.IsDir() && !filepath.IsAbs(name) {
			out[i] = filepath.ToSlash(filepath.Join(c.below, name))
		}
	}
	return out
}
