// Package disk stores the action cache in a folder that any number of processes share. It knows
// files, digests and their age, and nothing of what an action is.
//
// # Layout
//
//	v2/blobs/xx/<digest>[.zst]        content, named by its SHA-256; xx is its first byte
//	v2/records/xx/<command key>.<id>  one cache.Record, see recordfile.go and shard.go
//	v2/imports/<sha256>.json          manifests of imported bundles, see bundle.go
//	v2/tmp/                           files being written
//	v2/counters, v2/gc                hits and misses; when the last automatic gc began
//	commands/xx/<key>                 result of a compiler's command line, see commands.go
//
// # Protocol
//
// Every file is written under a private name in v2/tmp and renamed into place when it is complete.
// So readers and writers need no locks: a name that exists has its final content. A record is
// renamed into place after all its blobs, and removed before them.
//
// No file is fsynced, deliberately. After a power loss a file may be empty or contain zeros under
// its final name. But restoring a blob checks its digest, and each record carries its own SHA-256.
// So a torn entry is a miss and is removed, like any other damage. An fsync per file would only
// save a few entries after a crash. It costs 0.8 ms on a virtual disk and 5 to 30 ms on a spinning
// disk. All other work on a 100 KB blob takes 0.1 ms.
//
// Restored files are reflinks where the file system supports them and copies otherwise. They are
// never hard links: a later tool that changes an object in place would change the blob with it.
package disk

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// EnvDir is the environment variable that sets the cache folder.
const EnvDir = "KBUILD_CACHE_DIR"

const version = "v2"

// Store implements cache.Store in a folder.
type Store struct {
	records
	copies atomic.Bool // the file system cannot clone files
}

// folder is the cache folder. Files in it appear complete.
type folder struct {
	dir string // absolute
	now func() time.Time

	// fault is called before each step of a write; tests make it fail like a disk.
	fault func(step string) error
}

var _ cache.Store = (*Store)(nil)

// Folder returns the cache folder.
func (s *Store) Folder() string { return s.dir }

// Dir returns the cache folder: $KBUILD_CACHE_DIR, or kbuild in the platform's cache folder of the
// user. A relative $KBUILD_CACHE_DIR is an error: it would name another folder for each working
// directory, and such a cache would never hit. The folder need not exist.
func Dir(getenv func(string) string) (string, error) {
	if dir := getenv(EnvDir); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s is %q: it must be an absolute path", EnvDir, dir)
		}
		return filepath.Clean(dir), nil
	}
	base, err := userCacheDir(getenv)
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set %s to one", err, EnvDir)
	}
	return filepath.Join(base, "kbuild"), nil
}

// userCacheDir is os.UserCacheDir, but takes the environment as an argument where it matters.
func userCacheDir(getenv func(string) string) (string, error) {
	switch runtime.GOOS {
	case "windows", "darwin", "ios", "plan9":
		return os.UserCacheDir()
	}
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		// The XDG specification says to ignore a relative path.
		return dir, nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache"), nil
	}
	return "", errors.New("neither XDG_CACHE_HOME nor HOME is an absolute path")
}

// Open opens the store in dir, which must be absolute, and creates it if necessary. It also opens
// an existing store that cannot be written: such a store serves hits, and Put returns errors.
func Open(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the cache folder %q is not an absolute path", dir)
	}
	s := &Store{records: records{folder: folder{dir: filepath.Clean(dir), now: time.Now}}}
	for _, sub := range []string{"blobs", "records", "tmp"} {
		err := os.MkdirAll(s.path(sub), 0o777)
		if err == nil {
			continue
		}
		if info, e := os.Stat(s.path("records")); e == nil && info.IsDir() {
			break // the store can be read
		}
		return nil, fmt.Errorf("the cache folder %s cannot be written: %w; make it writable, or set %s to another folder", s.dir, err, EnvDir)
	}
	s.tag()
	return s, nil
}

// tag marks the folder for backup programs (bford.info/cachedir).
func (s *Store) tag() {
	const text = "Signature: 8a477f597d28d172789f06886806bc55\n# This file marks the action cache of kbuild; deleting the folder is safe.\n"
	if name := s.path("CACHEDIR.TAG"); !exists(name) {
		os.WriteFile(name, []byte(text), 0o666)
	}
}

func (s *folder) path(parts ...string) string {
	return s.dir + "/" + version + "/" + strings.Join(parts, "/")
}

// temp opens a private file in v2/tmp. Its name is random, so that it cannot collide with that of
// another machine that shares the folder. The file is read-only for others, since an entry must not
// change once it has its final name.
func (s *folder) temp() (*os.File, error) {
	var b [16]byte
	rand.Read(b[:])
	return regular.Open(s.path("tmp", hex.EncodeToString(b[:])), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o444)
}

// publish renames a finished temporary file into place and creates its folder if necessary. gc may
// remove an empty folder at any moment, so publish retries.
func (s *folder) publish(tmp, name string) error {
	if err := s.step("rename"); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := regular.Rename(tmp, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			// ErrExist: another process created it, and it may be removed again.
			return err
		}
	}
}

func (s *folder) step(name string) error {
	if s.fault == nil {
		return nil
	}
	return s.fault(name)
}

// WriteError reports that the store could not be written, for example because of a full disk, and
// what to do about it.
type WriteError struct{ error }

func (e WriteError) Unwrap() error { return e.error }

// unwritable wraps the error of a write into the store in a WriteError.
func (s *folder) unwritable(err error) error {
	if err == nil {
		return nil
	}
	return WriteError{s.writing(err)}
}

func (s *folder) writing(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("no space left for the cache in %s: %w; run `kbuild cache gc`, or set %s to another folder", s.dir, err, EnvDir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the cache folder %s cannot be written: %w; make it writable, or set %s to another folder", s.dir, err, EnvDir)
	}
	return fmt.Errorf("writing to the cache in %s: %w", s.dir, err)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
