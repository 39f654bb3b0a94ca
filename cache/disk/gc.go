package disk

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Collection runs beside builds without a lock. What makes that safe:
//
//   - A record goes before its blobs, so a record that can be read has its blobs, unless gc comes
//     between that reading and the restore. Then the restore finds no blob, which is a miss.
//   - A blob that no record names may belong to a record about to appear. It stays until it is an
//     hour old; Put makes a blob that it reuses young again, and gc looks at the age once more at the
//     moment of removal.
//   - So a record stays as long as one of its blobs would be left without any record and could not go: without the record such a blob
//     only takes room. The collection then says by how much it has missed its limit.
//   - Two collections at once try to remove the same files, and the second finds them gone.

const (
	// DefaultLimit is the size that a store is kept under, if nobody says another.
	DefaultLimit = 20 << 30

	grace   = time.Hour // how long an unreferenced blob or a temporary file may belong to a running build
	gcEvery = time.Hour
)

// GCResult says what a collection did.
type GCResult struct {
	Records int `json:"records"` // removed
	Blobs   int `json:"blobs"`   // removed

	Commands int   `json:"commands"` // removed, see commands.go
	Temps    int   `json:"temps"`    // removed leftovers of killed processes
	Freed    int64 `json:"freed"`    // bytes
	Bytes    int64 `json:"bytes"`    // that remain
	Over     int64 `json:"over"`     // of these, above the limit: what is too young to be removed
}

// GC removes records that were not used for maxAge, then the least recently used ones until the
// store is no bigger than maxBytes, then blobs that no record names and files that killed processes
// left behind. A limit of zero or less is none. A blob younger than an hour stays, with the record
// that names it, so right after a build the store may remain bigger than asked.
func (s *Store) GC(ctx context.Context, maxBytes int64, maxAge time.Duration) (GCResult, error) {
	c := &collection{s: s, refs: map[cache.Digest]int{}, blobs: map[cache.Digest][]blobFile{}}
	if err := c.scan(ctx); err != nil {
		return c.res, fmt.Errorf("collecting the cache in %s: %w", s.dir, err)
	}
	for _, r := range c.records {
		old := maxAge > 0 && s.now().Sub(r.used) > maxAge
		big := maxBytes > 0 && c.kept() > maxBytes
		if !old && !big {
			break // sorted by age: all others are younger
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
	err := c.sweep(ctx)
	c.reapTemps()
	s.forgetImports()
	if c.res.Bytes = c.total - c.res.Freed; maxBytes > 0 {
		c.res.Over = max(0, c.res.Bytes-maxBytes)
	}
	return c.res, s.unwritable(err)
}

// MaybeGC runs GC with a limit of bytes if the last one began an hour ago or longer. The stamp is
// renewed before the scan, so that of many builds that end together one collects. The first time it
// only leaves the stamp: a store that was just made has nothing to remove. On a store that cannot
// be written it does nothing.
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
	refs    map[cache.Digest]int // records that name a blob
	doomed  int64                // bytes of old blobs that nothing names: they go in the end
	total   int64                // bytes found
	res     GCResult
}

// usedRecord is a record file with what it holds on to.
type usedRecord struct {
	recordFile
	size  int64
	blobs []cache.Digest

	command string // a file that goes with it; "" is none
}

// scan reads blobs first: a blob written after that is unknown to this run, so it stays, whatever
// record names it.
func (c *collection) scan(ctx context.Context) error {
	err := c.s.eachBlob(ctx, func(b blobFile) {
		c.blobs[b.digest] = append(c.blobs[b.digest], b)
		c.total += b.size
	})
	if err != nil {
		return err
	}
	err = c.s.eachRecord(ctx, func(name string, info fs.FileInfo) {
		blobs, _ := readHead(name) // one without a head names nothing: Records removes it when it is asked for
		c.records = append(c.records, usedRecord{recordFile: recordFile{name, info.ModTime()}, size: info.Size(), blobs: distinct(blobs)})
		c.total += info.Size()
	})
	if err == nil {
		err = c.scanCommands(ctx)
	}
	for _, r := range c.records {
		for _, d := range r.blobs {
			c.refs[d]++
		}
	}
	for d := range c.blobs {
		c.doom(d)
	}
	sort.SliceStable(c.records, func(a, b int) bool { return c.records[a].used.Before(c.records[b].used) })
	return err
}

func distinct(blobs []cache.Digest) []cache.Digest {
	seen := map[cache.Digest]bool{}
	var out []cache.Digest
	for _, d := range blobs {
		if !seen[d] {
			seen[d] = true
			out = append(out, d)
		}
	}
	return out
}

// kept is what will remain if no further record goes.
func (c *collection) kept() int64 { return c.total - c.res.Freed - c.doomed }

func (c *collection) old(t time.Time) bool { return c.s.now().Sub(t) > grace }

// bound reports a record without which a blob would stay that nothing names.
func (c *collection) bound(r usedRecord) bool {
	for _, d := range r.blobs {
		if c.refs[d] > 1 {
			continue
		}
		files := c.blobs[d]
		if len(files) == 0 && !c.old(r.used) {
			return true // written after the blobs were looked at
		}
		if slices.ContainsFunc(files, func(b blobFile) bool { return !c.old(b.written) }) {
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
	if err := c.dropCommand(r.command); err != nil {
		return err
	}
	if err := remove(r.name); err != nil {
		return err
	}
	os.Remove(filepath.Dir(r.name)) // if that was the last
	c.res.Records++
	c.res.Freed += r.size
	for _, d := range r.blobs {
		c.refs[d]--
		c.doom(d)
	}
	return nil
}

// doom counts the files of a digest that sweep will remove, once the last record that names it has
// gone.
func (c *collection) doom(d cache.Digest) {
	if c.refs[d] > 0 {
		return
	}
	for _, b := range c.blobs[d] {
		if c.old(b.written) {
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
			if err := c.removeOld(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeOld removes a blob that is old, and was not taken up again since the scan.
func (c *collection) removeOld(b blobFile) error {
	info, err := os.Lstat(b.name)
	if err != nil || !c.old(info.ModTime()) {
		return nil
	}
	if err := remove(b.name); err != nil {
		return err
	}
	c.res.Blobs++
	c.res.Freed += b.size
	return nil
}

// reapTemps removes what killed processes left behind. A file that is being written is young.
func (c *collection) reapTemps() {
	entries, _ := readDir(c.s.path("tmp"))
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && c.old(info.ModTime()) && os.Remove(c.s.path("tmp", e.Name())) == nil {
			c.res.Temps++
		}
	}
}

// remove is os.Remove; a file that is gone already is no error.
func remove(name string) error {
	if err := os.Remove(name); err != nil && exists(name) {
		return err
	}
	return nil
}
