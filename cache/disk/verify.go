package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/kbuild-dev/kbuild/cache"
)

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
