package e2e

import (
	"os"
	"path/filepath"
	"sync"
)

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
