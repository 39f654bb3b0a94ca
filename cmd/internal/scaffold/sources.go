// Package scaffold writes a first manifest for the sources of a folder: a program for each file with a main, and libraries of the rest. It
// knows what sources look like, and nothing of compilers.
package scaffold

import (
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Sources are the files a new manifest is written for.
type Sources struct {
	Programs, Others []string // those with a main, and the others
	includes         []string
	relocatable      bool // a device function is declared in one file and defined in another, most likely
}

var (
	mainRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\s*(?:int|auto|extern\s+"C"\s+int)\s+main\s*\(`)
	})
	externRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`extern\s+__device__|__device__[^;{]*\)\s*;`) })
	ignored  = map[string]bool{"build": true, "third_party": true, "node_modules": true, "CMakeFiles": true}
)

// Find looks for sources below a folder, but in folders of builds and of others' code.
func Find(dir string) (Sources, error) {
	var s Sources
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

func (s *Sources) take(p, rel string, headers map[string]bool) error {
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

func (s *Sources) scan(p, rel string, source bool) error {
	text, err := regular.Read(p)
	if err != nil {
		return err
	}
	s.relocatable = s.relocatable || externRE().Match(text)
	switch {
	case !source:
	case mainRE().Match(text):
		s.Programs = append(s.Programs, rel)
	default:
		s.Others = append(s.Others, rel)
	}
	return nil
}
