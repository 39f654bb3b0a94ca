package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
)

// removeLeftovers removes outputs that no action writes any more, and the folders that are empty
// then. It keeps a file whose content is not in the database, and returns it in left: the user may
// have written it. In both cases the database forgets the output, under every name that it has
// there. Links are not followed out of the build tree.
func (t *Tree) removeLeftovers(outputs []string, written map[string][]cache.Output) (removed, left []string, err error) {
	if len(outputs) == 0 {
		return nil, nil, nil
	}
	r := t.Runner
	tree, err := os.OpenRoot(cache.Absolute(r.Root, r.Graph.BuildDir))
	if err != nil {
		return nil, nil, fmt.Errorf("opening the build tree: %w", err)
	}
	defer tree.Close()
	var gone []string
	for _, file := range outputs {
		rel, ok := strings.CutPrefix(file, r.Graph.BuildDir+"/")
		if !ok {
			continue
		}
		info, err := tree.Lstat(rel)
		switch {
		// it has become a folder, or its folder a file
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), err == nil && info.IsDir():
		case err != nil || !info.Mode().IsRegular() || !isOneOf(cache.Absolute(r.Root, file), info.Size(), written[file]):
			left = append(left, file)
		default:
			if err := tree.Remove(rel); err != nil {
				return removed, left, fmt.Errorf("removing %s, which nothing makes any more: %w", file, err)
			}
			r.Forget(file)
			removed, gone = append(removed, file), append(gone, rel)
		}
		for _, o := range written[file] {
			if err := t.db.Remove(o.Path); err != nil {
				return removed, left, err
			}
		}
	}
	removeEmptyFolders(tree, gone)
	return removed, left, nil
}

// isOneOf reports whether a file of the given size has the content of one of outputs.
func isOneOf(file string, size int64, outputs []cache.Output) bool {
	sized := func(o cache.Output) bool { return o.Size == size }
	if !slices.ContainsFunc(outputs, sized) {
		return false
	}
	d, err := cache.DigestFile(file)
	return err == nil && slices.ContainsFunc(outputs, func(o cache.Output) bool { return sized(o) && o.Digest == d })
}

// removeEmptyFolders removes the empty folders above files of a tree, but not the tree itself.
func removeEmptyFolders(tree *os.Root, files []string) {
	above := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(filepath.ToSlash(f)); d != "." && d != "/" && !above[d]; d = path.Dir(d) {
			above[d] = true
		}
	}
	folders := slices.Sorted(maps.Keys(above))
	slices.Reverse(folders) // the content of a folder before the folder
	for _, d := range folders {
		if info, err := tree.Lstat(d); err == nil && info.IsDir() {
			tree.Remove(d) // fails for a folder that is not empty
		}
	}
}
