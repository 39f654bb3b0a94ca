// Package quick is the fast path of `kbuild cc`: it restores what a command line built the last
// time, if nothing that it depends on has changed. It cannot compile, and knows neither passes nor
// graphs. It has a small program of its own, since starting a large one costs more than all the
// work here.
package quick

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Call is one call of the launcher.
type Call struct {
	Argv  []string // the first is the compiler's file, absolute
	Dir   string   // the working directory, absolute
	Key   cache.Key
	Begun time.Time

	called string // the compiler as it was called: "./gcc"

	Base    Base      // zero if no result can be shared with another checkout
	Shared  cache.Key // key of the command in every location of the base directory
	Options []Options

	Nowhere error // the working directory has no name any more: the compiler runs as it is

	Store *disk.Store // the action cache; set by Try, nil if there is none
	// The result of the last run, whatever has changed since; nil if it is not known. Set by Try.
	Last *Made
}

// Options is a file with options that a command line names.
type Options struct{ Name, Text string }

// Read returns the call of a compiler with its arguments.
func Read(args []string) (*Call, error) {
	begun := time.Now()
	dir, nowhere := os.Getwd()
	if nowhere == nil {
		dir, nowhere = filepath.EvalSymlinks(dir)
	}
	file, called, err := args[0], args[0], error(nil)
	if !strings.Contains(file, "/") {
		if file, err = LookPath(file); err != nil {
			return nil, err
		}
		if found, err := exec.LookPath(called); err != nil || cache.Absolute(dir, found) != file {
			// by its name a compiler would find the launcher, in whose folder nvcc has no toolkit
			called = file
		}
	} else if nowhere == nil {
		file = cache.Absolute(dir, file)
	}
	c := &Call{Argv: append([]string{file}, args[1:]...), called: called, Dir: dir, Begun: begun, Nowhere: nowhere}
	env := environ()
	c.Key, _ = commandKey(c.Argv, dir, Base{}, env, nil)
	if nowhere == nil {
		c.share(env)
	}
	return c, nil
}

// share finds the base directory of the command, and the key that the command has in every
// location.
func (c *Call) share(env []string) {
	base := FindBase(c.Dir, os.Getenv)
	if base.Dir == "" {
		return
	}
	// its tools are part of the checkout, and too large to be read again
	if spelled, _ := base.Spell(c.Argv[0]); spelled != c.Argv[0] {
		return
	}
	files, ok := c.optionsFiles()
	if !ok {
		return
	}
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "KBUILD_BASE_DIR=") })
	var texts []string
	for _, f := range files {
		texts = append(texts, f.Text)
	}
	if key, ok := commandKey(c.Argv, c.Dir, base, env, texts); ok {
		c.Base, c.Shared, c.Options = base, key, files
	}
}

// mostOptions is the largest size of a file of options in a key, in bytes.
const mostOptions = 1 << 20

// optionsFiles reads the files of options. Build tools write them again in each build tree, with
// the names of its folders.
func (c *Call) optionsFiles() (files []Options, ok bool) {
	var names []string
	for i, arg := range c.Argv[1:] {
		name, value, joined := strings.Cut(arg, "=")
		switch isOption := name == "-optf" || name == "--options-file"; {
		case isOption && joined:
			names = append(names, strings.Split(value, ",")...)
		case isOption && i+2 < len(c.Argv):
			names = append(names, strings.Split(c.Argv[i+2], ",")...)
		case arg[:min(1, len(arg))] == "@":
			names = append(names, arg[1:])
		}
	}
	for _, name := range names {
		text, err := regular.ReadAtMost(cache.Absolute(c.Dir, name), mostOptions)
		if err != nil {
			return nil, false
		}
		files = append(files, Options{cache.Absolute(c.Dir, name), string(text)})
	}
	return files, true
}

// OpenStore opens the action cache.
func OpenStore() (*disk.Store, error) {
	dir, err := disk.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	return disk.Open(dir)
}

