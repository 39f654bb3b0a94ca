// Package quick is the fast way of `kbuild cc`: it finds what a command line made the last time, if
// nothing that it depends on has changed. A program of its own has little besides it, since
// starting a large one costs more than all that is done here.
package quick

import (
	"context"
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
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Call is one call of the launcher.
type Call struct {
	Argv  []string // the first is the compiler's file, absolute
	Dir   string   // the folder that it runs in, absolute
	Key   cache.Key
	Begun time.Time

	called string // the compiler as it was called: "./gcc"

	Base    command.Base // zero if nothing of the command can be shared with another place
	Shared  cache.Key    // of the command at any place of the base
	Options []Options

	Nowhere error // the folder has no name any more: the compiler runs as it is

	Memory *command.Memory // these two are what Try has found: of a cache
	Last   *command.Made   // what the command made the last time, whatever has changed since; nil if that is not known
}

// Options is a file with options that a command line names.
type Options struct{ Name, Text string }

// Read makes a call of a compiler with its arguments.
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
		if found, err := exec.LookPath(called); err != nil || !sameName(found, file) {
			called = file // by its name a compiler would find the launcher, in whose folder nvcc has no toolkit
		}
	} else if nowhere == nil {
		file = cache.Absolute(dir, file)
	}
	c := &Call{Argv: append([]string{file}, args[1:]...), called: called, Dir: dir, Begun: begun, Nowhere: nowhere}
	env := environ()
	c.Key = command.Key(c.Argv, dir, env)
	if nowhere == nil {
		c.share(env)
	}
	return c, nil
}

// sameName reports two names of one file that a program which looks itself up in PATH takes for
// one.
func sameName(found, file string) bool {
	found, err := filepath.Abs(found)
	return err == nil && found == file
}

// share finds the base of the command, and the key that it has anywhere.
func (c *Call) share(env []string) {
	base := command.FindBase(c.Dir, os.Getenv)
	if base.Dir == "" {
		return
	}
	if spelled, _ := base.Spell(c.Argv[0]); spelled != c.Argv[0] { // its tools are part of the checkout, and too large to be looked at anew
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
	if key, ok := command.SharedKey(c.Argv, base, env, texts); ok {
		c.Base, c.Shared, c.Options = base, key, files
	}
}

// mostOptions is the size of a file of options that is read for a key, in bytes.
const mostOptions = 1 << 20

// optionsFiles reads the files of options. Build tools make them anew in each build tree, with the
// names of its folders.
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

// Try brings what the command made the last time. done is false if that is not known, or not what
// it would make now; changed are paths for which it is not.
func (c *Call) Try(ctx context.Context, store *disk.Store) (done bool, changed []string) {
	if c.Nowhere != nil {
		return false, nil
	}
	c.Memory = command.Open(store)
	key := c.Key
	last, holds, changed := c.Memory.Find(key, c.Dir)
	if !holds && c.Base.Dir != "" {
		shared, holdsThere, others := c.Memory.FindShared(c.Shared, c.Key, c.Dir, c.Begun)
		if last == nil || holdsThere {
			key, last, holds, changed = c.Shared, shared, holdsThere, others
		}
	}
	c.Last = last
	if !holds {
		return false, changed
	}
	made := last.At(c.Base)
	if Shown(made) {
		return false, nil
	}
	if err := c.Memory.Place(ctx, made, c.Dir); err != nil {
		return false, nil
	}
	c.Memory.Used(key)
	Say(made.Stderr)
	return true, nil
}

// Shown reports messages that are for the compiler to show: on a terminal they have colours, links,
// and lines of its width, as the compiler finds them right for that terminal.
func Shown(m *command.Made) bool {
	if m.Stderr == "" {
		return false
	}
	_, err := unix.IoctlGetTermios(2, unix.TCGETS)
	return err == nil
}

// Say writes what a compiler said, as the last that this process does. Where nobody reads it, it is
// lost: the signal of the pipe would make a failure of a compile that went well, also where the
// caller has switched it off, which a program in Go cannot see.
func Say(text string) {
	if text != "" {
		signal.Ignore(syscall.SIGPIPE)
		os.Stderr.WriteString(text)
	}
}

// Exec runs the compiler in place of this process, under the name that it was called by: a script
// says that name in its messages, and compilers find their folders by it. It gives back only an
// error.
func (c *Call) Exec() error {
	file := c.called
	if !strings.Contains(file, "/") {
		file = c.Argv[0]
	}
	c.Enter()
	err := unix.Exec(file, append([]string{c.called}, c.Argv[1:]...), os.Environ())
	return errors.Join(errors.New("starting "+file), err)
}
