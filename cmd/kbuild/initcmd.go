package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
)

type initCmd struct {
	Force bool `help:"Replace an existing kernels.hcl."`
}

// Run writes a manifest that builds the sources found: one executable per file with a main, and one
// library of the rest.
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
		return usagef("no .cu, .c, .cc, .cpp or .cxx file below %s", c.Dir)
	}
	if err := writeFile(file, []byte(manifestText(found))); err != nil {
		return err
	}
	fmt.Fprintf(c.err, "kbuild: wrote %s: %d programs, %d other sources. Try: kbuild plan\n", file, len(found.mains), len(found.rest))
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
	for h := range headers {
		s.includes = append(s.includes, h)
	}
	sort.Strings(s.includes)
	return s, err
}

func (s *sources) take(p, rel string, headers map[string]bool) error {
	switch filepath.Ext(rel) {
	case ".h", ".hpp", ".cuh", ".hh":
		if base := filepath.Base(filepath.Dir(rel)); base == "include" || base == "inc" {
			headers[filepath.ToSlash(filepath.Dir(rel))] = true
		}
		return s.scan(p, rel, false)
	case ".cu", ".c", ".cc", ".cpp", ".cxx":
		return s.scan(p, rel, true)
	}
	return nil
}

func (s *sources) scan(p, rel string, source bool) error {
	text, err := os.ReadFile(p)
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

func manifestText(s sources) string {
	var b strings.Builder
	mode, devMode := "whole", "whole"
	if s.relocatable {
		mode, devMode = "lto", "rdc"
	}
	fmt.Fprintf(&b, "# kernels.hcl: written by kbuild init. See kbuild's docs/manifest.md.\n\n")
	fmt.Fprintf(&b, "variable \"archs\" {\n  type        = list(string)\n  default     = [\"sm_80\", \"sm_90\"]\n  description = \"Code to ship: sm_* is SASS, compute_* is PTX.\"\n}\n\n")
	if s.relocatable {
		fmt.Fprintf(&b, "variable \"lto\" {\n  type    = bool\n  default = true\n}\n\nprofile \"dev\" { # quick links while editing: kbuild --profile dev\n  lto = false\n}\n\n")
	}
	fmt.Fprintf(&b, "gencode \"gpus\" {\n  code = var.archs\n}\n\ndefaults {\n  gencode = gencode.gpus\n")
	if s.relocatable {
		fmt.Fprintf(&b, "  mode    = var.lto ? %q : %q\n", mode, devMode)
	} else {
		fmt.Fprintf(&b, "  mode    = %q\n", mode)
	}
	if s.includes != nil {
		fmt.Fprintf(&b, "\n  includes = %s\n", quoteList(s.includes))
	}
	b.WriteString("}\n")
	deps := ""
	if len(s.rest) > 0 && len(s.mains) > 0 {
		fmt.Fprintf(&b, "\nlibrary \"common\" {\n  sources = %s\n}\n", quoteList(s.rest))
		deps = "\n  deps    = [library.common]"
	} else if len(s.rest) > 0 {
		fmt.Fprintf(&b, "\nlibrary \"kernels\" {\n  sources = %s\n}\n", quoteList(s.rest))
	}
	used := map[string]int{}
	for _, m := range s.mains {
		fmt.Fprintf(&b, "\nexecutable %q {\n  sources = [%q]%s\n}\n", programName(m, used), m, deps)
	}
	return b.String()
}

var nameRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_.+-]+`) })

// programName is the source's base name, or its folder's for main.cu, made unique.
func programName(m string, used map[string]int) string {
	name := strings.TrimSuffix(filepath.Base(m), filepath.Ext(m))
	if name == "main" && filepath.Dir(m) != "." && filepath.Base(filepath.Dir(m)) != "src" {
		name = filepath.Base(filepath.Dir(m))
	}
	name = nameRE().ReplaceAllString(name, "_")
	used[name]++
	if n := used[name]; n > 1 {
		name = fmt.Sprintf("%s_%d", name, n)
	}
	return name
}

func quoteList(list []string) string {
	if len(list) == 1 {
		return fmt.Sprintf("[%q]", list[0])
	}
	var b strings.Builder
	b.WriteString("[\n")
	for _, s := range list {
		fmt.Fprintf(&b, "    %q,\n", s)
	}
	b.WriteString("  ]")
	return b.String()
}
