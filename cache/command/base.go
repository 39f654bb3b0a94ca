package command

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Base is a folder that may stand at another place, with all that is in it: a checkout. The zero
// Base is none.
type Base struct {
	Dir string // absolute, without links
	Cwd string // the folder of the command below it, "." if it is the same

	Project string // what tells it from other projects, whose files may have the same names below theirs
}

// baseMark stands for the folder in what is kept. No argument, variable or name of a file holds it.
const baseMark = "\x00"

// FindBase finds the base of a command in dir, which is absolute and without links: the folder that
// KBUILD_BASE_DIR names; else that of the outermost git repository with an origin, other than the
// user's home, whose parts may be repositories of their own; else that of the outermost build tree
// of CMake, which pip makes anew for each build.
func FindBase(dir string, getenv func(string) string) Base {
	if named := getenv("KBUILD_BASE_DIR"); named != "" {
		real, err := filepath.EvalSymlinks(named)
		if err != nil || real != filepath.Clean(named) {
			return Base{}
		}
		return baseAt(real, dir, cmp.Or(originOf(real), filepath.Base(real)))
	}
	home := filepath.Clean(getenv("HOME"))
	repository, tree := "", ""
	for at := dir; at != home && len(at) > 1; at = filepath.Dir(at) {
		if _, err := os.Lstat(at + "/.git"); err == nil {
			repository = at
		}
		if _, err := os.Lstat(at + "/CMakeCache.txt"); err == nil {
			tree = at
		}
	}
	if repository != "" {
		return baseAt(repository, dir, originOf(repository))
	}
	return baseAt(tree, dir, sourceOf(tree))
}

// mostConfig is the size of a file of git or CMake that is read, in bytes.
const mostConfig = 4 << 20

// originOf is where the repository in a folder came from; "" if it does not say.
func originOf(base string) string {
	git := base + "/.git"
	if text, err := regular.ReadAtMost(git, mostConfig); err == nil { // a worktree, or part of another repository
		git = cache.Absolute(base, strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:")))
		if common, err := regular.ReadAtMost(git+"/commondir", mostConfig); err == nil {
			git = cache.Absolute(git, strings.TrimSpace(string(common)))
		}
	}
	text, _ := regular.ReadAtMost(git+"/config", mostConfig)
	_, origin, _ := strings.Cut(string(text), "[remote \"origin\"]")
	origin, _, _ = strings.Cut(origin, "\n[")
	for line := range strings.Lines(origin) {
		if name, url, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "url" {
			return strings.TrimSpace(url)
		}
	}
	return ""
}

// sourceOf is what a build tree of CMake is of.
func sourceOf(tree string) string {
	text, _ := regular.ReadAtMost(tree+"/CMakeCache.txt", mostConfig)
	_, home, _ := strings.Cut(string(text), "\nCMAKE_HOME_DIRECTORY:INTERNAL=")
	home, _, _ = strings.Cut(home, "\n")
	return home
}

// baseAt is the base if dir is in it.
func baseAt(base, dir, project string) Base {
	below, ok := strings.CutPrefix(dir+"/", base+"/")
	odd := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"\#$:%`, c) } // that dependency files or texts spell in other ways
	if base == "" || base == "/" || project == "" || !ok || strings.ContainsFunc(base, odd) {
		return Base{}
	}
	return Base{base, filepath.Clean(below), project}
}

// openers are the options, apart from those that end with =, whose value is a folder or file
// without a blank between.
var openers = [...]string{"-I", "-L", "-isystem", "-iquote", "-idirafter", "-include", "-imacros"}

// Spell writes the base in a text as a mark. ok is false if it stands where no path begins, so that
// the mark may mean something else elsewhere.
func (b Base) Spell(text string) (spelled string, ok bool) {
	if b.Dir == "" {
		return text, true
	}
	if strings.Contains(text, baseMark) {
		return text, false
	}
	var out strings.Builder
	ok = true
	for done := 0; ; {
		i := strings.Index(text[done:], b.Dir)
		if i < 0 {
			out.WriteString(text[done:])
			return out.String(), ok
		}
		at, end := done+i, done+i+len(b.Dir)
		out.WriteString(text[done:at])
		switch {
		case end < len(text) && isNamePart(text[end:]): // another folder, whose name begins like it
			out.WriteString(b.Dir)
			ok = ok && !endsSentence(text[end:])
		case !beginsPath(text[:at]):
			out.WriteString(b.Dir)
			ok = false
		default:
			out.WriteString(baseMark)
		}
		done = end
	}
}

// isNamePart reports that the name before a text goes on in it.
func isNamePart(text string) bool {
	c := text[0]
	return c == '_' || c == '-' || c == '.' || c == '+' || c == '~' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c >= utf8.RuneSelf && !strings.HasPrefix(text, "’")
}

// endsSentence reports a full stop that is perhaps not of a name.
func endsSentence(text string) bool {
	rest := strings.TrimLeft(text, ".")
	return rest != text && (rest == "" || !isNamePart(rest))
}

// beginsPath reports that a path may begin behind a text.
func beginsPath(before string) bool {
	if before == "" || strings.ContainsRune(" \t\n=,:;@'\"`([{<|", rune(before[len(before)-1])) || strings.HasSuffix(before, "‘") {
		return true
	}
	word := before[strings.LastIndexAny(before, " \t\n=,:;@'\"")+1:]
	return slices.Contains(openers[:], word)
}

// Write is the reverse of Spell.
func (b Base) Write(text string) string {
	if b.Dir == "" {
		return text
	}
	return strings.ReplaceAll(text, baseMark, b.Dir)
}

// Name is a path as it is to the folder of the command, if it is in the base: ../src/k.cu. ok is false for one that is not, and was given absolutely.
func (b Base) Name(path string) (name string, ok bool) {
	if !filepath.IsAbs(path) {
		return path, true
	}
	if b.Dir == "" {
		return path, false
	}
	below, ok := b.Below(path)
	switch {
	case !ok || b.Cwd == ".":
		return below, ok
	case below == ".":
		below = ""
	default:
		below = "/" + below
	}
	return strings.Repeat("../", strings.Count(b.Cwd, "/")) + ".." + below, true
}

// Below is a path, which is absolute, as it is to the base; ok is false if it is not in it.
func (b Base) Below(path string) (below string, ok bool) {
	below, ok = strings.CutPrefix(path, b.Dir)
	switch {
	case b.Dir == "" || !ok || below != "" && below[0] != '/':
		return path, false
	case len(below) < 2:
		return ".", true
	}
	return below[1:], true
}

// Leaves reports whether text has a path that names the base and climbs out of it by "..". At another
// place of the base it leads to another folder.
func (b Base) Leaves(text string) bool {
	for b.Dir != "" {
		_, rest, found := strings.Cut(text, b.Dir)
		if !found {
			break
		}
		first, _, _ := strings.Cut(rest, b.Dir)
		if end := strings.IndexAny(first, " \t\n,:;'\""); end >= 0 && climbs(first[:end]) || climbs(first) { // of a blank it is not known
			return true
		}
		text = rest
	}
	return false
}

// climbs reports that a path below a folder leads out of it.
func climbs(path string) bool {
	return strings.HasPrefix(filepath.Clean("."+path)+"/", "../")
}

// In reports whether content holds the name of the base.
func (b Base) In(content []byte) bool { return b.Dir != "" && bytes.Contains(content, []byte(b.Dir)) }
