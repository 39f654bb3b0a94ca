// Package disk keeps the action cache in a folder that any number of processes share; it knows
// files, digests and their age, and nothing of what an action is.
//
// # Layout
//
//	v2/blobs/xx/<digest>[.zst]        content, named by its SHA-256; xx is its first byte
//	v2/records/xx/<command key>.<id>  one cache.Record, see recordfile.go and shard.go
//	v2/imports/<sha256>.json          the manifests of bundles, see bundle.go
//	v2/tmp/                           files being written
//	v2/counters, v2/gc                hits and misses; when the last automatic gc began
//	commands/xx/<key>                 what is remembered of a compiler's command line, see commands.go
//
// # Protocol
//
// Every file is written under a private name in v2/tmp and renamed into place whole, so readers and
// writers need no locks: a name that exists has its final content. A record is renamed into place
// after all its blobs, and removed before them.
//
// Nothing is fsync'ed, on purpose. After a power loss a file may be empty or hold zeros under its
// final name; but each blob is checked against its digest by the very copy that restores it, and
// each record carries its own SHA-256. So a torn entry is a miss that removes itself, the same as
// any other damage, and an fsync per file (0.8 ms here against 0.1 ms for all else of a 100 KB blob
// on a virtual disk, 5 to 30 ms on a spinning one) would buy only that a few entries survive a
// crash.
//
// Restored files are reflinks where the file system can and copies elsewhere, never hard links: an
// object that a later tool changes in place would change the blob with it.
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

// EnvDir names the environment variable that moves the cache.
const EnvDir = "KBUILD_CACHE_DIR"

const version = "v2"

// Store implements cache.Store in a folder.
type Store struct {
	dir    string // the cache folder, absolute
	now    func() time.Time
	shards [256]shard
	copies atomic.Bool // the file system shares no blocks

	// fault is asked before each step of a write; tests make it fail where a disk would.
	fault func(step string) error
}

var _ cache.Store = (*Store)(nil)

// Folder is the folder of the store.
func (s *Store) Folder() string { return s.dir }

// Dir is the cache folder: $KBUILD_CACHE_DIR, else kbuild in the user's cache folder as the
// platform defines it. A relative $KBUILD_CACHE_DIR is refused: it would name another folder for
// each folder that a build is started in, and so a cache that never hits. The folder need not
// exist.
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

// userCacheDir is os.UserCacheDir with the environment as an argument where that decides.
func userCacheDir(getenv func(string) string) (string, error) {
	switch runtime.GOOS {
	case "windows", "darwin", "ios", "plan9":
		return os.UserCacheDir()
	}
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) { // a relative one is to be ignored, says its specification
		return dir, nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache"), nil
	}
	return "", errors.New("neither XDG_CACHE_HOME nor HOME is an absolute path")
}

// Open opens the store in dir, which must be absolute, and makes it if need be. A store that exists
// and cannot be written is opened too: it serves hits, and Put gives errors.
func Open(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the cache folder %q is not an absolute path", dir)
	}
	s := &Store{dir: filepath.Clean(dir), now: time.Now}
	for _, sub := range []string{"blobs", "records", "tmp"} {
		err := os.MkdirAll(s.path(sub), 0o777)
		if err == nil {
			continue
		}
		if info, e := os.Stat(s.path("records")); e == nil && info.IsDir() {
			break // there is something to read
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

func (s *Store) path(parts ...string) string {
	return s.dir + "/" + version + "/" + strings.Join(parts, "/")
}

// temp opens a private file in v2/tmp. Its name cannot collide with that of another machine that
// shares the folder. Entries are read-only files: nothing writes into them once they have their
// name.
func (s *Store) temp() (*os.File, error) {
	var b [16]byte
	rand.Read(b[:])
	return regular.Open(s.path("tmp", hex.EncodeToString(b[:])), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o444)
}

// publish renames a finished temporary file into place and makes the folder for it if need be. gc
// may remove an empty folder at any moment, so it tries again.
func (s *Store) publish(tmp, name string) error {
	if err := s.step("rename"); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := cache.Rename(tmp, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) { // made by another, and gone again
			return err
		}
	}
}

func (s *Store) step(name string) error {
	if s.fault == nil {
		return nil
	}
	return s.fault(name)
}

// WriteError is trouble with writing into a store, such as a full disk, and says what to do about
// it.
type WriteError struct{ error }

// Unwrap gives the cause.
func (e WriteError) Unwrap() error { return e.error }

// unwritable makes an error of a write into the store a WriteError.
func (s *Store) unwritable(err error) error {
	if err == nil {
		return nil
	}
	return WriteError{s.writing(err)}
}

func (s *Store) writing(err error) error {
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
