package discover

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
)

// Tree is the project and the system around it in their current state. Paths are relative to the
// root or absolute.
type Tree struct {
	Build
	Root    string
	Listing *cache.Listing // which paths exist
}

// Abs returns a path for system calls.
func (t Tree) Abs(p string) string { return cache.Absolute(t.Root, p) }

// Name returns a path in the spelling of actions: relative to the root if inside, and with slashes.
// It is clean except for a ".." after a symbolic link (cache.Listing.Clean). The compilers often
// spell their own headers with "..".
func (t Tree) Name(p string) string {
	clean := t.Listing.Clean(p)
	if rel, ok := strings.CutPrefix(clean, t.Root+"/"); ok {
		clean = rel
	}
	return filepath.ToSlash(clean)
}

// isFile reports whether a compiler would open a path: compilers skip folders.
func (t Tree) isFile(p string) bool {
	info, err := os.Stat(t.Abs(p))
	return err == nil && !info.IsDir()
}

// hasFile is isFile for a path that is usually absent.
func (t Tree) hasFile(p string) bool { return t.Listing.Exists(p) && t.isFile(p) }

func (t Tree) isFolder(p string) bool {
	info, err := os.Stat(t.Abs(p))
	return err == nil && info.IsDir()
}

// first returns the file of a name in the first folder that has it.
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

// all returns the files of a name in some folders.
func (t Tree) all(dirs []string, name string) (files []cache.FileDigest) {
	for _, dir := range dirs {
		if f, ok := t.first([]string{dir}, name); ok {
			files = append(files, f)
		}
	}
	return files
}

// join joins a folder and a name; an absolute name stays as it is.
func (t Tree) join(dir, name string) string {
	if path.IsAbs(name) || dir == "." {
		return t.Listing.Clean(name)
	}
	return t.Listing.Clean(dir + "/" + name)
}

// firstAbsent returns the paths that are absent in the folders before the first one with the file.
// It returns none for a folder that does not exist.
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

// appeared reports whether a path of Record.Absent now exists. A path of a folder, which ends with
// a slash, has appeared if it is now a file.
func (t Tree) appeared(p string) bool {
	if dir, ok := strings.CutSuffix(p, "/"); ok {
		return t.hasFile(dir)
	}
	return t.Listing.Exists(p)
}

// compact removes duplicates from a list. gcc does the same, by inode.
func compact(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}
