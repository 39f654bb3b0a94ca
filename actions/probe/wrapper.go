package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A compiler may be a script that calls another, or ccache, which calls distcc, which calls gcc. A
// query for its parts returns those of the compiler behind it, and omits the wrappers between. So
// scripts are read: every word that names a program is recorded as a part, which finds too many
// parts rather than too few. Options that a wrapper adds show in the steps that the compiler prints
// (-###), which also name the real compiler. If the chain cannot be followed (exec $CC "$@"),
// nothing is remembered about the compiler, and it is queried in each build.

// launchers are programs, not scripts, that call another compiler. Their first argument or the name
// that they are called by names it.
var launchers = []string{"ccache", "sccache", "distcc", "icecc"}

// behindWrapper adds the wrappers and the real compiler of a wrapped compiler to parts, and returns
// the steps that the real compiler would run, or "" for a compiler that does the work itself.
func (w *hostEnv) behindWrapper(compiler string, parts map[string]string) (steps string) {
	printed, _ := w.output(compiler, "-###", "-S", "-x", "c++", os.DevNull, "-o", os.DevNull)
	driver := w.driverOf(printed)
	if driver != "" && sameFile(driver, compiler) || driver == "" && !IsScript(compiler) {
		return ""
	}
	seen := map[string]bool{}
	w.follow(compiler, parts, seen)
	if driver == "" {
		return ""
	}
	parts["driver behind"] = driver
	w.addLibraries(parts, []string{"driver behind"})
	if !slices.ContainsFunc(launchers, func(l string) bool { return seen[realName(w.lookup(l, w.env("PATH")))] }) && !seen[realName(driver)] {
		w.trouble = true
	}
	for _, place := range []string{w.req.Root, os.TempDir()} {
		if place != "" && place != "/" {
			printed = strings.ReplaceAll(printed, place, "")
		}
	}
	return printed
}

var (
	collectGCC = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^COLLECT_GCC=(.+)$`) })
	clangCC1   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^ "([^"]+)" "-cc1"`) })
)

// driverOf returns the compiler that printed the steps said, as gcc and clang print them. It
// returns "" if the steps do not name it.
func (w *hostEnv) driverOf(printed string) string {
	for _, re := range []*regexp.Regexp{collectGCC(), clangCC1()} {
		if m := re.FindStringSubmatch(printed); m != nil {
			return w.lookup(m[1], w.env("PATH"))
		}
	}
	return ""
}

func realName(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return file
	}
	return real
}

// IsScript reports whether an interpreter runs a program.
func IsScript(file string) bool { return headOf(file, 2) == "#!" }

// mostFollowed limits the number of programs that are read behind a script.
const mostFollowed = 256

// follow adds the programs that a script names to parts, and recursively what those name. seen
// holds the programs that were read, by their real names.
func (w *hostEnv) follow(program string, parts map[string]string, seen map[string]bool) {
	real := realName(program)
	if seen[real] || len(seen) > mostFollowed {
		return
	}
	seen[real] = true
	if !IsScript(real) {
		return
	}
	w.reads(real)
	text, err := regular.Read(real)
	if err != nil {
		return
	}
	for _, word := range wordsOf(string(text)) {
		for _, file := range w.meant(word, program) {
			if !seen[realName(file)] {
				parts[fmt.Sprintf("behind %d %s", len(seen), filepath.Base(file))] = file
				w.follow(file, parts, seen)
			}
		}
	}
}

// wordsOf returns the words of a script that may name programs, each once, in order. It skips the
// first line, which names the shell.
func wordsOf(text string) (words []string) {
	_, text, _ = strings.Cut(text, "\n")
	known := map[string]bool{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("/._+-@~", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r < 0x80
	}) {
		if word = strings.TrimRight(word, "."); word != "" && !strings.HasPrefix(word, "-") && !known[word] {
			known[word], words = true, append(words, word)
		}
	}
	return words
}

// meant returns the programs that a word of a script may name. The rest of a path after a variable
// may be relative to the script's own folder.
func (w *hostEnv) meant(word, script string) (files []string) {
	if !strings.Contains(word, "/") {
		if p := w.lookup(word, w.env("PATH")); p != "" {
			files = append(files, p)
		}
		return files
	}
	own := filepath.Join(filepath.Dir(script), word)
	for _, p := range []string{word, own, filepath.Join(filepath.Dir(realName(script)), word)} {
		if filepath.IsAbs(p) && isProgram(p) && !slices.Contains(files, p) {
			files = append(files, p)
		}
	}
	for _, p := range []string{word, own} {
		if len(files) == 0 && filepath.IsAbs(p) && !exists(p) { // a folder is not a program
			w.absent[p] = true
		}
	}
	return files
}
