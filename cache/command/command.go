// Package command stores the results of compiler command lines and everything that they depend on:
// the fast path of `kbuild cc`. It knows paths, environments and outputs, but no compiler options.
//
// The key is a command line with its folder and environment. Its file is a trace (cache/trace): the
// paths that the compile observed, and the result. If each path is unchanged, by stat or by
// content, the outputs are restored from the action cache, and no process starts. Losing a file
// costs time: the records of the passes are still valid.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/trace"
)

// format is part of every key, so that versions of kbuild with another format use other files.
const format = "command-3"

// Made is the result of a command.
type Made struct {
	// Names as in the command; the action cache has the content.
	Outputs []cache.Output `json:"outputs"`
	Files   []Text         `json:"files,omitempty"`  // small outputs, with their content
	Stderr  string         `json:"stderr,omitempty"` // output of the command on stderr
	// Names and texts contain the mark of the base: see Base.Write.
	Based bool `json:"based,omitempty"`

	// Peak memory of its passes in bytes; the caller names the passes.
	Peaks map[string]int64 `json:"peaks,omitempty"`
}

// Text is an output with its content.
type Text struct {
	Path string `json:"path"`
	Text []byte `json:"text"`
	// Compiler family that wrote a dependency file, "gcc" or "clang", which determines its line
	// breaks; "" for other files.
	Rule string `json:"rule,omitempty"`
}

// Key returns the key of a command line in an absolute folder. env contains all variables that may
// change the result or the diagnostics.
func Key(argv []string, dir string, env []string) cache.Key {
	h := cache.NewHasher()
	h.Field("format", format)
	h.Field("method", cache.KeyVersion)
	h.Field("folder", dir)
	for _, e := range env {
		h.Field("env", e)
	}
	for _, a := range argv {
		h.Field("arg", a)
	}
	return h.Sum()
}

// SharedKey is a Key that is equal for the same command in another checkout. files are the texts of
// its option files (@file, --options-file). ok is false if the command depends on the path of its
// base.
func SharedKey(argv []string, base Base, env, files []string) (key cache.Key, ok bool) {
	if base.Dir == "" {
		return key, false
	}
	h := cache.NewHasher()
	h.Field("format", format)
	h.Field("method", cache.KeyVersion)
	h.Field("project", base.Project)
	h.Field("below", base.Cwd)
	for _, list := range []struct {
		field string
		texts []string
	}{{"env", env}, {"arg", argv}, {"file", files}} {
		for _, text := range list.texts {
			spelled, ok := base.Spell(text)
			if !ok {
				return key, false
			}
			h.Field(list.field, spelled)
		}
	}
	return h.Sum(), true
}

// Memory is the part of an action cache that stores the results of command lines. They are evicted
// least recently used first, at any time, like all entries. A reader keeps its open file; a missing
// output is a miss, and the compiler runs.
type Memory struct{ store *disk.Store }

// Open returns the Memory of a store.
func Open(store *disk.Store) *Memory { return &Memory{store} }

// find returns the trace of a command, and its value: the result. Both are nil if there is none.
func (m *Memory) find(key cache.Key) (*trace.Trace, *Made) {
	t := trace.ReadFile(m.store.Command(key), key)
	made := &Made{}
	if t == nil || json.Unmarshal(t.Value(), made) != nil {
		return nil, nil
	}
	return t, made
}

// Find returns the last result of a command in dir; nil if there is none. valid reports that
// everything that it depends on is unchanged. changed lists the paths that are not.
func (m *Memory) Find(key cache.Key, dir string) (made *Made, valid bool, changed []string) {
	t, made := m.find(key)
	if made == nil {
		return nil, false, nil
	}
	_, broken, err := t.Check(dir)
	return made, err == nil && len(broken) == 0, t.Paths(dir, broken)
}

// FindShared is Find for a result that another checkout may have stored. If it is valid, FindShared
// stores it under the key here, which includes this folder. The next Find then compares stats only.
// began is the start of this process's work.
func (m *Memory) FindShared(shared, here cache.Key, dir string, began time.Time) (made *Made, valid bool, changed []string) {
	t, made := m.find(shared)
	if made == nil {
		return nil, false, nil
	}
	fresh, broken, err := t.Check(dir)
	valid = err == nil && len(broken) == 0
	if valid && len(fresh) > 0 {
		m.Keep(here, t.Refreshed(fresh, began), *made)
	}
	return made, valid, t.Paths(dir, broken)
}

// Forget removes the result of a command.
func (m *Memory) Forget(key cache.Key) { os.Remove(m.store.Command(key)) }

// At returns the result with the paths of a base.
func (m *Made) At(b Base) *Made {
	if !m.Based {
		return m
	}
	at := *m
	at.Based, at.Stderr, at.Outputs, at.Files = false, b.Write(m.Stderr), slices.Clone(m.Outputs), slices.Clone(m.Files)
	for i := range at.Outputs {
		at.Outputs[i].Path = b.Write(at.Outputs[i].Path)
	}
	for i, f := range at.Files {
		text := b.Write(string(f.Text))
		if f.Rule != "" {
			text, _ = wrap(text, f.Rule)
		}
		at.Files[i] = Text{Path: b.Write(f.Path), Text: []byte(text)}
	}
	return &at
}

