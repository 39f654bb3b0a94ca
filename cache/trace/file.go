package trace

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A trace in a file of its own: magic (16 bytes), CRC-32C of what follows (4), zeroes (4), key
// (32), zeroes (8), blob. A file is written completely and renamed into place, so any number of
// processes use it without a lock.
const (
	fileMagic = "kbuild trace 1\r\n"
	fileHead  = 64
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ReadFile returns the trace in a file, or nil if the file is absent, damaged, or has another key.
func ReadFile(name string, key cache.Key) *Trace {
	b, err := regular.Read(name)
	if err != nil || len(b) < fileHead || string(b[:16]) != fileMagic ||
		le.Uint32(b[16:]) != crc32.Checksum(b[20:], castagnoli) || cache.Key(b[24:56]) != key {
		return nil
	}
	t, err := Open(b[fileHead:], nil)
	if err != nil {
		return nil
	}
	return t
}

// Load returns the value of the trace in a file, with its observations, if all of them are valid.
// Relative paths are relative to root. It stores new stats of unchanged files, so that the next
// Load need not read them.
func Load(name string, key cache.Key, root string) (value []byte, list []cache.Observation, ok bool) {
	began := time.Now()
	t := ReadFile(name, key)
	if t == nil {
		return nil, nil, false
	}
	fresh, broken, err := t.Check(root)
	if err != nil || len(broken) > 0 {
		return nil, nil, false
	}
	list = t.Refreshed(fresh, began)
	if len(fresh) > 0 {
		Save(name, key, t.Value(), list)
	}
	return t.Value(), list, true
}

// Save stores a trace in a file for ReadFile and Load. It sorts list.
func Save(name string, key cache.Key, value []byte, list []cache.Observation) error {
	b, err := EncodeFile(key, value, list)
	if err != nil {
		return err
	}
	return regular.Replace(name, b)
}

// EncodeFile returns the content of a file for ReadFile. It sorts list.
func EncodeFile(key cache.Key, value []byte, list []cache.Observation) ([]byte, error) {
	blob, err := Encode(value, list)
	if err != nil {
		return nil, err
	}
	b := make([]byte, fileHead, fileHead+len(blob))
	copy(b, fileMagic)
	copy(b[24:], key[:])
	b = append(b, blob...)
	le.PutUint32(b[16:], crc32.Checksum(b[20:], castagnoli))
	return b, nil
}
