// Package command remembers what command lines of compilers made, and all that they depended on:
// the fast way of `kbuild cc`. A command line in a folder, with an environment, has a file: a view
// of the paths that its compile looked at, as a build tree has one of a whole build (cache/tree),
// and what came of it. Where each path is what it was, by stat or else by content, the outputs are
// taken from the action cache, and no process starts.
//
// The file is written whole and renamed into place, so any number of processes use it without a
// lock. Losing one costs time: behind it stand the records of the passes.
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
	"github.com/kbuild-dev/kbuild/cache/tree"
)

// format stands in keys: what is remembered is of other use to another kbuild.
const format = "command-2"

// Made is what a command made.
type Made struct {
	Outputs []cache.Output `json:"outputs"`          // names as in the command; the content is in the action cache
	Files   []Text         `json:"files,omitempty"`  // more outputs, which are small
	Stderr  string         `json:"stderr,omitempty"` // what it said
	Based   bool           `json:"based,omitempty"`  // a mark in names and texts stands for the base: see Base.Write

	Peaks map[string]int64 `json:"peaks,omitempty"` // bytes of memory that its passes took, by names of the caller's
}

// Text is an output with its content.
type Text struct {
	Path string `json:"path"`
	Text []byte `json:"text"`
	Rule string `json:"rule,omitempty"` // compiler family that wrote a dependency file, "gcc" or "clang", which fixes its line breaks; "" for other files
}

// Key names a command line in a folder, which is absolute. env has all variables that may change
// what it makes or says.
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

// SharedKey is Key for whoever runs the command at another place of its base. files are the texts
// of files that the command line stands for. ok is false if the command cannot be spelled without
// the place.
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

// Memory is where an action cache remembers command lines. What is not used for long is removed as
// all that the cache has, at any moment: who has just opened it reads on, and who does not find an
// output compiles.
type Memory struct{ store *disk.Store }

// Open gives the memory of a store.
func Open(store *disk.Store) *Memory { return &Memory{store} }

// open gives the view of a command, in a database to be closed; nil if it is not remembered.
func (m *Memory) open(key cache.Key) (*tree.DB, *tree.View) {
	name := m.store.Command(key)
	if _, err := os.Stat(name); err != nil {
		return nil, nil
	}
	db, err := tree.Open(name)
	if err != nil {
		return nil, nil
	}
	v := db.View([32]byte(key))
	if v == nil {
		db.Close()
		return nil, nil
	}
	return db, v
}

// madeOf reads what a view was kept with; nil if it is of another kbuild.
func madeOf(v *tree.View) *Made {
	made := &Made{}
	if json.Unmarshal(v.Note(), made) != nil {
		return nil
	}
	return made
}

// Find gives what a command made the last time; nil if that is not known. It would make the same
// now if holds, that is if all that it depended on is what it was. dir is its folder. changed are
// paths that are not.
func (m *Memory) Find(key cache.Key, dir string) (made *Made, holds bool, changed []string) {
	db, v := m.open(key)
	if v == nil {
		return nil, false, nil
	}
	defer db.Close()
	made = madeOf(v)
	_, changed, err := hold(v, dir)
	return made, err == nil && made != nil && len(changed) == 0, changed
}

// FindShared is Find for what was perhaps made at another place of the base. It is kept under the
// key here, which is of this place, so that the next time stat answers. began is when the call did.
func (m *Memory) FindShared(shared, here cache.Key, dir string, began time.Time) (made *Made, holds bool, changed []string) {
	db, v := m.open(shared)
	if v == nil {
		return nil, false, nil
	}
	defer db.Close()
	made = madeOf(v)
	stats, changed, err := hold(v, dir)
	holds = err == nil && made != nil && len(changed) == 0
	if holds && len(stats) > 0 {
		list := v.All()
		for i, st := range stats {
			list[i].Stat, list[i].Young, list[i].Seen = st, !st.Before(began), 0
		}
		m.Keep(here, list, *made)
	}
	return made, holds, changed
}

// hold looks at all that a view observed. stats are those of what has another, and is the same.
func hold(v *tree.View, dir string) (stats map[int]cache.Stat, changed []string, err error) {
	doubts, err := v.Changed(dir)
	stats = map[int]cache.Stat{}
	for _, i := range doubts {
		st, ok := v.Rehash(dir, i)
		if !ok {
			changed = append(changed, v.Broken(dir, i)...)
		}
		stats[i] = st
	}
	return stats, changed, err
}

// Forget is the reverse of Keep.
func (m *Memory) Forget(key cache.Key) { os.Remove(m.store.Command(key)) }

// At is what a command made, as it is at the place of a base.
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

// Spelled is the reverse of At; ok is false if the place stands where no mark can take its part.
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

// Keep remembers a command.
func (m *Memory) Keep(key cache.Key, observed []cache.Observation, made Made) error {
	note, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return m.store.PutCommand(key, made.Outputs, func(tmp string) error {
		db, err := tree.Open(tmp)
		if err != nil {
			return err
		}
		defer db.Close()
		plan, err := db.WritePlan([]byte{0})
		if err != nil {
			return err
		}
		return db.SetView([32]byte(key), note, plan, observed)
	})
}

// Memory may be short where passes run that never ran before, and take more than was guessed. Then
// there is a better guess for all that never ran in that folder: twice as much. The file of a
// folder is a number.

// Short is that guess, in bytes; 0 if nothing was short of memory.
func (m *Memory) Short(dir string) int64 {
	text, _ := os.ReadFile(m.short(dir))
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return max(0, n)
}

// NoteShort notes it. Of several the largest counts; that two at once may lose one makes a guess
// worse, as without.
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

// Used stamps a command that was brought: what is used stays longest.
func (m *Memory) Used(key cache.Key) { m.store.UsedCommand(key) }

// Place writes the outputs of a command, which dir is the folder of. They are new files: whoever
// waits for them goes by their times.
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

// replaceable wants a name that is free, or of a plain file of its own. What else there may be, a
// device, a link, a folder, a file of other rights, is for the compiler, which writes into it or
// fails.
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

// umask is what new files are not allowed. The kernel tells it only to who sets it, but for a line
// of /proc.
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

// copy writes the content of an output, and checks it.
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

// WriteFile makes a new file of that name. Until it is whole it has no name, where the file system
// can do that, so that a process that is killed leaves nothing.
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

// writeNamed is WriteFile with a temporary name beside the file.
func writeNamed(name string, mode fs.FileMode, write func(io.Writer) error) error {
	return regular.ReplaceFrom(name, func(f *os.File) error {
		return errors.Join(write(f), f.Chmod(mode&^fs.FileMode(umask())))
	})
}
