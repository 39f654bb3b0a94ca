package disk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache"
)

// The result of a compiler's command line is a file beside the store: commands/xx/<the rest of its
// key>. cache/command defines its content. The store knows only its age and the blobs that it
// needs. A record with the same key names these outputs, so that they stay and are evicted like
// those of any record. A collection that removes the record also removes the file.

// commandsDir is the folder of these files in the cache folder.
const commandsDir = "commands"

// Command returns the file name of a command.
func (s *Store) Command(key cache.Key) string {
	name := key.String()
	return filepath.Join(s.dir, commandsDir, name[:2], name[2:])
}

// PutCommand stores the file of a command whose outputs are in the store.
func (s *Store) PutCommand(key cache.Key, outputs []cache.Output, content []byte) error {
	if err := s.Keep(&cache.Record{Command: key, Outputs: outputs, Made: s.now()}); err != nil {
		return err
	}
	var b [16]byte
	rand.Read(b[:])
	tmp := s.path("tmp", hex.EncodeToString(b[:]))
	err := os.WriteFile(tmp, content, 0o666)
	if err == nil {
		err = s.publish(tmp, s.Command(key))
	}
	if err != nil {
		os.Remove(tmp)
	}
	return s.unwritable(err)
}

// UsedCommand records a use of a command, as Used does for a record.
func (s *Store) UsedCommand(key cache.Key) { s.Used(&cache.Record{Command: key}) }

// eachCommand visits the files of the commands.
func (s *Store) eachCommand(ctx context.Context, visit func(key cache.Key, name string, info fs.FileInfo)) error {
	return eachDir(ctx, filepath.Join(s.dir, commandsDir), func(dir string) error {
		return eachFile(ctx, dir, func(info fs.FileInfo) {
			if key, err := cache.ParseDigest(filepath.Base(dir) + info.Name()); err == nil {
				visit(key, filepath.Join(dir, info.Name()), info)
			}
		})
	})
}

// scanCommands attaches the command files to their records. It removes a file without a record once
// it is old. It also removes the old files that a killed process left behind.
func (c *collection) scanCommands(ctx context.Context) error {
	byKey := map[cache.Key]int{}
	for i, r := range c.records {
		if key, _, ok := splitRecordName(filepath.Base(r.name)); ok {
			byKey[key] = i
		}
	}
	return c.s.eachCommand(ctx, func(key cache.Key, name string, info fs.FileInfo) {
		c.total += info.Size()
		if i, ok := byKey[key]; ok {
			c.records[i].command, c.records[i].size = name, c.records[i].size+info.Size()
		} else if c.old(info.ModTime()) && os.Remove(name) == nil {
			c.res.Commands++
			c.res.Freed += info.Size()
		}
	})
}

// dropCommand removes the command file of a record, if it has one.
func (c *collection) dropCommand(name string) error {
	if name == "" {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.res.Commands++
	return nil
}
