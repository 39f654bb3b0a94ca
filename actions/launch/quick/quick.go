// Package quick is the fast way of `kbuild cc`: it finds what a command line made the last time, if nothing that it depends on has changed. A program
// of its own has little besides it, since starting a large one costs more than all that is done here.
package quick

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/command"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// Off is the variable that has the launcher do nothing but run the compiler: the compilers that such a one starts are not asked for.
const Off = "KBUILD_CC=off"

// Call is one call of the launcher.
type Call struct {
	Argv  []string // the first is the compiler's file, absolute
	Dir   string   // the folder that it runs in, absolute
	Key   cache.Key
	Begun time.Time

	Base    command.Base // zero if nothing of the command can be shared with another place
	Shared  cache.Key    // of the command at any place of the base
	Options []Options
}

// Options is a file with options that a command line names.
type Options struct{ Name, Text string }

// Read makes a call of a compiler with its arguments.
func Read(args []string) (*Call, error) {
	begun := time.Now()
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	file := args[0]
	if strings.Contains(file, "/") {
		file = cache.Absolute(dir, file)
	} else if file, err = LookPath(file); err != nil {
		return nil, err
	}
	c := &Call{Argv: append([]string{file}, args[1:]...), Dir: dir, Begun: begun}
	env := environ()
	c.Key = command.Key(c.Argv, dir, env)
	c.share(env)
	return c, nil
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

// optionsFiles reads the files of options. Build tools make them anew in each build tree, with the names of its folders.
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

// LookPath finds a program in PATH that is not kbuild under another name.
func LookPath(name string) (string, error) { return LookIn(os.Getenv("PATH"), name) }

// LookIn is LookPath with another PATH.
func LookIn(path, name string) (string, error) {
	self, _ := os.Stat("/proc/self/exe")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 || os.SameFile(info, self) || isOurs(file) {
			continue
		}
		return filepath.Abs(file)
	}
	return "", fmt.Errorf("%s was not found in PATH", name)
}

// isOurs reports a link to a program of kbuild's.
func isOurs(file string) bool {
	real, err := filepath.EvalSymlinks(file)
	return err == nil && (filepath.Base(real) == "kbuild" || filepath.Base(real) == "kbuild-cc") && filepath.Base(real) != filepath.Base(file)
}

// Disabled reports that the launcher is to run the compiler and nothing else.
func Disabled() bool {
	name, value, _ := strings.Cut(Off, "=")
	return os.Getenv(name) == value
}

// OpenStore opens the action cache.
func OpenStore() (*disk.Store, error) {
	dir, err := disk.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	return disk.Open(dir)
}

// Try brings what the command made the last time. done is false if that is not known, or not what it would make now; changed are paths for which it
// is not.
func (c *Call) Try(ctx context.Context, store *disk.Store) (done bool, changed []string) {
	memory := command.Open(store)
	made, changed := memory.Find(c.Key, c.Dir)
	if made == nil && c.Base.Dir != "" {
		var others []string
		if made, others = memory.FindShared(c.Shared, c.Key, c.Dir, c.Begun); changed == nil {
			changed = others
		}
	}
	if made == nil {
		return false, changed
	}
	made = made.At(c.Base)
	if err := memory.Place(ctx, made, c.Dir); err != nil {
		return false, nil
	}
	os.Stderr.WriteString(made.Stderr)
	return true, nil
}

// Exec runs the compiler in place of this process. It gives back only an error.
func (c *Call) Exec() error {
	err := unix.Exec(c.Argv[0], c.Argv, append(os.Environ(), Off))
	return errors.Join(errors.New("starting "+c.Argv[0]), err)
}
