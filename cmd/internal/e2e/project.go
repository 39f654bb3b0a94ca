package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// Project is a copy of a project in its own folder.
type Project struct {
	T    *testing.T
	Dir  string
	Path string // PATH, including the kbuild under test
	Env  []string

	name  string // of the example or archive
	cache string
}

// New returns an empty project. Its path contains a space and a non-ASCII letter. The test is
// skipped without a CUDA toolkit and in short mode.
func New(t *testing.T) Project {
	t.Helper()
	p := Bare(t)
	p.Need("nvcc", "cuobjdump")
	return p
}

// Bare is New without the need for a CUDA toolkit.
func Bare(t *testing.T) Project {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real compilers")
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	path := strings.Join([]string{binDir, os.Getenv("PATH"), "/usr/local/cuda/bin"}, ":")
	p := Project{T: t, Dir: filepath.Join(base, "ein Übungs platz"), Path: path, cache: filepath.Join(base, "cache")}
	p.Env = append(os.Environ(), "PATH="+path, "KBUILD_CACHE_DIR="+p.cache, "MAKEFLAGS=")
	if err := os.Mkdir(p.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p.shareTools(p.cache)
	return p
}

// shareTools makes the cache share compiler queries with the other caches of the package, because
// queries take half the time of a small project. kbuild must tell compilers and queries apart, as
// it does between the projects of a user.
func (p *Project) shareTools(cache string) {
	p.T.Helper()
	tools := filepath.Join(binDir, "tools")
	for _, err := range []error{os.MkdirAll(tools, 0o777), os.MkdirAll(cache, 0o777), os.Symlink(tools, filepath.Join(cache, "tools"))} {
		if err != nil {
			p.T.Fatal(err)
		}
	}
}

// Use selects a CUDA toolkit for the project. A toolkit without cuobjdump, such as 13.0 and 13.1,
// uses that of the last toolkit in KBUILD_TEST_CUDA, which must not be older.
func (p *Project) Use(tk tooltest.Toolkit) {
	if tk.Root == "" {
		return
	}
	named := filepath.SplitList(os.Getenv("KBUILD_TEST_CUDA"))
	p.Path = filepath.Join(tk.Root, "bin") + ":" + filepath.Join(named[len(named)-1], "bin") + ":" + p.Path
	p.Env = append(p.Env, "CUDA_HOME="+tk.Root, "PATH="+p.Path)
	p.Need("cuobjdump")
}

// Example returns a copy of examples/NAME.
func Example(t *testing.T, name string) Project {
	t.Helper()
	p := New(t)
	p.name = name
	CopyTree(t, filepath.Join(root, "examples", name), p.Dir)
	return p
}

// Unpack returns a project with the files of testdata/NAME.txtar.
func Unpack(t *testing.T, name string) Project {
	t.Helper()
	return New(t).Unpack(name)
}

// Unpack adds the files of testdata/NAME.txtar to the project.
func (p Project) Unpack(name string) Project {
	t := p.T
	t.Helper()
	p.name = name
	ar, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.Dir, f.Name)), 0o777); err != nil {
			t.Fatal(err)
		}
		p.Write(f.Name, string(f.Data))
	}
	return p
}

// In returns the same project in another folder, which must exist before a command runs in it.
func (p *Project) In(dir string) *Project {
	q := *p
	q.Dir = dir
	return &q
}

// CopyTree copies a project without its build tree and without objects next to its sources.
func CopyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, name)
		if d.IsDir() {
			if d.Name() == "build" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		}
		if d.Type()&fs.ModeSymlink != 0 {
			end, err := os.Readlink(name)
			return errors.Join(err, os.Symlink(end, filepath.Join(to, rel)))
		}
		text, err := os.ReadFile(name)
		if err != nil || strings.HasSuffix(name, ".a") || strings.HasSuffix(name, ".o") {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Read returns the content of a file.
func (p *Project) Read(name string) []byte {
	p.T.Helper()
	text, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil {
		p.T.Fatal(err)
	}
	return text
}

// Write creates a file or replaces its content.
func (p *Project) Write(name, text string) {
	p.T.Helper()
	if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o666); err != nil {
		p.T.Fatal(err)
	}
}

// Edit replaces the first occurrence of a text in a file.
func (p *Project) Edit(file, from, to string) {
	p.T.Helper()
	text := string(p.Read(file))
	if !strings.Contains(text, from) {
		p.T.Fatalf("%s does not say %q", file, from)
	}
	p.Write(file, strings.Replace(text, from, to, 1))
}

// Need skips the test if a program is missing, or fails it if all must exist (make test).
func (p *Project) Need(names ...string) {
	p.T.Helper()
	for _, n := range names {
		if p.Which(n) == "" {
			tooltest.Missing(p.T, n)
		}
	}
}

// Which finds a program in Path. It returns "" if it is not found.
func (p *Project) Which(name string) string {
	for _, d := range filepath.SplitList(p.Path) {
		if file := filepath.Join(d, name); IsExecutable(file) {
			return file
		}
	}
	return ""
}

// IsExecutable reports whether the file can be run.
func IsExecutable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// shared holds the caches that the tests of a package share, by project name.
var (
	sharing sync.Mutex
	shared  = map[string]string{}
)

// Share fills the cache of an unedited project with the outputs of a build. All tests of the
// package share that build, which takes more than half the time of most tests.
func (p *Project) Share() {
	p.T.Helper()
	sharing.Lock()
	defer sharing.Unlock()
	dir := shared[p.name]
	if dir == "" {
		first := p.In(filepath.Join(p.T.TempDir(), "first"))
		dir = filepath.Join(binDir, p.name+".cache")
		first.Env = append(first.Env[:len(first.Env):len(first.Env)], "KBUILD_CACHE_DIR="+dir)
		p.shareTools(dir)
		CopyTree(p.T, p.Dir, first.Dir)
		first.Kbuild()
		shared[p.name] = dir
	}
	if err := os.Remove(filepath.Join(p.cache, "tools")); err != nil { // the copy contains it
		p.T.Fatal(err)
	}
	if err := os.CopyFS(p.cache, os.DirFS(dir)); err != nil {
		p.T.Fatal(err)
	}
}
