package discover

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
)

// A header with #pragma once is read once, so the compilers must decide which files are the same.
// clang compares inodes. gcc compares size, content and the time stamp in seconds, and does not
// name the second file in its dependency file. So what a compile reads depends on more than
// content: two equal headers that one checkout wrote within a second are two after touch. A record
// of such a compile has a condition for each set of equal headers, which says which of them are the
// same.
//
// Sets within the system or the toolkit are omitted: Thrust has dozens of them, and their time
// stamps differ on every machine. A second header that is included through a macro is omitted as
// well.

// oneMark is the prefix of the condition; the files follow, separated by newlines. An empty line
// stands before those that no dependency file names.
const oneMark = "<one of> "

// onceHeaders returns the conditions for equal headers. It also returns the headers that the
// compiler skipped as equal, which no dependency file names. They are among the files that the
// project's files include by name.
func (s *compile) onceHeaders(found []cache.FileDigest, angled []string) (there []cache.FileDigest) {
	system := systemDirs(found)
	sets, known := map[cache.Digest][]string{}, map[string]bool{}
	own, once, imports, next := slices.Clone(s.ran.Action.Inputs), false, false, false
	for _, f := range found {
		if IsCondition(f.Path) {
			continue
		}
		known[f.Path] = true
		sets[f.Digest] = append(sets[f.Digest], f.Path)
		if !isBelow(f.Path, system) {
			own = append(own, f.Path)
		}
	}
	candidates, names := []string{}, map[string]bool{}
	for _, f := range own {
		scan := s.sources.scan(f)
		once, imports, next = once || scan.once, imports || scan.imports, next || scan.next
		for _, name := range scan.angled {
			names[name] = true
		}
		for _, name := range scan.quoted {
			beside := s.Name(s.join(path.Dir(f), name))
			candidates = append(candidates, beside)
			if scan.next || !known[beside] && !s.hasFile(beside) { // else the compiler searches no folders
				names[name] = true
			}
		}
	}
	if !once && !imports {
		return nil
	}
	if !imports { // #import reads any header once
		maps.DeleteFunc(sets, func(_ cache.Digest, files []string) bool {
			return !s.sources.scan(files[0]).once
		})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, dir := range angled {
			p := s.Name(s.join(dir, name))
			candidates = append(candidates, p)
			if !next && slices.ContainsFunc(found, func(f cache.FileDigest) bool { return f.Path == p }) {
				break // an include from these folders never reaches a later one
			}
		}
	}
	skipped := map[cache.Digest][]string{}
	for _, p := range candidates {
		if known[p] || !s.hasFile(p) {
			continue
		}
		known[p] = true
		if d, err := s.Digest(p); err == nil && sets[d] != nil {
			skipped[d] = append(skipped[d], p)
			there = append(there, cache.FileDigest{Path: p, Digest: d})
		}
	}
	for d, read := range sets {
		slices.Sort(read)
		slices.Sort(skipped[d])
		files := slices.Concat(read, skipped[d])
		if len(files) < 2 || !slices.ContainsFunc(files, func(f string) bool { return !isBelow(f, system) }) {
			continue
		}
		digest, err := s.whichAreOne(files)
		if err != nil {
			there = append(there, never("a header went away"))
			continue
		}
		name := oneMark + strings.Join(read, "\n")
		if skipped[d] != nil {
			name += "\n\n" + strings.Join(skipped[d], "\n")
		}
		there = append(there, cache.FileDigest{Path: name, Digest: digest})
	}
	slices.SortFunc(there, func(a, b cache.FileDigest) int { return strings.Compare(a.Path, b.Path) })
	return there
}

func isBelow(file string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file, dir) })
}

// systemDirs returns the prefixes, with a slash at the end, of the system's folders and of the
// folder of the toolkit's headers.
func systemDirs(found []cache.FileDigest) []string {
	dirs := []string{"/usr/"}
	for _, f := range found {
		if path.Base(f.Path) == "cuda_runtime.h" && path.IsAbs(f.Path) {
			dirs = append(dirs, path.Dir(f.Path)+"/")
		}
	}
	return dirs
}

// whichAreOne returns a digest of which files share an inode, and which share a time stamp.
func (t Tree) whichAreOne(files []string) (d cache.Digest, err error) {
	h := sha256.New()
	var infos []os.FileInfo
	seconds := map[int64]int{} // numbered in order of appearance
	for _, f := range files {
		info, err := os.Stat(t.abs(f))
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

// sameFiles returns the files of an oneMark condition: those that a dependency file names, and the
// others. ok is false for another condition.
func sameFiles(name string) (read, skipped []string, ok bool) {
	list, ok := strings.CutPrefix(name, oneMark)
	list, rest, found := strings.Cut(list, "\n\n")
	if found {
		skipped = strings.Split(rest, "\n")
	}
	return strings.Split(list, "\n"), skipped, ok
}

// EqualHeaders returns the files of a record whose time stamps matter as well. skipped are those of
// them that no dependency file names. They are a guess, from the folders as they were at the run.
func EqualHeaders(rec *cache.Record) (files, skipped []string) {
	for _, f := range rec.Discovered {
		if read, not, ok := sameFiles(f.Path); ok {
			files, skipped = append(append(files, read...), not...), append(skipped, not...)
		}
	}
	return files, skipped
}
