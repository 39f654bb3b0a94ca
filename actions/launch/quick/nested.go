package quick

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
)

// kbuild, ccache and others like it have links in PATH under the names of compilers. Each takes the
// next program of that name for the compiler, so two of them may find each other. Two rules prevent
// that. What a launcher starts has a PATH without the folders of kbuild's links. It also has the
// list of the compilers that outer launchers have started, and a launcher starts none of these
// again. The list also covers a folder with other programs in it, and a compiler that has a PATH of
// its own.

// off is the variable that makes the launcher run the compiler and nothing else. The compilers that
// a launched compiler starts are not commands of the user.
const off, offValue = "KBUILD_CC", "off"

// started is the variable with the compilers that outer launchers have started.
const started = "KBUILD_CC_STARTED"

// Disabled reports whether the launcher must run the compiler and nothing else.
var Disabled = sync.OnceValue(func() bool { return os.Getenv(off) == offValue })

// Enter sets the environment of this process to that of the compiler.
func (c *Call) Enter() {
	Disabled() // keeps the value for this launcher
	os.Setenv(off, offValue)
	list := filepath.SplitList(os.Getenv(started))
	if !slices.Contains(list, c.Argv[0]) {
		os.Setenv(started, strings.Join(append(list, c.Argv[0]), ":"))
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	os.Setenv("PATH", strings.Join(slices.DeleteFunc(dirs, hasLinksAlone), ":"))
}

// Nested returns the variables that show a launcher that another one has started it.
func Nested() []string {
	return []string{off + "=" + offValue, started + "=" + os.Getenv(started)}
}

// hasLinksAlone reports whether a folder has links to kbuild under other names, and nothing else.
func hasLinksAlone(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	for some := false; ; some = true {
		// most folders in PATH are large, and the first name is enough
		names, _ := d.Readdirnames(16)
		if len(names) == 0 {
			return some
		}
		for _, name := range names {
			if !isOurs(filepath.Join(dir, name)) {
				return false
			}
		}
	}
}

// LookPath finds a program in PATH that is not kbuild under another name.
func LookPath(name string) (string, error) { return LookIn(os.Getenv("PATH"), name) }

// LookIn does what LookPath does, with another PATH.
func LookIn(path, name string) (string, error) {
	self, _ := os.Stat("/proc/self/exe")
	running, passed := filepath.SplitList(os.Getenv(started)), ""
	for _, dir := range filepath.SplitList(path) {
		file, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		info, err := os.Stat(file)
		switch {
		case err != nil || info.IsDir() || info.Mode()&0o111 == 0:
		case os.SameFile(info, self) || isOurs(file):
		case slices.Contains(running, file):
			passed = ", other than " + file + ", which has started this one"
		default:
			return file, nil
		}
	}
	return "", fmt.Errorf("%s was not found in PATH%s", name, passed)
}

// isOurs reports whether a file is a link to a program of kbuild's.
func isOurs(file string) bool {
	real, err := filepath.EvalSymlinks(file)
	return err == nil && (filepath.Base(real) == "kbuild" || filepath.Base(real) == "kbuild-cc") && filepath.Base(real) != filepath.Base(file)
}

// wrappers lists programs that wrap a compiler, as kbuild does. What they run, and whether they run
// it, depends on variables, files and servers of their own.
var wrappers = []string{"ccache", "sccache", "distcc", "icecc", "buildcache", "colorgcc", "pump"}

// Wrapper returns the name of the wrapper that a file is a link to, or "".
func Wrapper(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	of, err := os.Stat(real)
	for _, name := range wrappers {
		if base := filepath.Base(real); base == name || strings.HasPrefix(base, name+"-") {
			return name
		}
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) { // a hard link
			info, err2 := os.Stat(filepath.Join(dir, name))
			if err == nil && err2 == nil && os.SameFile(of, info) {
				return name
			}
		}
	}
	return ""
}

// Environment is the environment of commands, and the part of it that is in keys.
type Environment struct{ All, Key []string }

// Commands returns the environment of commands. Unlike a build from a manifest, it keeps the
// language of the user: the caller of the launcher expects the messages of the compiler.
func Commands() Environment {
	all := slices.DeleteFunc(run.Environ(os.Environ(), nil), func(e string) bool {
		return run.Matters(e, run.Language)
	})
	key := run.Select(all, run.Keyed)
	return Environment{All: append(all, set(run.Names(run.Language))...), Key: key}
}

// set returns the variables among names that are set.
func set(names []string) (env []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Spoken returns the language of the messages of gcc and clang, if it is not that of a build from a
// manifest. It is in the keys of actions that print messages in it. Setting it again changes
// nothing.
func Spoken() (env []string) {
	// LC_CTYPE selects the quotation marks
	for _, category := range []string{"LC_MESSAGES", "LC_CTYPE"} {
		value := cmp.Or(os.Getenv("LC_ALL"), os.Getenv(category), os.Getenv("LANG"))
		if value == "" || value == "C" || value == "POSIX" {
			continue
		}
		env = append(env, category+"="+value)
		if list := os.Getenv("LANGUAGE"); category == "LC_MESSAGES" && list != "" {
			env = append(env, "LANGUAGE="+list)
		}
	}
	return append(env, set(run.Names(run.Look))...)
}

// environ returns the variables that may change the outputs or the messages of a command. PATH is
// among them, and so are the variables of kbuild's own folders.
func environ() []string {
	env := Commands().All
	for _, e := range os.Environ() {
		_, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(e, "KBUILD_") || strings.HasPrefix(e, "CUDA_") ||
			run.Matters(e, run.AMD|run.Launched) || value != "" && run.Matters(e, run.Foreign) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	return slices.Compact(env)
}
