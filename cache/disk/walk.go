package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// Problem is a broken entry of the store.
type Problem struct {
	Path     string // of the entry's file
	Err      error  // cache.ErrCorrupt, or fs.ErrNotExist for a missing blob
	Repaired bool   // the entry was removed
}

// VerifyResult counts what Verify checked.
type VerifyResult struct {
	Records  int   `json:"records"`
	Blobs    int   `json:"blobs"`
	Bytes    int64 `json:"bytes"` // of the blobs, all read
	Problems int   `json:"problems"`
	Repaired int   `json:"repaired"`
	// Records of other versions of kbuild, whose outputs were not checked.
	Others int `json:"others"`
}

// Verify checks that every blob has its digest, every record is intact, and every record has its
// blobs. It returns the problems, blobs first, in the order of names. It only counts records of
// other versions of kbuild. With repair it removes broken entries: a removed entry is a miss.
// Builds may run concurrently; entries that vanish are not problems.
func (s *Store) Verify(ctx context.Context, repair bool) (VerifyResult, []Problem, error) {
	var res VerifyResult
	var problems []Problem
	blobs, err := s.allBlobs(ctx)
	if err != nil {
		return res, nil, fmt.Errorf("verifying the cache in %s: %w", s.dir, err)
	}
	bad := map[cache.Digest]bool{} // blobs with wrong content
	for _, b := range blobs {
		d, n, err := hashBlob(ctx, b)
		switch {
		case ctx.Err() != nil:
			return res, problems, fmt.Errorf("verifying the cache in %s: %w", s.dir, ctx.Err())
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			err = fmt.Errorf("%w: %w", cache.ErrCorrupt, err)
		case d != b.digest:
			err = fmt.Errorf("%w: the content has digest %s", cache.ErrCorrupt, d)
		}
		res.Blobs++
		res.Bytes += n
		if err != nil {
			bad[b.digest] = true
			problems = append(problems, Problem{Path: b.name, Err: err})
		}
	}
	for i := range problems { // before the records: their outputs are missing then
		if repair {
			problems[i].Repaired = remove(problems[i].Path) == nil
		}
	}
	records, err := s.allRecords(ctx)
	for _, f := range records {
		r, err := readRecord(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		res.Records++
		if errors.Is(err, errOtherVersion) {
			res.Others++
			continue
		}
		if err == nil {
			err = s.checkOutputs(r, bad)
		}
		// gc removes a record before its blobs: a record that is gone is not a problem.
		if err != nil && exists(f.name) {
			problems = append(problems, Problem{f.name, err, repair && remove(f.name) == nil})
		}
	}
	res.Problems = len(problems)
	for _, p := range problems {
		if p.Repaired {
			res.Repaired++
		}
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		err = fmt.Errorf("verifying the cache in %s: %w", s.dir, err)
	}
	return res, problems, err
}

// checkOutputs checks that the store has the outputs of a record. bad are damaged blobs, which may
// be removed already.
func (s *Store) checkOutputs(r *cache.Record, bad map[cache.Digest]bool) error {
	for _, o := range r.Outputs {
		if o.Unkept {
			continue
		}
		if bad[o.Digest] {
			return fmt.Errorf("%w: the content of %s is damaged", cache.ErrCorrupt, o.Path)
		}
		_, compressed, info, err := s.findBlob(o.Digest)
		if err != nil {
			return fmt.Errorf("the content of %s is missing: %w", o.Path, err)
		}
		if err := wrongSize(info, compressed, o.Size); err != nil {
			return fmt.Errorf("the content of %s: %w", o.Path, err)
		}
	}
	return nil
}
