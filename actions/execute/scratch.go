package execute

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// scratch is where an action writes before its outputs move into place. Its names are the same on
// every run, since a compiler may record the name of its output.
//
// As a rule it is a folder: nvcc names its temporary files after the source. A compile of host code
// and an archive write one file under any name, so they do with a name in the folder that all
// share. There are very many of them, and making and removing a folder is what costs most of all
// that kbuild does for one; ext4 gives no inode again for a minute or more after it was freed, and
// looks at every such one before it gives another, so whatever is removed for each action slows
// down all that comes after. For the same reason their dependency files stay until the end of the
// build.
type scratch struct {
	dir  string // absolute
	rel  string // dir as commands see it: relative to the root where possible, so that no absolute path gets into an output
	name string // in dir, if others use dir too
	tmp  string // TMPDIR of commands: dir by a short name

	traced bool            // commands run under strace
	here   <-chan struct{} // not nil: commands run elsewhere, and here too once it is closed
}

// scratches is the folder of all temporary files of a build.
type scratches struct {
	root, buildDir string
	dir            string

	once   sync.Once
	err    error
	short  string       // dir by a short name, see run.ShortTemp; "" without
	shorts atomic.Int64 // folders in it that have short names
}

// place makes the place for a.
func (t *scratches) place(a *graph.Action) (scratch, error) {
	if err := t.open(); err != nil {
		return scratch{}, err
	}
	name := flatName(t.buildDir, a.Outputs[0])
	if oneFile(a) {
		return scratch{dir: t.dir, rel: t.relative(t.dir), name: name, tmp: cmp.Or(t.short, t.dir)}, nil
	}
	dir := filepath.Join(t.dir, name)
	s := scratch{dir: dir, rel: t.relative(dir), tmp: dir}
	if err := os.RemoveAll(dir); err != nil {
		return s, fmt.Errorf("clearing %s: %w", dir, err)
	}
	if !a.Kind.InProcess() {
		s.tmp = t.shortName(dir)
	}
	return s, s.makeFolders(a)
}

// oneFile reports whether a only writes one file, and a dependency file.
func oneFile(a *graph.Action) bool {
	return (a.Kind == graph.HostCompile || a.Kind == graph.Archive) && len(a.Outputs) == 1 && len(a.Step().Staged) == 0 && !a.Intermediate && !a.InPlace
}

// open makes the folder, once.
func (t *scratches) open() error {
	t.once.Do(func() {
		if err := os.MkdirAll(t.dir, 0o777); err != nil {
			t.err = fmt.Errorf("making a temporary folder: %w", err)
			return
		}
		if t.short = t.dir; !strings.HasPrefix(t.dir, "/proc/self/fd/") {
			t.short = run.ShortTemp(t.dir)
		}
	})
	return t.err
}

// remove removes the folder, at the end of a build.
func (t *scratches) remove() { run.RemoveTemp(t.dir, t.short) }

// shortName gives a folder for temporary files a name that is short from the root on. nvlink 11.8
// with -dlto ends with "elfLink internal error" where TMPDIR has 54 characters or more and it has
// anything to remove.
func (t *scratches) shortName(dir string) string {
	if t.short == "" {
		return dir
	}
	name := strconv.FormatInt(t.shorts.Add(1), 10)
	if os.Symlink(filepath.Base(dir), filepath.Join(filepath.Dir(dir), name)) != nil {
		return dir
	}
	return t.short + "/" + name
}

// file is a file for an output that comes from elsewhere.
func (t *scratches) file(output string) string {
	return filepath.Join(t.dir, flatName(t.buildDir, output))
}

func (t *scratches) relative(dir string) string {
	if rel, err := filepath.Rel(t.root, dir); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return dir
}

// LLVM's tools make the name of a temporary file of that of the output, and take each % in it for a
// random digit, in folders as well: no name that a command writes has one. That is why the escape
// is another.
var flatten = strings.NewReplacer("~", "~7E", "+", "~2B", "%", "~25", "/", "+")

// flatName is a name in the folder of temporary files, another one for each output.
func flatName(buildDir, output string) string {
	name := flatten.Replace(strings.TrimPrefix(output, buildDir+"/"))
	if len(name) > 200 { // of the 255 that a name may have
		name = fmt.Sprintf("%x%s", sha256.Sum256([]byte(output)), name[len(name)-136:])
	}
	return name
}

// makeFolders makes the folders for what a command writes.
func (s scratch) makeFolders(a *graph.Action) error {
	for i := range max(1, len(a.Outputs)) {
		if err := os.MkdirAll(filepath.Dir(s.output(i, "x")), 0o777); err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	return nil
}

// again is a place for a second command of the same action.
func (s scratch) again() scratch {
	return scratch{dir: s.file("again"), rel: s.seen().file("again"), tmp: s.tmp + "/again", traced: s.traced, here: s.here}
}

// cwd is the folder that the command of a runs in.
func (s scratch) cwd(root string, a *graph.Action) string {
	if a.Step().EmptyCwd {
		return s.file("apart")
	}
	return root
}

// seen is s with its files as commands see them.
func (s scratch) seen() scratch {
	s.dir = s.rel
	return s
}

// output is where output i is written. Outputs of one base name get folders of their own.
func (s scratch) output(i int, output string) string {
	switch {
	case s.name != "":
		return s.dir + "/" + s.name
	case i == 0:
		return filepath.Join(s.dir, baseName(output))
	}
	return filepath.Join(s.dir, strconv.Itoa(i), baseName(output))
}

// baseName is the name of an output in a folder of its own: its own name, which compilers record,
// unless that has a %.
func baseName(output string) string { return strings.ReplaceAll(filepath.Base(output), "%", "~25") }

// file is another file that a command reads or writes. No output has a name with "++".
func (s scratch) file(name string) string {
	if s.name != "" {
		return s.dir + "/" + s.name + "++" + name
	}
	return s.dir + "/" + name
}

// depfile is where the compiler writes what it read.
func (s scratch) depfile() string { return s.file("kbuild.d") }

// traceFile is where a link writes what the linker says with --verbose.
func (s scratch) traceFile() string { return s.file("ld.trace") }

// straceFile is the name of the file in which strace tells what a command does.
const straceFile = "strace"

// remove removes what is left. Of what writes one file that is nothing after a success, but for the
// dependency file.
func (s scratch) remove(failed bool) {
	switch {
	case s.name == "":
		os.RemoveAll(s.dir)
		if s.tmp != s.dir {
			os.Remove(filepath.Join(filepath.Dir(s.dir), filepath.Base(s.tmp)))
		}
	case failed:
		os.Remove(s.output(0, ""))
		os.Remove(s.depfile())
	}
}
