package discover

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
)

// Tree is the project and the system around it, as their files are today. Paths are relative to the
// root or absolute.
type Tree struct {
	Root    string
	Listing *cache.Listing                          // which paths exist
	Digest  func(file string) (cache.Digest, error) // what is in a file
}

// Abs is a path for system calls.
func (t Tree) Abs(p string) string { return cache.Absolute(t.Root, p) }

// Name spells a path as actions do: relative to the root if inside, with slashes, clean but for a
// ".." that climbs out of a link (cache.Listing.Clean). The compilers' own headers are spelled with
// ".." all the time.
func (t Tree) Name(p string) string {
	clean := t.Listing.Clean(p)
	if rel, ok := strings.CutPrefix(clean, t.Root+"/"); ok {
		clean = rel
	}
	return filepath.ToSlash(clean)
}

// isFile reports a path that a compiler would open: it passes folders over.
func (t Tree) isFile(p string) bool {
	info, err := os.Stat(t.Abs(p))
	return err == nil && !info.IsDir()
}

// hasFile is isFile for a path that most often is not there.
func (t Tree) hasFile(p string) bool { return t.Listing.Exists(p) && t.isFile(p) }

func (t Tree) isFolder(p string) bool {
	info, err := os.Stat(t.Abs(p))
	return err == nil && info.IsDir()
}

// first is the file of a name in the first of some folders that has it.
func (t Tree) first(dirs []string, name string) (f cache.FileDigest, ok bool) {
	for _, dir := range dirs {
		p := t.Name(t.join(dir, name))
		if !t.hasFile(p) {
			continue
		}
		d, err := t.Digest(p)
		return cache.FileDigest{Path: p, Digest: d}, err == nil
	}
	return f, false
}

// all are the files of a name in some folders.
func (t Tree) all(dirs []string, name string) (files []cache.FileDigest) {
	for _, dir := range dirs {
		if f, ok := t.first([]string{dir}, name); ok {
			files = append(files, f)
		}
	}
	return files
}

// join is a name in a folder, or an absolute path as it is.
func (t Tree) join(dir, name string) string {
	if path.IsAbs(name) || dir == "." {
		return t.Listing.Clean(name)
	}
	return t.Listing.Clean(dir + "/" + name)
}

// firstAbsent are the files that are missing in the folders before the first one that has them. A
// folder that is missing has none.
func (t Tree) firstAbsent(dirs, files []string) (missing []string) {
	for _, f := range files {
		for _, d := range dirs {
			if !t.Listing.Exists(d) {
				continue
			}
			p := t.join(d, f)
			if t.hasFile(p) {
				break
			}
			missing = append(missing, p)
		}
	}
	return missing
}

// appeared reports that something is at a path of Record.Absent: of a folder, that it is a file
// now.
func (t Tree) appeared(p string) bool {
	if dir, ok := strings.CutSuffix(p, "/"); ok {
		return t.hasFile(dir)
	}
	return t.Listing.Exists(p)
}

// compact leaves out what a list has already. gcc does so too, by inode.
func compact(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// memo remembers what was found for a key. The zero value is empty.
type memo[K comparable, V any] struct{ known cache.Shards[K, V] }

// of finds what is not known. Where find says so, the answer is not remembered.
func (m *memo[K, V]) of(key K, find func() (v V, ok bool)) V {
	if v, ok := m.known.Load(key); ok {
		return v
	}
	v, ok := find()
	if ok {
		m.known.LoadOrStore(key, v)
	}
	return v
}
