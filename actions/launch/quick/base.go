package quick

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

// Base is a folder that may be at another path, with everything in it, also on another machine: a
// checkout. The zero Base means that there is none.
type Base struct {
	Dir string // absolute, without links
	Cwd string // working directory of the command, relative to Dir; "." if it is Dir

	Project string // distinguishes projects whose files have the same names below Dir
}

// baseMark replaces Dir in stored texts. No argument, variable or file name contains it.
const baseMark = "\x00"

// FindBase returns the base of a command in dir, which must be absolute and without links. It tries
// in this order:
//
//   - the folder that KBUILD_BASE_DIR names;
//   - the folder of the outermost git repository with an origin, whose parts may be repositories
//     themselves, but not the user's home;
//   - the outermost CMake build tree, which pip creates again for each build.
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

// mostConfig is the maximum size of a git or CMake file to read, in bytes.
const mostConfig = 4 << 20

// originOf returns the URL of the remote named origin of a repository; "" if there is none.
func originOf(base string) string {
	git := base + "/.git"
	if text, err := regular.ReadAtMost(git, mostConfig); err == nil { // a worktree or a submodule
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

// sourceOf returns the source folder of a CMake build tree.
func sourceOf(tree string) string {
	text, _ := regular.ReadAtMost(tree+"/CMakeCache.txt", mostConfig)
	_, home, _ := strings.Cut(string(text), "\nCMAKE_HOME_DIRECTORY:INTERNAL=")
	home, _, _ = strings.Cut(home, "\n")
	return home
}

// baseAt returns base as a Base if dir is in it.
func baseAt(base, dir, project string) Base {
	below, ok := strings.CutPrefix(dir+"/", base+"/")
	// Characters that dependency files or texts may escape.
	odd := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"\#$:%`, c) }
	if base == "" || base == "/" || project == "" || !ok || strings.ContainsFunc(base, odd) {
		return Base{}
	}
	return Base{base, filepath.Clean(below), project}
}

// openers are the options, apart from those that end with =, whose value is a path in the same
// argument.
var openers = [...]string{"-I", "-L", "-isystem", "-iquote", "-idirafter", "-include", "-imacros"}

// Spell replaces the base in a text by the mark. ok is false if the base occurs where no path
// begins: there the mark could mean something else at another base.
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
		case end < len(text) && isNamePart(text[end:]):
			// Another folder whose name starts with the base.
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

// isNamePart reports whether a file name continues with text.
func isNamePart(text string) bool {
	c := text[0]
	return c == '_' || c == '-' || c == '.' || c == '+' || c == '~' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c >= utf8.RuneSelf && !strings.HasPrefix(text, "’")
}

// endsSentence reports whether text starts with a full stop that may end a sentence.
func endsSentence(text string) bool {
	rest := strings.TrimLeft(text, ".")
	return rest != text && (rest == "" || !isNamePart(rest))
}

// beginsPath reports whether a path may begin after this text.
func beginsPath(before string) bool {
	if before == "" || strings.ContainsRune(" \t\n=,:;@'\"`([{<|", rune(before[len(before)-1])) || strings.HasSuffix(before, "‘") {
		return true
	}
	word := before[strings.LastIndexAny(before, " \t\n=,:;@'\"")+1:]
	return slices.Contains(openers[:], word)
}

// Write is the inverse of Spell.
func (b Base) Write(text string) string {
	if b.Dir == "" {
		return text
	}
	return strings.ReplaceAll(text, baseMark, b.Dir)
}

// Name returns a path in the base relative to the command's working directory: ../src/k.cu. A
// relative path is returned unchanged. ok is false for an absolute path outside the base.
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

// Below returns an absolute path relative to the base; ok is false if it is outside the base.
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

// Leaves reports whether text contains a path that names the base and leaves it by "..". With
// another base such a path leads to another folder.
func (b Base) Leaves(text string) bool {
	for b.Dir != "" {
		_, rest, found := strings.Cut(text, b.Dir)
		if !found {
			break
		}
		first, _, _ := strings.Cut(rest, b.Dir)
		if end := strings.IndexAny(first, " \t\n,:;'\""); end >= 0 && climbs(first[:end]) || climbs(first) {
			// A blank may be part of the path.
			return true
		}
		text = rest
	}
	return false
}

// climbs reports whether a path below a folder leads out of it.
func climbs(path string) bool {
	return strings.HasPrefix(filepath.Clean("."+path)+"/", "../")
}

// In reports whether content contains the path of the base.
func (b Base) In(content []byte) bool { return b.Dir != "" && bytes.Contains(content, []byte(b.Dir)) }
