package quick

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// kbuild, ccache and others like it have links in PATH under the names of compilers. Each takes the
// next program of that name for the compiler, so two of them may find each other. Two things put an
// end to that. What a launcher starts has a PATH without the folders of kbuild's links. And it has
// the list of the compilers that launchers around it have started, none of which a launcher starts
// again: that also covers a folder with other programs in it, and a compiler that has a PATH of its
// own.

// off is the variable that has the launcher run the compiler and nothing else: the compilers that a
// launched one starts are no commands of the user's.
const off, offValue = "KBUILD_CC", "off"

// started is the variable with the compilers that launchers around this one have started.
const started = "KBUILD_CC_STARTED"

// Disabled reports that the launcher is to run the compiler and nothing else.
var Disabled = sync.OnceValue(func() bool { return os.Getenv(off) == offValue })

// Enter makes the environment of this process that of the compiler.
func (c *Call) Enter() {
	Disabled() // whether this launcher is stays known
	os.Setenv(off, offValue)
	list := filepath.SplitList(os.Getenv(started))
	if !slices.Contains(list, c.Argv[0]) {
		os.Setenv(started, strings.Join(append(list, c.Argv[0]), ":"))
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	os.Setenv("PATH", strings.Join(slices.DeleteFunc(dirs, hasLinksAlone), ":"))
}

// Nested returns the variables by which a launcher knows that another one has started it.
func Nested() []string {
	return []string{off + "=" + offValue, started + "=" + os.Getenv(started)}
}

// hasLinksAlone reports a folder that has links to kbuild under other names, and nothing else.
func hasLinksAlone(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	for some := false; ; some = true {
		names, _ := d.Readdirnames(16) // most folders in PATH are large, and the first name will do
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

// LookIn is LookPath with another PATH.
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

// isOurs reports a link to a program of kbuild's.
func isOurs(file string) bool {
	real, err := filepath.EvalSymlinks(file)
	return err == nil && (filepath.Base(real) == "kbuild" || filepath.Base(real) == "kbuild-cc") && filepath.Base(real) != filepath.Base(file)
}

// wrappers are programs that stand before a compiler, as kbuild does. What they run, and whether
// they run it, depends on variables, files and servers of their own.
var wrappers = []string{"ccache", "sccache", "distcc", "icecc", "buildcache", "colorgcc", "pump"}

// Wrapper returns the name of the program that a file is a link to, if it is one of these; else "".
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
