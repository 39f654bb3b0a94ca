package execute

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// scratch is where an action writes before its outputs move into place. Its names are the same on every run, since a compiler may
// record the name of its output.
//
// As a rule it is a folder: nvcc names its temporary files after the source. A compile of host code and an archive write one
// file under any name, so they do with a name in the folder that all share. There are very many of them, and making and removing a
// folder is what costs most of all that kbuild does for one; ext4 gives no inode again for a minute or more after it was
// freed, and looks at every such one before it gives another, so whatever is removed for each action slows down all that comes after.
// For the same reason their dependency files stay until the end of the build.
type scratch struct {
	dir  string // absolute, or as commands see it
	name string // in dir, if others use dir too
	tmp  string // TMPDIR of commands: dir by a short name
}

// newScratch makes the place for a.
func (r *Runner) newScratch(a *graph.Action) (scratch, error) {
	name := flatName(r.Graph.BuildDir, a.Outputs[0])
	if err := r.makeTemp(); err != nil {
		return scratch{}, err
	}
	top := filepath.Join(r.State, "tmp")
	if oneFile(a) {
		return scratch{dir: top, name: name, tmp: cmp.Or(r.short, top)}, nil
	}
	s := scratch{dir: filepath.Join(top, name)}
	if err := os.RemoveAll(s.dir); err != nil {
		return s, fmt.Errorf("clearing %s: %w", s.dir, err)
	}
	if s.tmp = s.dir; !a.Kind.InProcess() {
		s.tmp = r.shortName(s.dir)
	}
	return s, makeFolders(s.dir, a)
}

// oneFile reports whether a only writes one file, and a dependency file.
func oneFile(a *graph.Action) bool {
	return (a.Kind == graph.HostCompile || a.Kind == graph.Archive) && len(a.Outputs) == 1 && len(a.Step().Staged) == 0 && !a.Intermediate && !a.InPlace
}

// makeTemp makes the folder for temporary files, once.
func (r *Runner) makeTemp() error {
	r.temp.Do(func() {
		if err := os.MkdirAll(filepath.Join(r.State, "tmp"), 0o777); err != nil {
			r.tempErr = fmt.Errorf("making a temporary folder: %w", err)
			return
		}
		r.short = run.ShortTemp(filepath.Join(r.State, "tmp"))
	})
	return r.tempErr
}

// RemoveTemp removes the folder for temporary files, at the end of a build.
func (r *Runner) RemoveTemp() { run.RemoveTemp(filepath.Join(r.State, "tmp"), r.short) }

// shortName gives a folder for temporary files a name that is short from the root on. nvlink 11.8 with -dlto ends with "elfLink
// internal error" where TMPDIR has 54 characters or more and it has anything to remove.
func (r *Runner) shortName(dir string) string {
	if r.short == "" {
		return dir
	}
	name := strconv.FormatInt(r.shorts.Add(1), 10)
	if os.Symlink(filepath.Base(dir), filepath.Join(filepath.Dir(dir), name)) != nil {
		return dir
	}
	return r.short + "/" + name
}

// flatten needs an escape other than %, which LLVM's tools take for a random digit in the name of a temporary file.
var flatten = strings.NewReplacer("~", "~7E", "+", "~2B", "/", "+")

// flatName is a name in the folder of temporary files, another one for each output.
func flatName(buildDir, output string) string {
	name := flatten.Replace(strings.TrimPrefix(output, buildDir+"/"))
	if len(name) > 200 { // of the 255 that a name may have
		name = fmt.Sprintf("%x%s", sha256.Sum256([]byte(output)), name[len(name)-136:])
	}
	return name
}

// makeFolders makes a folder for what a command writes.
func makeFolders(dir string, a *graph.Action) error {
	folders := []string{dir}
	for i := 1; i < len(a.Outputs); i++ {
		folders = append(folders, filepath.Join(dir, strconv.Itoa(i)))
	}
	for _, f := range folders {
		if err := os.MkdirAll(f, 0o777); err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	return nil
}

// output is where output i is written. Outputs of one base name get folders of their own.
func (s scratch) output(i int, output string) string {
	switch {
	case s.name != "":
		return s.dir + "/" + s.name
	case i == 0:
		return filepath.Join(s.dir, filepath.Base(output))
	}
	return filepath.Join(s.dir, strconv.Itoa(i), filepath.Base(output))
}

// file is another file that a command reads or writes. No output has a name with "++".
func (s scratch) file(name string) string {
	if s.name != "" {
		return s.dir + "/" + s.name + "++" + name
	}
	return s.dir + "/" + name
}

// traceFile is where a link writes what the linker says with --verbose.
func (s scratch) traceFile() string { return s.file("ld.trace") }

// depfile is where the compiler writes what it read.
func (s scratch) depfile() string { return s.file("kbuild.d") }

// remove removes what is left. Of what writes one file that is nothing after a success, but for the dependency file.
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

// relative is s as commands see it: relative to the root where possible, so that no absolute path
// gets into an output.
func (r *Runner) relative(s scratch) scratch {
	if rel, err := filepath.Rel(r.Root, s.dir); err == nil && !strings.HasPrefix(rel, "..") {
		s.dir = filepath.ToSlash(rel)
	}
	return s
}
