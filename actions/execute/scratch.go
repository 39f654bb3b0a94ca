package execute

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// scratch is the place that an action writes to before its outputs move into place. Its names are
// the same in every run, since a compiler may record the name of its output.
//
// As a rule it is a folder: nvcc names its temporary files after the source. A compile of host code
// or an archive writes a single file, so it gets a name in a folder that all share. There are very
// many of these, and creating and removing a folder would be most of kbuild's cost for one. ext4
// does not reuse an inode for a minute or more after it was freed. It inspects every such inode
// before it allocates another, so every removed file slows down all later actions. For the same
// reason dependency files stay until the end of the build.
type scratch struct {
	dir string // absolute
	// dir as commands name it: relative to the root if possible, so that no absolute path gets into
	// an output
	rel  string
	name string // a name in dir, if other actions use dir too
	tmp  string // TMPDIR of commands: a short name of dir

	traced bool            // commands run under strace
	local  <-chan struct{} // not nil: commands run remotely, and locally too once it is closed
}

// scratches manages the folder of all temporary files of a build.
type scratches struct {
	*buildTree
	dir string

	once   sync.Once
	err    error
	short  string       // a short name of dir, see run.ShortTemp; "" if it has none
	shorts atomic.Int64 // counts the folders in dir that have short names
}

// place creates the scratch of a.
func (t *scratches) place(a *graph.Action) (scratch, error) {
	if err := t.open(); err != nil {
		return scratch{}, err
	}
	name := flatName(t.Graph.BuildDir, a.Outputs[0])
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

// oneFile reports whether a writes only one file, besides a dependency file.
func oneFile(a *graph.Action) bool {
	return a.Kind.Info().SingleFile && len(a.Outputs) == 1 &&
		len(a.Pass().Staged) == 0 && !a.Intermediate && !a.InPlace
}

// open creates the folder, once.
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

// remove removes the folder at the end of a build.
func (t *scratches) remove() { run.RemoveTemp(t.dir, t.short) }

// shortName returns a short absolute name of a folder for temporary files. nvlink 11.8 with -dlto
// ends with "elfLink internal error" if TMPDIR has 54 characters or more and it has anything to
// remove.
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

// file returns the temporary name of an output that is restored from the cache.
func (t *scratches) file(output string) string {
	return filepath.Join(t.dir, flatName(t.Graph.BuildDir, output))
}

func (t *scratches) relative(dir string) string {
	if rel, err := filepath.Rel(t.Root, dir); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return dir
}

// flatten maps the name of an output to a name without folders. LLVM's tools derive the name of a
// temporary file from that of the output. They replace each % in it by a random digit, in folders
// as well, so no name that a command writes has one. That is why the escape character is ~.
var flatten = strings.NewReplacer("~", "~7E", "+", "~2B", "%", "~25", "/", "+")

// flatName returns a name in the folder of temporary files, unique for each output.
func flatName(buildDir, output string) string {
	name := flatten.Replace(strings.TrimPrefix(output, buildDir+"/"))
	if len(name) > 200 { // a name may have 255
		name = fmt.Sprintf("%x%s", sha256.Sum256([]byte(output)), name[len(name)-136:])
	}
	return name
}

// makeFolders creates the folders that a command writes to.
func (s scratch) makeFolders(a *graph.Action) error {
	for i := range max(1, len(a.Outputs)) {
		if err := os.MkdirAll(filepath.Dir(s.output(i, "x")), 0o777); err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	return nil
}

// again returns the scratch of a second command of the same action.
func (s scratch) again() scratch {
	again := s
	again.dir, again.rel, again.name = s.file("again"), s.relative().file("again"), ""
	again.tmp += "/again"
	return again
}

// cwd returns the working directory of a's command.
func (s scratch) cwd(root string, a *graph.Action) string {
	if a.Pass().EmptyCwd {
		return s.file("apart")
	}
	return root
}

// relative returns s with its files as commands name them.
func (s scratch) relative() scratch {
	s.dir = s.rel
	return s
}

// output returns the file that output i is written to. Each output after the first has a folder of
// its own, since base names may be equal.
func (s scratch) output(i int, output string) string {
	switch {
	case s.name != "":
		return s.dir + "/" + s.name
	case i == 0:
		return filepath.Join(s.dir, baseName(output))
	}
	return filepath.Join(s.dir, strconv.Itoa(i), baseName(output))
}

// named returns the file that the output of a with a name is written to.
func (s scratch) named(a *graph.Action, output string) string {
	return s.output(slices.Index(a.Outputs, output), output)
}

// baseName returns the name of an output in a folder of its own. It is the base name of the output,
// which compilers record, unless that has a %.
func baseName(output string) string { return strings.ReplaceAll(filepath.Base(output), "%", "~25") }

// file returns the name of another file that a command reads or writes. No output has a name with
// "++".
func (s scratch) file(name string) string {
	if s.name != "" {
		return s.dir + "/" + s.name + "++" + name
	}
	return s.dir + "/" + name
}

// removeFrom removes kbuild's own folders from the output of a's command.
func (s scratch) removeFrom(printed, root, buildDir string, a *graph.Action) string {
	printed = strings.ReplaceAll(printed, s.tmp+"/", "")
	if a.Pass().EmptyCwd {
		printed = strings.ReplaceAll(printed, root+"/", "")
	}
	if s.name != "" {
		printed = strings.ReplaceAll(printed, s.relative().output(0, ""), path.Base(a.Outputs[0]))
	} else {
		printed = strings.ReplaceAll(printed, s.rel+"/", "")
	}
	if a.Kind.Info().Linker == graph.LinkerNVLink {
		slices := path.Join(buildDir, graph.SlicesDir, a.Archs[0]) + "/"
		printed = strings.ReplaceAll(printed, slices, buildDir+"/")
	}
	return printed
}

// depfile returns the file that the compiler writes its dependencies to.
func (s scratch) depfile() string { return s.file("kbuild.d") }

// traceFile returns the file for the stdout of a command, such as a linker's --verbose output.
func (s scratch) traceFile() string { return s.file("ld.trace") }

// straceFile is the name of the file in which strace lists the system calls of a command.
const straceFile = "strace"

// remove removes the files that are left. If a writes one file, only the dependency file is left
// after a success, and that stays.
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
