package disk

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// blobFile is the file of a blob.
type blobFile struct {
	name       string
	digest     cache.Digest
	compressed bool
	size       int64 // of the file
	written    time.Time
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
	err := s.eachRecord(ctx, func(name string, info fs.FileInfo) {
		st.Records++
		st.Bytes += info.Size()
		if used := info.ModTime(); st.Oldest.IsZero() || used.Before(st.Oldest) {
			st.Oldest = used
		}
	})
	if err != nil {
		return st, err
	}
	if err := s.eachBlob(ctx, func(b blobFile) { st.Blobs++; st.Bytes += b.size }); err != nil {
		return st, err
	}
	if err := s.eachCommand(ctx, func(_ cache.Key, _ string, info fs.FileInfo) { st.Commands++; st.Bytes += info.Size() }); err != nil {
		return st, err
	}
	if info, err := os.Stat(s.path("gc")); err == nil {
		st.LastGC = info.ModTime()
	}
	st.Counters, err = s.counted()
	return st, err
}

// eachRecord visits the record files, sorted by name. It returns an error if a folder cannot be
// read, and skips files that vanish concurrently.
func (s *Store) eachRecord(ctx context.Context, visit func(name string, info fs.FileInfo)) error {
	return eachDir(ctx, s.path("records"), func(dir string) error {
		return eachFile(ctx, dir, func(info fs.FileInfo) {
			if _, _, ok := splitRecordName(info.Name()); ok {
				visit(filepath.Join(dir, info.Name()), info)
			}
		})
	})
}

// eachBlob visits the blobs, sorted by name.
func (s *Store) eachBlob(ctx context.Context, visit func(blobFile)) error {
	return eachDir(ctx, s.path("blobs"), func(dir string) error {
		return eachFile(ctx, dir, func(info fs.FileInfo) {
			if d, compressed, ok := splitBlobName(info.Name()); ok {
				visit(blobFile{filepath.Join(dir, info.Name()), d, compressed, info.Size(), info.ModTime()})
			}
		})
	})
}

// eachDir visits the 256 subfolders of a folder.
func eachDir(ctx context.Context, kind string, visit func(dir string) error) error {
	dirs, err := readDir(kind)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !d.IsDir() || len(d.Name()) != 2 {
			continue
		}
		if err := visit(filepath.Join(kind, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// eachFile visits the regular files of a folder.
func eachFile(ctx context.Context, dir string, visit func(fs.FileInfo)) error {
	entries, err := readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			visit(info)
		}
	}
	return nil
}

// readDir is os.ReadDir, but returns no entries for a missing folder.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !exists(dir) {
		return nil, nil
	}
	sort.Slice(entries, func(a, b int) bool { return entries[a].Name() < entries[b].Name() })
	return entries, err
}
