package build

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

// A shared library that a link names may need others. GNU ld looks for those in the folders of -rpath-link, of the library itself, and at last in those
// of the dynamic loader, which it reads from ld.so.conf and what that includes. It takes no code of them, but a program exports what they refer to. A
// record of such a link has the text of these lists as a condition.

// loaderMark is the name of that condition among what a record discovered.
const loaderMark = "<folders of the dynamic loader>"

// loaderLists are where GNU ld looks for the list: in the prefix that Debian and others build it with first.
var loaderLists = []string{"/usr/etc/ld.so.conf", "/etc/ld.so.conf"}

// loaderConf is the condition as it is today, and the paths that it depends on.
func (r *Runner) loaderConf() (d cache.Digest, paths []string) {
	r.loader.once.Do(func() {
		h := sha256.New()
		for _, list := range loaderLists {
			r.loader.read(list, func(file string, text []byte) {
				r.Files.Digest(file) // it is seen: a quick look knows it by its stat
				fmt.Fprintf(h, "%s %d\n%s", file, len(text), text)
			})
		}
		h.Sum(r.loader.digest[:0])
	})
	return r.loader.digest, r.loader.paths
}

// loaderPaths are the paths that the condition depends on in a record that has it.
func (r *Runner) loaderPaths(rec *cache.Record) []string {
	if !discovers(rec, loaderMark) {
		return nil
	}
	_, paths := r.loaderConf()
	return paths
}

// loaderFolders is an answer that is found once in a run.
type loaderFolders struct {
	once   sync.Once
	digest cache.Digest
	paths  []string
}

// read gives a list and those that it includes, each once.
func (l *loaderFolders) read(file string, take func(file string, text []byte)) {
	if slices.Contains(l.paths, file) {
		return
	}
	l.paths = append(l.paths, file)
	text, err := regular.Read(file)
	if err != nil {
		return
	}
	take(file, text)
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
				l.read(f, take)
			}
		}
	}
}
