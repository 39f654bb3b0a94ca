package disk

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/cache"
)

// The result of a compiler's command line is a file beside the store: commands/xx/<the rest of its
// key>. The launcher defines its content. The store knows only its age and the blobs that it
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
	return s.unwritable(s.putFile(s.Command(key), content))
}

// UsedCommand records a use of a command, as Used does for a record.
func (s *Store) UsedCommand(key cache.Key) { s.Used(&cache.Record{Command: key}) }

// allCommands lists the files of the commands.
func (s *Store) allCommands(ctx context.Context) ([]storedFile, error) {
	all, err := shardedFiles(ctx, filepath.Join(s.dir, commandsDir))
	return slices.DeleteFunc(all, func(f storedFile) bool {
		_, ok := commandKey(f.name)
		return !ok
	}), err
}

// commandKey is the inverse of Command; ok is false for other files.
func commandKey(name string) (key cache.Key, ok bool) {
	dir, rest := filepath.Split(name)
	key, err := cache.ParseDigest(filepath.Base(dir) + rest)
	return key, err == nil
}
