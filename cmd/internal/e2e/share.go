package e2e

import (
	"os"
	"path/filepath"
	"sync"
)

// shared holds the builds that the tests of a package share, by project name.
var shared struct {
	sync.Mutex
	caches map[string]*sharedCache
}

type sharedCache struct {
	once sync.Once
	dir  string // "" if the build failed
}

// Share fills the cache of an unedited project with the outputs of a build. All tests of the
// package share that build, which takes more than half the time of most tests.
func (p *Project) Share() {
	p.T.Helper()
	shared.Lock()
	if shared.caches == nil {
		shared.caches = map[string]*sharedCache{}
	}
	s := shared.caches[p.name]
	if s == nil {
		s = &sharedCache{}
		shared.caches[p.name] = s
	}
	shared.Unlock()
	s.once.Do(func() {
		first := p.In(filepath.Join(p.T.TempDir(), "first"))
		dir := filepath.Join(binDir, p.name+".cache")
		first.Env = append(first.Env[:len(first.Env):len(first.Env)], "KBUILD_CACHE_DIR="+dir)
		p.shareTools(dir)
		CopyTree(p.T, p.Dir, first.Dir)
		first.Kbuild()
		s.dir = dir
	})
	if s.dir == "" {
		p.T.Fatal("the build that tests share has failed")
	}
	if err := os.Remove(filepath.Join(p.cache, "tools")); err != nil { // the copy contains it
		p.T.Fatal(err)
	}
	if err := os.CopyFS(p.cache, os.DirFS(s.dir)); err != nil {
		p.T.Fatal(err)
	}
}