// Spelled is the inverse of At. ok is false if the base occurs where no mark can replace it.
func (m *Made) Spelled(b Base) (spelled *Made, ok bool) {
	s := *m
	ok = true
	spell := func(text string) string {
		text, may := b.Spell(text)
		ok = ok && may
		return text
	}
	s.Based, s.Stderr, s.Outputs, s.Files = true, spell(m.Stderr), slices.Clone(m.Outputs), slices.Clone(m.Files)
	for i := range s.Outputs {
		s.Outputs[i].Path = spell(s.Outputs[i].Path)
	}
	for i, f := range s.Files {
		s.Files[i] = Text{spell(f.Path), []byte(spell(string(f.Text))), f.Rule}
		if f.Rule != "" {
			wrapped, known := wrap(string(f.Text), f.Rule)
			ok = ok && known && wrapped == string(f.Text)
		}
	}
	return &s, ok
}

// Keep stores the result of a command.
func (m *Memory) Keep(key cache.Key, observed []cache.Observation, made Made) error {
	value, err := json.Marshal(made)
	if err != nil {
		return err
	}
	content, err := trace.EncodeFile(key, value, observed)
	if err != nil {
		return err
	}
	return m.store.PutCommand(key, made.Outputs, content)
}

// New passes may run out of memory if the scheduler's estimate for passes without history is too
// low. Then the estimate for all such passes in that folder is doubled. The file of a folder
// contains the number.

// Short returns that estimate in bytes; 0 if no pass was short of memory.
func (m *Memory) Short(dir string) int64 {
	text, _ := os.ReadFile(m.short(dir))
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return max(0, n)
}

// NoteShort stores an estimate unless a larger one is stored. If one of two concurrent calls is
// lost, the estimate is only less accurate.
func (m *Memory) NoteShort(dir string, bytes int64) {
	name := m.short(dir)
	if bytes <= m.Short(dir) || os.MkdirAll(filepath.Dir(name), 0o777) != nil {
		return
	}
	WriteFile(name, false, func(w io.Writer) error {
		_, err := io.WriteString(w, strconv.FormatInt(bytes, 10))
		return err
	})
}

func (m *Memory) short(dir string) string {
	h := cache.NewHasher()
	h.Field("folder", dir)
	return filepath.Join(m.store.Folder(), "commands", "short", h.Sum().String())
}

// Used records a use of a restored command: eviction is least recently used first.
func (m *Memory) Used(key cache.Key) { m.store.UsedCommand(key) }

// Place writes the outputs of a command in dir. They are new files with new times, since other
// build tools compare the times.
func (m *Memory) Place(ctx context.Context, made *Made, dir string) error {
	for _, o := range made.Outputs {
		if err := replaceable(cache.Absolute(dir, o.Path)); err != nil {
			return err
		}
	}
	for _, t := range made.Files {
		if err := replaceable(cache.Absolute(dir, t.Path)); err != nil {
			return err
		}
	}
	for _, o := range made.Outputs {
		err := WriteFile(cache.Absolute(dir, o.Path), o.Exec, func(w io.Writer) error { return m.copy(o, w) })
		if err != nil {
			return err
		}
	}
	for _, t := range made.Files {
		err := WriteFile(cache.Absolute(dir, t.Path), false, func(w io.Writer) error {
			_, err := w.Write(t.Text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceable returns an error unless name is free or a plain file that only this name refers to.
// For anything else (a device, a link, a folder, another mode or owner) the compiler runs: it
// writes into the file or fails.
func replaceable(name string) error {
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		_, err = os.Stat(filepath.Dir(name))
		return err
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || st.Mode&0o7777 != 0o666&^umask() && st.Mode&0o7777 != 0o777&^umask() || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s is no plain file that a new one may replace", name)
	}
	return nil
}

// umask returns the mode bits that new files do not get. umask(2) reports them only by setting
// them, so this reads /proc.
var umask = sync.OnceValue(func() uint32 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "\nUmask:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 8, 32)
	if err != nil {
		return 0o22
	}
	return uint32(mask)
})

// copy writes the content of an output and checks its digest.
func (m *Memory) copy(o cache.Output, w io.Writer) error {
	r, err := m.store.Content(o)
	if err != nil {
		return err
	}
	defer r.Close()
	d, _, err := cache.DigestReader(io.TeeReader(r, w))
	if err == nil && d != o.Digest {
		err = fmt.Errorf("%s: %w", o.Path, cache.ErrCorrupt)
	}
	return err
}

// WriteFile creates or replaces a file. If the file system supports it, the file has no name until
// it is complete, so that a killed process leaves nothing behind.
func WriteFile(name string, exec bool, write func(io.Writer) error) error {
	mode := uint32(0o666)
	if exec {
		mode = 0o777
	}
	fd, err := unix.Open(filepath.Dir(name), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, mode)
	if err != nil {
		return writeNamed(name, fs.FileMode(mode), write)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	self := "/proc/self/fd/" + strconv.Itoa(fd)
	for {
		err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if !errors.Is(err, unix.EEXIST) {
			if err != nil {
				err = &fs.PathError{Op: "link", Path: name, Err: err}
			}
			return err
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// writeNamed is WriteFile through a temporary file in the same folder.
func writeNamed(name string, mode fs.FileMode, write func(io.Writer) error) error {
	return regular.ReplaceFrom(name, func(f *os.File) error {
		return errors.Join(write(f), f.Chmod(mode&^fs.FileMode(umask())))
	})
}
