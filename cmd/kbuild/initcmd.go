package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

type initCmd struct {
	Force bool `help:"Replace an existing kernels.hcl."`
}

// Run writes a manifest that builds the sources found: one executable per file with a main, and
// libraries of the rest.
func (cmd initCmd) Run(c *cli) error {
	file := filepath.Join(c.Dir, c.manifestName())
	if _, err := os.Lstat(file); err == nil && !cmd.Force {
		return usagef("%s exists; --force replaces it", file)
	}
	found, err := findSources(c.Dir)
	if err != nil {
		return err
	}
	if len(found.mains)+len(found.rest) == 0 {
		return usagef("no .cu, .hip, .c, .cc, .cpp or .cxx file below %s", c.Dir)
	}
	err = regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.WriteString(manifestText(found))
		return err
	})
	if err != nil {
		return err
	}
	c.say("kbuild: wrote %s: %d programs, %d other sources. Try: kbuild plan", file, len(found.mains), len(found.rest))
	return nil
}

// sources are the files a new manifest is written for.
type sources struct {
	mains, rest []string
	includes    []string
	relocatable bool // a device function is declared in one file and defined in another, most likely
}

var (
	mainRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\s*(?:int|auto|extern\s+"C"\s+int)\s+main\s*\(`)
	})
	externRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`extern\s+__device__|__device__[^;{]*\)\s*;`) })
	ignored  = map[string]bool{"build": true, "third_party": true, "node_modules": true, "CMakeFiles": true}
)

func findSources(dir string) (sources, error) {
	var s sources
	headers := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (ignored[d.Name()] || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		return s.take(p, rel, headers)
	})
	s.includes = slices.Sorted(maps.Keys(headers))
	return s, err
}

func (s *sources) take(p, rel string, headers map[string]bool) error {
	switch filepath.Ext(rel) {
	case ".h", ".hpp", ".cuh", ".hh":
		if base := filepath.Base(filepath.Dir(rel)); base == "include" || base == "inc" {
			headers[filepath.ToSlash(filepath.Dir(rel))] = true
		}
		return s.scan(p, rel, false)
	case ".cu", ".hip", ".c", ".cc", ".cpp", ".cxx":
		return s.scan(p, rel, true)
	}
	return nil
}

func (s *sources) scan(p, rel string, source bool) error {
	text, err := regular.Read(p)
	if err != nil {
		return err
	}
	s.relocatable = s.relocatable || externRE().Match(text)
	switch {
	case !source:
	case mainRE().Match(text):
		s.mains = append(s.mains, rel)
	default:
		s.rest = append(s.rest, rel)
	}
	return nil
}
