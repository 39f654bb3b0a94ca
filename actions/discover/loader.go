package discover

import (
	"crypto/sha256"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A shared library that a link names may need others. GNU ld searches for those in the folders of
// -rpath-link, of the library itself, and last in those of the dynamic loader. It reads the latter
// from ld.so.conf and its includes. It links no code of those libraries, but a program exports the
// symbols that they refer to. A record of such a link has the text of these lists as a condition.

// loaderLists are the paths where GNU ld looks for the list. The first is in the prefix that Debian
// and others build it with.
var loaderLists = []string{"/usr/etc/ld.so.conf", "/etc/ld.so.conf"}

// loader reads the lists once in a run.
type loader struct {
	build  Build
	once   sync.Once
	digest cache.Digest
	paths  []string
	texts  []byte // of all lists, each with its name and size
}

// conf returns the current digest of the condition, and the paths that it depends on.
func (l *loader) conf() (cache.Digest, []string) {
	l.once.Do(func() {
		for _, list := range loaderLists {
			l.read(list)
		}
		l.digest = sha256.Sum256(l.texts)
	})
	return l.digest, l.paths
}

// pathsOf returns the paths that the condition of a record depends on, if the record has it.
func (l *loader) pathsOf(rec *cache.Record) []string {
	if !Discovers(rec, loaderMark) {
		return nil
	}
	_, paths := l.conf()
	return paths
}

// read appends the text of a list and of those that it includes, once for each.
func (l *loader) read(file string) {
	if slices.Contains(l.paths, file) {
		return
	}
	l.paths = append(l.paths, file)
	text, err := regular.Read(file)
	if err != nil {
		return
	}
	l.build.Digest(file) // registers the file, so that the next build checks it by stat
	l.texts = fmt.Appendf(l.texts, "%s %d\n%s", file, len(text), text)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "include" {
			continue
		}
		for _, pattern := range words[1:] {
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(file), pattern)
			}
			l.paths = append(l.paths, path.Dir(pattern))
			found, _ := filepath.Glob(pattern)
			for _, f := range found {
				l.read(f)
			}
		}
	}
}
