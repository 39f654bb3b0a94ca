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

// What is remembered of a command line of a compiler is a file beside the store: commands/xx/<the
// rest of its key>. What is in it is the business of cache/command. The store knows how old it is,
// and what it holds on to: a record of the same key names the outputs, so that they stay, and go,
// like those of any record. A collection that removes the record removes the file.

// commandsDir is the folder of these files, in that of the cache.
const commandsDir = "commands"

// Command is the file of a command.
func (s *Store) Command(key cache.Key) string {
	name := key.String()
	return filepath.Join(s.dir, commandsDir, name[:2], name[2:])
}

// PutCommand makes the file of a command whose outputs are in the store. write writes it under
// another name, which is free.
func (s *Store) PutCommand(key cache.Key, outputs []cache.Output, write func(tmp string) error) error {
	if err := s.Keep(&cache.Record{Command: key, Outputs: outputs, Made: s.now()}); err != nil {
		return err
	}
	var b [16]byte
	rand.Read(b[:])
	tmp := s.path("tmp", hex.EncodeToString(b[:]))
	err := write(tmp)
	if err == nil {
		err = s.publish(tmp, s.Command(key))
	}
	if err != nil {
		os.Remove(tmp)
	}
	return s.unwritable(err)
}

// UsedCommand stamps a command at each use, as Used does a record.
func (s *Store) UsedCommand(key cache.Key) { s.Used(&cache.Record{Command: key}) }

// eachCommand visits the files of commands.
func (s *Store) eachCommand(ctx context.Context, visit func(key cache.Key, name string, info fs.FileInfo)) error {
	return eachDir(ctx, filepath.Join(s.dir, commandsDir), func(dir string) error {
		return eachFile(ctx, dir, func(info fs.FileInfo) {
			if key, err := cache.ParseDigest(filepath.Base(dir) + info.Name()); err == nil {
				visit(key, filepath.Join(dir, info.Name()), info)
			}
		})
	})
}

// scanCommands gives each record the file of its command. A file without a record is of no use, nor
// is what a killed process has left of another kbuild: they go when they are old.
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

// dropCommand removes the file that goes with a record.
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
