package discover

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
)

// A header with #pragma once is read once, and the compilers have to say which files are one. clang
// takes those of one inode for it. gcc takes those of one size, one content and one time stamp in
// seconds, and does not name the second one in its dependency file. So what a compile reads depends
// on more than content: two equal headers that one checkout wrote within a second are two after
// touch. A record of such a compile has, for each set of equal headers, which of them are one as a
// condition.
//
// Sets within the system or the toolkit are left out: Thrust has dozens of them, and another
// machine installed them in other seconds. So is a second header whose name a macro makes.

// oneMark begins the condition; the files follow, with newlines between.
const oneMark = "<one of> "

// onceHeaders gives the conditions of headers that are equal, and such headers as were left out for
// being equal, which no dependency file names.
func (s *compile) onceHeaders(found []cache.FileDigest, quoted, angled []string) (there []cache.FileDigest) {
	system := systemDirs(found)
	isSystem := func(f string) bool {
		return slices.ContainsFunc(system, func(dir string) bool { return strings.HasPrefix(f, dir) })
	}
	sets := map[cache.Digest][]string{}
	imports := slices.ContainsFunc(found, func(f cache.FileDigest) bool { return !isSystem(f.Path) && s.sources.scan(f.Path).imports })
	for _, f := range found {
		if !IsCondition(f.Path) && (imports || s.sources.scan(f.Path).once) {
			sets[f.Digest] = append(sets[f.Digest], f.Path)
		}
	}
	own := slices.DeleteFunc(append(slices.Clone(s.ran.Action.Inputs), paths(found)...), func(f string) bool { return IsCondition(f) || isSystem(f) })
	if slices.ContainsFunc(own, func(f string) bool { return imports || s.sources.scan(f).once }) {
		for _, f := range s.leftOut(sets, found, own, quoted, angled) {
			sets[f.Digest] = append(sets[f.Digest], f.Path)
			there = append(there, f)
		}
	}
	for _, files := range sets {
		if len(files) < 2 || !slices.ContainsFunc(files, func(f string) bool { return !isSystem(f) }) {
			continue
		}
		slices.Sort(files)
		digest, err := s.whichAreOne(files)
		if err != nil {
			there = append(there, Never("a header went away"))
			continue
		}
		there = append(there, cache.FileDigest{Path: oneMark + strings.Join(files, "\n"), Digest: digest})
	}
	slices.SortFunc(there, func(a, b cache.FileDigest) int { return strings.Compare(a.Path, b.Path) })
	return there
}

// leftOut are the files that own ones include by name and that are equal to one of a set, but were
// not read.
func (s *compile) leftOut(sets map[cache.Digest][]string, found []cache.FileDigest, own, quoted, angled []string) (out []cache.FileDigest) {
	sizes, known := map[int64]bool{}, map[string]bool{}
	for _, f := range found {
		known[f.Path] = true
		if info, err := os.Stat(s.Abs(f.Path)); err == nil && sets[f.Digest] != nil {
			sizes[info.Size()] = true
		}
	}
	look := func(p string) {
		p = s.Name(p)
		if known[p] || !s.Listing.Exists(p) {
			return
		}
		known[p] = true
		if info, err := os.Stat(s.Abs(p)); err != nil || !info.Mode().IsRegular() || !sizes[info.Size()] {
			return
		}
		if d, err := s.Digest(p); err == nil && sets[d] != nil {
			out = append(out, cache.FileDigest{Path: p, Digest: d})
		}
	}
	names, read, next := map[string]bool{}, paths(found), false
	for _, f := range own {
		scan := s.sources.scan(f)
		next = next || scan.next
		for _, name := range scan.quoted {
			look(s.join(path.Dir(f), name))
			names[name] = true
		}
		for _, name := range scan.angled {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, dir := range quoted {
			if !slices.Contains(angled, dir) {
				look(s.join(dir, name))
			}
		}
		for _, dir := range angled {
			p := s.join(dir, name)
			look(p)
			if !next && slices.Contains(read, s.Name(p)) {
				break // nobody who searches these folders comes to a later one
			}
		}
	}
	return out
}

// systemDirs are the folders of what is installed, with a slash at the end: those of the system,
// and that of the toolkit's headers.
func systemDirs(found []cache.FileDigest) []string {
	dirs := []string{"/usr/"}
	for _, f := range found {
		if path.Base(f.Path) == "cuda_runtime.h" && path.IsAbs(f.Path) {
			dirs = append(dirs, path.Dir(f.Path)+"/")
		}
	}
	return dirs
}

// whichAreOne is a digest over which files have an inode in common, and which a time stamp.
func (t Tree) whichAreOne(files []string) (d cache.Digest, err error) {
	h := sha256.New()
	var infos []os.FileInfo
	seconds := map[int64]int{} // numbered as they come
	for _, f := range files {
		info, err := os.Stat(t.Abs(f))
		if err != nil {
			return d, err
		}
		same := slices.IndexFunc(infos, func(other os.FileInfo) bool { return os.SameFile(info, other) })
		infos = append(infos, info)
		second := info.ModTime().Unix()
		if _, ok := seconds[second]; !ok {
			seconds[second] = len(seconds)
		}
		fmt.Fprintln(h, same, seconds[second])
	}
	h.Sum(d[:0])
	return d, nil
}

// sameFiles are the files of a condition; ok is false if it is another.
func sameFiles(name string) (files []string, ok bool) {
	list, ok := strings.CutPrefix(name, oneMark)
	return strings.Split(list, "\n"), ok
}

// EqualHeaders are the files of a record that matter by their time stamps as well.
func EqualHeaders(rec *cache.Record) (files []string) {
	for _, f := range rec.Discovered {
		if list, ok := sameFiles(f.Path); ok {
			files = append(files, list...)
		}
	}
	return files
}

// isOnce reports a text that may ask to be read once, in one way or another. One that does not
// costs nothing to speak of.
func isOnce(text []byte) bool {
	if !bytes.Contains(text, []byte("ragma")) {
		return false
	}
	for at := range wordsIn(text, "once") {
		if bytes.HasSuffix(text[:at], []byte("once")) {
			return true
		}
	}
	return false
}
