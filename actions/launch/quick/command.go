package quick

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/trace"
)

// The results of command lines are stored in the action cache. The key is a command line with its
// folder and environment. Its file is a trace (cache/trace): the paths that the compile observed,
// and the result. If each path is unchanged, by stat or by content, the outputs are restored from
// the cache, and no process starts. Losing a file costs time: the records of the passes are still
// valid. Like all entries, commands are evicted least recently used first, at any time. A reader
// keeps its open file; a missing output is a miss, and the compiler runs.

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
}

// commandKey returns the key of a command line in an absolute folder. env contains all variables
// that may change the result or the diagnostics. If there is a base, the key is equal for the same
// command in another checkout, files are the texts of its option files (@file, --options-file), and
// ok is false if the command depends on the path of its base.
func commandKey(
	argv []string, dir string, base Base, env, files []string,
) (key cache.Key, ok bool) {
	h := cache.NewHasher()
	h.Field("format", format)
	h.Field("method", cache.KeyVersion)
	if base.Dir == "" {
		h.Field("folder", dir)
	} else {
		h.Field("project", base.Project)
		h.Field("below", base.Cwd)
	}
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

// find returns the last result of a command; nil if there is none. valid reports that everything
// that it depends on is unchanged. changed lists the paths that are not. A valid result of another
// checkout is stored for this folder, so that the next find compares stats only.
func (c *Call) find(key cache.Key) (made *Made, valid bool, changed []string) {
	t := trace.ReadFile(c.Store.Command(key), key)
	if made = new(Made); t == nil || json.Unmarshal(t.Value(), made) != nil {
		return nil, false, nil
	}
	fresh, broken, err := t.Check(c.Dir)
	if valid = err == nil && len(broken) == 0; valid && key == c.Shared {
		c.Keep(c.Key, t.Refreshed(fresh, c.Begun), made)
	}
	return made, valid, t.Paths(c.Dir, broken)
}

// At returns the result with the paths of a base.
func (m *Made) At(b Base) *Made {
	if !m.Based {
		return m
	}
	at := *m
	at.Based, at.Stderr = false, b.Write(m.Stderr)
	at.Outputs, at.Files = slices.Clone(m.Outputs), slices.Clone(m.Files)
	for i := range at.Outputs {
		at.Outputs[i].Path = b.Write(at.Outputs[i].Path)
	}
	for i, f := range at.Files {
		at.Files[i] = Text{b.Write(f.Path), []byte(b.Write(string(f.Text)))}
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
	s.Based, s.Stderr = true, spell(m.Stderr)
	s.Outputs, s.Files = slices.Clone(m.Outputs), slices.Clone(m.Files)
	for i := range s.Outputs {
		s.Outputs[i].Path = spell(s.Outputs[i].Path)
	}
	for i, f := range s.Files {
		s.Files[i] = Text{spell(f.Path), []byte(spell(string(f.Text)))}
	}
	return &s, ok
}

// Keep stores the result of a command.
func (c *Call) Keep(key cache.Key, observed []cache.Observation, made *Made) error {
	value, err := json.Marshal(made)
	if err != nil {
		return err
	}
	content, err := trace.EncodeFile(key, value, observed)
	if err != nil {
		return err
	}
	return c.Store.PutCommand(key, made.Outputs, content)
}

// Place writes the outputs of a command where the command has them. They are new files with new
// times, since other build tools compare the times.
func (c *Call) Place(made *Made) error {
	umask, err := umask()
	if err != nil {
		return err
	}
	var names []string
	for _, o := range made.Outputs {
		names = append(names, cache.Absolute(c.Dir, o.Path))
	}
	for _, t := range made.Files {
		names = append(names, cache.Absolute(c.Dir, t.Path))
	}
	for _, name := range names {
		if err := replaceable(name, 0o777&^umask); err != nil {
			return err
		}
	}
	for i, o := range made.Outputs {
		err := regular.ReplaceFrom(names[i], func(f *os.File) error {
			if err := c.copy(o, f); err != nil || !o.Exec {
				return err
			}
			return f.Chmod(os.FileMode(0o777 &^ umask))
		})
		if err != nil {
			return err
		}
	}
	for i, t := range made.Files {
		err := regular.ReplaceFrom(names[len(made.Outputs)+i], func(f *os.File) error {
			_, err := f.Write(t.Text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// umask returns the mode bits that new files do not get. umask(2) reports them only by setting
// them, so this reads /proc.
func umask() (uint32, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nUmask:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 8, 32)
	return uint32(mask), err
}

// replaceable returns an error unless name is free or a plain file that only this name refers to.
// For anything else (a device, a link, a folder, another mode or owner) the compiler runs: it
// writes into the file or fails. mode is that of a new program.
func replaceable(name string, mode uint32) error {
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		_, err = os.Stat(filepath.Dir(name))
		return err
	case err != nil:
		return err
	case st.Mode != unix.S_IFREG|mode && st.Mode != unix.S_IFREG|mode&0o666 ||
		st.Nlink != 1 || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s is no plain file that a new one may replace", name)
	}
	return nil
}

// copy writes the content of an output and checks its digest.
func (c *Call) copy(o cache.Output, w io.Writer) error {
	r, err := c.Store.Content(o)
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