// Try restores the result of the command's last run. done is false if there is no result, or if it
// is not valid. changed lists the paths for which it is not valid. The error is the reason why the
// compiler must run as it is.
func (c *Call) Try() (done bool, changed []string, err error) {
	if c.Store, err = OpenStore(); err == nil {
		err = c.Nowhere
	}
	if err != nil {
		return false, nil, err
	}
	key := c.Key
	last, valid, changed := c.find(key)
	if !valid && c.Base.Dir != "" {
		shared, validThere, others := c.find(c.Shared)
		if last == nil || validThere {
			key, last, valid, changed = c.Shared, shared, validThere, others
		}
	}
	c.Last = last
	if !valid {
		return false, changed, nil
	}
	made := last.At(c.Base)
	if Shown(made) || c.Place(made) != nil {
		return false, nil, nil
	}
	c.Store.UsedCommand(key) // eviction is least recently used first
	c.Log(Entry{Result: Hit})
	Say(made.Stderr)
	return true, nil, nil
}

// Shown reports whether only the compiler can show the messages. On a terminal they have colours,
// links, and lines of its width, which the compiler chooses for that terminal.
func Shown(m *Made) bool {
	if m.Stderr == "" {
		return false
	}
	_, err := unix.IoctlGetTermios(2, unix.TCGETS)
	return err == nil
}

// Say writes the messages of a compiler, as the last thing that this process does. If nobody reads
// them, they are lost: the signal of the pipe would make a successful compile fail. It would do so
// even if the caller has disabled the signal, which a Go program cannot see.
func Say(text string) {
	if text != "" {
		signal.Ignore(syscall.SIGPIPE)
		os.Stderr.WriteString(text)
	}
}

// Exec replaces this process by the compiler, under the name that the user called. A script prints
// that name in its messages, and compilers find their folders by it. Exec returns only if there is
// an error.
func (c *Call) Exec() error {
	file := c.called
	if !strings.Contains(file, "/") {
		file = c.Argv[0]
	}
	c.Enter()
	err := unix.Exec(file, append([]string{c.called}, c.Argv[1:]...), os.Environ())
	return errors.Join(errors.New("starting "+file), err)
}

// Entry is a line of the log, about one call.
type Entry struct {
	Time    time.Time     `json:"time"`
	Result  string        `json:"result"` // Hit, Miss or Left
	Dir     string        `json:"dir"`
	Argv    []string      `json:"argv"`
	Why     string        `json:"why,omitempty"`     // for Left: why; for Miss: what has changed
	Ran     int           `json:"ran,omitempty"`     // number of passes that ran
	Taken   int           `json:"taken,omitempty"`   // number of passes restored from the cache
	Elapsed time.Duration `json:"elapsed,omitempty"` // for Hit and Miss, ns
}

// Results of calls.
const (
	Hit  = "hit"  // nothing ran
	Miss = "miss" // some passes ran
	Left = "left" // the compiler ran as it is
)

// LogFile returns the file where calls are logged.
func LogFile(store *disk.Store) string { return filepath.Join(store.Folder(), "commands", "log") }

// mostLog is the size of the log, in bytes, from which it is begun again. The log before it is
// kept.
const mostLog = 16 << 20

// Log writes a line, if there is a cache. It ignores errors.
func (c *Call) Log(e Entry) {
	e.Time, e.Dir, e.Argv, e.Elapsed = c.Begun, c.Dir, c.Argv, time.Since(c.Begun)
	line, err := json.Marshal(e)
	if err != nil || c.Store == nil {
		return
	}
	name := LogFile(c.Store)
	os.MkdirAll(filepath.Dir(name), 0o777)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	f.Write(append(line, '\n'))
	full, err := f.Stat()
	if err != nil || full.Size() <= mostLog {
		return
	}
	// many processes may find it full, and the first begins it again
	if now, err := os.Stat(name); err == nil && os.SameFile(now, full) {
		os.Rename(name, name+".1")
	}
}
