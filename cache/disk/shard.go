package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// Each record is one file, named by its command key and its id, in one of 256 folders. A folder per
// command would be faster to list. It would cost a mkdir per record, which is a third of the cost
// of storing it. So the store lists a folder at the first query of a command in it. It lists the
// folder again when the folder's time shows that another process wrote into it.

// shard is the cached listing of one folder.
type shard struct {
	mu sync.Mutex
	// Time of the folder when this process last listed it or wrote into it.
	modified time.Time
	// Digests take half the memory of file names, which matters for 100,000 records.
	ids map[cache.Key][]cache.Digest
}

// records are the records of the store.
type records struct {
	folder
	shards [256]shard
}

// recordName returns the name of a record's file in its folder.
func recordName(command cache.Key, id cache.Digest) string {
	return command.String() + "." + id.String()
}

// splitRecordName is the inverse of recordName; ok is false for other files.
func splitRecordName(name string) (command cache.Key, id cache.Digest, ok bool) {
	first, second, _ := strings.Cut(name, ".")
	command, err := cache.ParseDigest(first)
	id, err2 := cache.ParseDigest(second)
	return command, id, err == nil && err2 == nil
}

// ids returns the ids of the records under a command key.
func (s *records) ids(command cache.Key) []cache.Digest {
	sh := &s.shards[command[0]]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dir := s.shardDir(command)
	info, err := os.Lstat(dir)
	if err != nil {
		return nil // usually absent
	}
	if sh.ids == nil || !info.ModTime().Equal(sh.modified) {
		sh.list(dir)
		sh.modified = info.ModTime()
	}
	return slices.Clone(sh.ids[command])
}

func (sh *shard) list(dir string) {
	sh.ids = map[cache.Key][]cache.Digest{}
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, n := range names {
		if command, id, ok := splitRecordName(n); ok {
			sh.ids[command] = append(sh.ids[command], id)
		}
	}
}

// wrote adds a record of this process to the listing. A record that another process writes at the
// same moment may be missed, which is a cache miss.
func (s *records) wrote(command cache.Key, id cache.Digest) {
	sh := &s.shards[command[0]]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.ids == nil {
		return
	}
	if !slices.Contains(sh.ids[command], id) {
		sh.ids[command] = append(sh.ids[command], id)
	}
	if info, err := os.Lstat(s.shardDir(command)); err == nil {
		sh.modified = info.ModTime()
	}
}

func (s *records) shardDir(k cache.Key) string { return s.path("records", k.String()[:2]) }

func (s *records) record(r *cache.Record) string { return s.recordFile(r.Command, r.ID()) }

func (s *records) recordFile(command cache.Key, id cache.Digest) string {
	return filepath.Join(s.shardDir(command), recordName(command, id))
}

// recordFiles lists the records of one command key, most recently used first.
func (s *records) recordFiles(command cache.Key) []storedFile {
	ids := s.ids(command)
	slices.SortFunc(ids, func(a, b cache.Digest) int { return bytes.Compare(a[:], b[:]) })
	var found []storedFile
	for _, id := range ids {
		name := s.recordFile(command, id)
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			found = append(found, storedFile{name, info.Size(), info.ModTime()})
		}
	}
	slices.SortStableFunc(found, func(a, b storedFile) int { return b.used.Compare(a.used) })
	return found
}
