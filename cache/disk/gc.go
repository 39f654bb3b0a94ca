package disk

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Collection runs concurrently with builds, without a lock. It is safe because:
//
//   - A record is removed before its blobs, so a record that can be read has its blobs. If gc runs
//     between reading the record and the restore, the restore finds no blob, which is a miss.
//   - A blob that no record names may belong to a record about to be written. It stays until it is
//     an hour old. Put renews the time of a blob that it reuses, and gc checks the age again just
//     before the removal.
//   - A record stays while its removal would leave a blob that is too recent to remove: without the
//     record such a blob only uses space. The result reports by how much the limit is exceeded.
//   - Two concurrent collections try to remove the same files, and the second finds them gone.

const (
	// DefaultLimit is the size limit of a store if the user sets none.
	DefaultLimit = 20 << 30

	// How long a running build may need an unreferenced blob or a temporary file.
	grace   = time.Hour
	gcEvery = time.Hour
)

// GCResult counts what a collection removed and what remains.
type GCResult struct {
	Records int `json:"records"` // removed
	Blobs   int `json:"blobs"`   // removed

	Commands int   `json:"commands"` // removed, see commands.go
	Temps    int   `json:"temps"`    // removed files of killed processes
	Freed    int64 `json:"freed"`    // bytes
	Bytes    int64 `json:"bytes"`    // remaining
	// Remaining above the limit, because it is too recent to be removed.
	Over int64 `json:"over"`
}

// GC removes records that were not used for maxAge, then the least recently used ones until the
// store is at most maxBytes. Then it removes blobs that no record names and files that killed
// processes left behind. A limit of zero or less means no limit. A blob more recent than an hour
// stays, with the record that names it, so right after a build the store may exceed maxBytes.
func (s *Store) GC(ctx context.Context, maxBytes int64, maxAge time.Duration) (GCResult, error) {
	c, err := s.scan(ctx)
	if err != nil {
		return c.res, fmt.Errorf("collecting the cache in %s: %w", s.dir, err)
	}
	for _, r := range c.records {
		old := maxAge > 0 && s.now().Sub(r.used) > maxAge
		big := maxBytes > 0 && c.total-c.res.Freed-c.doomed > maxBytes
		if !old && !big {
			break // sorted by last use: all others are more recent
		}
		if err := ctx.Err(); err != nil {
			return c.res, err
		}
		if c.bound(r) {
			continue
		}
		if err := c.drop(r); err != nil {
			return c.res, s.unwritable(err)
		}
	}
	err = c.sweep(ctx)
	temps, _ := filesOf(s.path("tmp"))
	for _, f := range temps { // of killed processes; one that is being written is recent
		if c.old(f.used) && os.Remove(f.name) == nil {
			c.res.Temps++
		}
	}
	s.forgetImports()
	if c.res.Bytes = c.total - c.res.Freed; maxBytes > 0 {
		c.res.Over = max(0, c.res.Bytes-maxBytes)
	}
	return c.res, s.unwritable(err)
}

// MaybeGC runs GC with a limit of bytes if the last one began at least an hour ago. It renews the
// stamp before the scan, so that only one of many builds that end together collects. The first time
// it only creates the stamp: a new store has nothing to remove. It does nothing on a store that
// cannot be written.
func (s *Store) MaybeGC(ctx context.Context, limit int64) (GCResult, error) {
	stamp, now := s.path("gc"), s.now()
	info, missing := os.Stat(stamp)
	if missing == nil {
		if age := now.Sub(info.ModTime()); age >= 0 && age < gcEvery {
			return GCResult{}, nil
		}
	}
	f, err := regular.Open(stamp, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return GCResult{}, nil
	}
	f.Close()
	if err := os.Chtimes(stamp, now, now); err != nil || missing != nil {
		return GCResult{}, nil
	}
	return s.GC(ctx, limit, 0)
}

// collection is one run of GC.
type collection struct {
	s       *Store
	records []usedRecord // least recently used first
	blobs   map[cache.Digest][]blobFile
	refs    map[cache.Digest]int // number of records that name a blob
	doomed  int64                // bytes of old blobs that no record names: sweep removes them
	total   int64                // bytes found
	res     GCResult
}

