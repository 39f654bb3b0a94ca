package disk

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// storedFile is a file of the store.
type storedFile struct {
	name string
	size int64
	used time.Time // its mtime: when it was written, or last used
}

// blobFile is the file of a blob.
type blobFile struct {
	storedFile
	digest     cache.Digest
	compressed bool
}

// Stats describes a store.
type Stats struct {
	Dir      string `json:"dir"`
	Records  int    `json:"records"`
	Blobs    int    `json:"blobs"`
	Commands int    `json:"commands"` // stored commands, see commands.go
	// Total file size of blobs, records and commands.
	Bytes    int64          `json:"bytes"`
	Oldest   time.Time      `json:"oldest,omitzero"`  // last use of the least recently used record
	Counters cache.Counters `json:"counters"`         // of all builds so far
	LastGC   time.Time      `json:"last_gc,omitzero"` // start of the last automatic gc
}

// Stats counts the entries without reading them.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	st := Stats{Dir: s.dir}
	records, err := s.allRecords(ctx)
	if err != nil {
		return st, err
	}
	blobs, err := s.allBlobs(ctx)
	if err != nil {
		return st, err
	}
	commands, err := s.allCommands(ctx)
	if err != nil {
		return st, err
	}
	for _, f := range records {
		st.Bytes += f.size
		if st.Oldest.IsZero() || f.used.Before(st.Oldest) {
			st.Oldest = f.used
		}
	}
	for _, f := range blobs {
		st.Bytes += f.size
	}
	for _, f := range commands {
		st.Bytes += f.size
	}
	st.Records, st.Blobs, st.Commands = len(records), len(blobs), len(commands)
	if info, err := os.Stat(s.path("gc")); err == nil {
		st.LastGC = info.ModTime()
	}
	st.Counters, err = s.counted()
	return st, err
}

// allRecords lists the record files, sorted by name.
func (s *records) allRecords(ctx context.Context) ([]storedFile, error) {
	all, err := shardedFiles(ctx, s.path("records"))
	return slices.DeleteFunc(all, func(f storedFile) bool {
		_, _, ok := splitRecordName(filepath.Base(f.name))
		return !ok
	}), err
}

// allBlobs lists the blobs, sorted by name.
func (s *Store) allBlobs(ctx context.Context) (blobs []blobFile, err error) {
	all, err := shardedFiles(ctx, s.path("blobs"))
	for _, f := range all {
		if d, compressed, ok := splitBlobName(filepath.Base(f.name)); ok {
			blobs = append(blobs, blobFile{f, d, compressed})
		}
	}
	return blobs, err
}

// shardedFiles lists the regular files of the 256 folders in a folder, sorted by name. It returns
// an error if one cannot be read, and omits files that vanish meanwhile.
func shardedFiles(ctx context.Context, parent string) (all []storedFile, err error) {
	dirs, err := readDir(parent)
	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		files, err := filesOf(filepath.Join(parent, d.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, err
}

// filesOf lists the regular files of a folder, sorted by name.
func filesOf(dir string) (files []storedFile, err error) {
	entries, err := readDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, storedFile{filepath.Join(dir, e.Name()), info.Size(), info.ModTime()})
		}
	}
	return files, err
}

// readDir is os.ReadDir, but returns no entries for a missing folder.
func readDir(dir string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !exists(dir) {
		return nil, nil
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
