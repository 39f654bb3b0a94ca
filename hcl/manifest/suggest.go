package manifest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// synonyms maps words of other build tools to those of a manifest.
var synonyms = map[string]string{
	"srcs": "sources", "src": "sources", "files": "sources",
	"dependencies": "deps", "link": "deps", "link_libraries": "deps", "depends": "deps",
	"include_dirs": "includes", "include_directories": "includes", "hdrs": "includes",
	"inherits":    "defaults",
	"definitions": "defines", "copts": "flags", "cflags": "flags", "options": "flags",
	"nvcc_flags": "flags",
	"arch":       "code", "archs": "code", "architectures": "code", "cuda_architectures": "code",
	"cxx_std": "std", "standard": "std", "regs": "max_registers", "maxrregcount": "max_registers",
	"args": "command", "cmd": "command", "optimize": "opt", "optimization": "opt",
	"use_fast_math":  "fast_math",
	"static_library": "library", "shared_library": "library", "binary": "executable",
	"program":        "executable",
	"custom_command": "generate", "target": "executable", "local": "locals", "vars": "variable",
}

// Nearest returns the known name closest to a misspelt one; "" if none is close.
func Nearest(name string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	if s := synonyms[name]; s != "" && slices.Contains(known, s) {
		return s
	}
	best, limit := "", max(1, (utf8.RuneCountInString(name)+2)/4)
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d <= limit && d < len(name) {
			best, limit = k, d-1
		}
	}
	return best
}

// comparisons limits the names that one load compares for suggestions. If the folder of 16,000
// sources was renamed, each of them is missing, and comparing all pairs would take minutes.
const comparisons = 200_000

// nearest is Nearest within the limit of comparisons.
func (l *reports) nearest(name string, known []string) string {
	if l.compared += len(known); l.compared > comparisons {
		return ""
	}
	return Nearest(name, known)
}

// didYouMean is didYouMean within that limit.
func (l *reports) didYouMean(name string, known []string) string {
	return meant(l.nearest(name, known))
}

// didYouMean returns the end of a summary: `; did you mean "solver"?`, or "".
func didYouMean(name string, known []string) string {
	return meant(Nearest(name, known))
}

// unknown reports a name that is none of the known ones. format is followed by a suggestion.
func (l *reports) unknown(
	rng hcl.Range, what, name string, known []string, format string, args ...any,
) {
	l.errorAt(rng, knownNames(what, known), format+"%s", append(args, l.didYouMean(name, known))...)
}

func meant(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", name)
}

// knownNames returns a help line with the known names, if they are few.
func knownNames(what string, known []string) string {
	if len(known) == 0 {
		return "There is no " + what + " in this manifest."
	}
	if len(known) > 12 {
		return ""
	}
	return allNames(known)
}

// allNames returns a help line with all known names.
func allNames(known []string) string {
	return "Known: " + strings.Join(slices.Sorted(slices.Values(known)), ", ") + "."
}

// distance counts insertions, deletions, substitutions and swaps of neighbors (optimal string
// alignment), since swaps are common typing errors.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(x)][len(y)]
}