// usedRecord is a record file with the blobs that it references.
type usedRecord struct {
	storedFile
	blobs   []cache.Digest
	command string // the file of a command that belongs to the record; "" if there is none
}

// scan lists the store. It reads blobs before records: a blob written after that is unknown to this
// run and stays. It removes a command's file without a record once it is old; a killed process may
// have left it.
func (s *Store) scan(ctx context.Context) (*collection, error) {
	c := &collection{s: s, refs: map[cache.Digest]int{}, blobs: map[cache.Digest][]blobFile{}}
	blobs, err := s.allBlobs(ctx)
	if err != nil {
		return c, err
	}
	for _, b := range blobs {
		c.blobs[b.digest] = append(c.blobs[b.digest], b)
		c.total += b.size
	}
	records, err := s.allRecords(ctx)
	if err != nil {
		return c, err
	}
	byKey := map[cache.Key]int{}
	for i, f := range records {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		// A record without a head names nothing: Records removes it at the next lookup.
		blobs, _ := readHead(f.name)
		slices.SortFunc(blobs, func(a, b cache.Digest) int { return bytes.Compare(a[:], b[:]) })
		blobs = slices.Compact(blobs)
		for _, d := range blobs {
			c.refs[d]++
		}
		c.records = append(c.records, usedRecord{storedFile: f, blobs: blobs})
		c.total += f.size
		key, _, _ := splitRecordName(filepath.Base(f.name))
		byKey[key] = i
	}
	commands, err := s.allCommands(ctx)
	if err != nil {
		return c, err
	}
	for _, f := range commands {
		c.total += f.size
		key, _ := commandKey(f.name)
		if i, ok := byKey[key]; ok {
			c.records[i].command = f.name
			c.records[i].size += f.size
		} else if c.old(f.used) && os.Remove(f.name) == nil {
			c.res.Commands++
			c.res.Freed += f.size
		}
	}
	for d := range c.blobs {
		c.doom(d)
	}
	slices.SortStableFunc(c.records, func(a, b usedRecord) int { return a.used.Compare(b.used) })
	return c, nil
}

func (c *collection) old(t time.Time) bool { return c.s.now().Sub(t) > grace }

// bound reports whether removing a record would leave an unreferenced blob that is too recent to
// remove.
func (c *collection) bound(r usedRecord) bool {
	for _, d := range r.blobs {
		if c.refs[d] > 1 {
			continue
		}
		files := c.blobs[d]
		if len(files) == 0 && !c.old(r.used) {
			return true // written after the scan of the blobs
		}
		if slices.ContainsFunc(files, func(b blobFile) bool { return !c.old(b.used) }) {
			return true
		}
	}
	return false
}

// drop removes a record, unless a build has used it since the scan.
func (c *collection) drop(r usedRecord) error {
	info, err := os.Lstat(r.name)
	if err != nil || info.ModTime().After(r.used) {
		return nil
	}
	if r.command != "" {
		if err := remove(r.command); err != nil {
			return err
		}
		c.res.Commands++
	}
	if err := remove(r.name); err != nil {
		return err
	}
	os.Remove(filepath.Dir(r.name)) // succeeds only if it is empty
	c.res.Records++
	c.res.Freed += r.size
	for _, d := range r.blobs {
		c.refs[d]--
		c.doom(d)
	}
	return nil
}

// doom counts the blobs that sweep will remove, once no record names the digest.
func (c *collection) doom(d cache.Digest) {
	if c.refs[d] > 0 {
		return
	}
	for _, b := range c.blobs[d] {
		if c.old(b.used) {
			c.doomed += b.size
		}
	}
}

// sweep removes the old blobs that no record names.
func (c *collection) sweep(ctx context.Context) error {
	for d, blobs := range c.blobs {
		if c.refs[d] > 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, b := range blobs {
			// A build may have reused it since the scan.
			info, err := os.Lstat(b.name)
			if err != nil || !c.old(info.ModTime()) {
				continue
			}
			if err := remove(b.name); err != nil {
				return err
			}
			c.res.Blobs++
			c.res.Freed += b.size
		}
	}
	return nil
}

// remove is os.Remove without an error for a missing file.
func remove(name string) error {
	if err := os.Remove(name); err != nil && exists(name) {
		return err
	}
	return nil
}
