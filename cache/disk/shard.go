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

// A record is a file of its own, named by its command key and its id, in one of 256 folders. A
// folder for each command would be listed faster, and cost a mkdir for each record, which is a
// third of what storing it costs. So a folder is listed when a command in it is first asked for,
// and again when its time says that somebody else wrote into it.

// shard is what is known of one of the folders.
type shard struct {
	mu       sync.Mutex
	modified time.Time                    // of the folder, when it was listed or last written by this process
	ids      map[cache.Key][]cache.Digest // by command key; digests of 100,000 records take half the memory of their names
}

// recordName is the name of a record's file in its folder.
func recordName(command cache.Key, id cache.Digest) string {
	return command.String() + "." + id.String()
}

// splitRecordName is the reverse; ok is false for other files.
func splitRecordName(name string) (command cache.Key, id cache.Digest, ok bool) {
	first, second, _ := strings.Cut(name, ".")
	command, err := cache.ParseDigest(first)
	id, err2 := cache.ParseDigest(second)
	return command, id, err == nil && err2 == nil
}

// ids are those of the records under a command key.
func (s *Store) ids(command cache.Key) []cache.Digest {
	sh := &s.shards[command[0]]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dir := s.shardDir(command)
	info, err := os.Lstat(dir)
	if err != nil {
		return nil // absent, as a rule
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

// wrote notes a record of this process. What another process wrote at the same moment may go
// unseen: a miss.
func (s *Store) wrote(command cache.Key, id cache.Digest) {
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

func (s *Store) shardDir(k cache.Key) string { return s.path("records", k.String()[:2]) }

func (s *Store) record(r *cache.Record) string { return s.recordFile(r.Command, r.ID()) }

func (s *Store) recordFile(command cache.Key, id cache.Digest) string {
	return filepath.Join(s.shardDir(command), recordName(command, id))
}

// recordFile is a file by name and age.
type recordFile struct {
	name string
	used time.Time
}

// recordFiles lists the records of one command key, last used first.
func (s *Store) recordFiles(command cache.Key) []recordFile {
	ids := s.ids(command)
	slices.SortFunc(ids, func(a, b cache.Digest) int { return bytes.Compare(a[:], b[:]) })
	var found []recordFile
	for _, id := range ids {
		name := s.recordFile(command, id)
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			found = append(found, recordFile{name, info.ModTime()})
		}
	}
	slices.SortStableFunc(found, func(a, b recordFile) int { return b.used.Compare(a.used) })
	return found
}
