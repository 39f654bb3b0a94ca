package disk

import (
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
// blobs. It reports each problem, blobs first, in the order of names. It only counts records of
// other versions of kbuild. With repair it removes broken entries: a removed entry is a miss.
// Builds may run concurrently; entries that vanish are not problems.
func (s *Store) Verify(ctx context.Context, repair bool, report func(Problem)) (VerifyResult, error) {
	v := &verification{s: s, ctx: ctx, repair: repair, report: report, bad: map[cache.Digest]bool{}}
	err := s.eachBlob(ctx, v.blob)
	if err == nil {
		err = s.eachRecord(ctx, v.record)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("verifying the cache in %s: %w", s.dir, err)
	}
	return v.res, err
}

// verification is one run of Verify.
type verification struct {
	s      *Store
	ctx    context.Context
	repair bool
	report func(Problem)
	bad    map[cache.Digest]bool // blobs with wrong content
	res    VerifyResult
}

func (v *verification) blob(b blobFile) {
	d, n, err := hashBlob(v.ctx, b)
	switch {
	case errors.Is(err, fs.ErrNotExist) || v.ctx.Err() != nil:
		return
	case err != nil:
		err = fmt.Errorf("%w: %w", cache.ErrCorrupt, err)
	case d != b.digest:
		err = fmt.Errorf("%w: the content has digest %s", cache.ErrCorrupt, d)
	}
	v.res.Blobs++
	v.res.Bytes += n
	if err != nil {
		v.bad[b.digest] = true
		v.problem(b.name, err)
	}
}

func (v *verification) record(name string, _ fs.FileInfo) {
	r, err := readRecord(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	v.res.Records++
	if errors.Is(err, errOtherVersion) {
		v.res.Others++
		return
	}
	if err == nil {
		err = v.blobsOf(r)
	}
	if err != nil && exists(name) {
		// gc removes a record before its blobs: a record that is gone is not a problem.
		v.problem(name, err)
	}
}

// blobsOf checks that the store has the outputs of a record.
func (v *verification) blobsOf(r *cache.Record) error {
	for _, o := range r.Outputs {
		if o.Unkept {
			continue
		}
		if v.bad[o.Digest] { // with repair already removed
			return fmt.Errorf("%w: the content of %s is damaged", cache.ErrCorrupt, o.Path)
		}
		_, compressed, info, err := v.s.findBlob(o.Digest)
		if err != nil {
			return fmt.Errorf("the content of %s is missing: %w", o.Path, err)
		}
		if err := wrongSize(info, compressed, o.Size); err != nil {
			return fmt.Errorf("the content of %s: %w", o.Path, err)
		}
	}
	return nil
}

func (v *verification) problem(name string, err error) {
	p := Problem{Path: name, Err: err}
	if v.repair {
		p.Repaired = remove(name) == nil
	}
	v.res.Problems++
	if p.Repaired {
		v.res.Repaired++
	}
	if v.report != nil {
		v.report(p)
	}
}
