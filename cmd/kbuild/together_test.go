package main

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTogether runs kbuilds in two folders, twice in one of them, and collections, all at once on
// one cache. Every build must succeed with the outputs of a build from nothing, or say that another
// works in its build tree if it must not wait; in the end the cache must be whole.
func TestTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("builds dozens of times")
	}
	p := newStatesProject(t, 4, 1)
	folders := []*statesProject{p, p.copied(), p.copied()}
	var builders, others sync.WaitGroup
	works := []func(){p.intrude, p.collect}
	begun := make(chan struct{}, len(works)*len(folders)*12) // what else there is to do, for each build that begins
	for i, b := range folders {
		b.rng = rand.New(rand.NewPCG(uint64(i), 3))
		builders.Go(func() {
			for range 12 {
				for range works {
					begun <- struct{}{}
				}
				b.turn(b.rng.IntN(len(b.want)))
				if i > 0 && b.rng.IntN(3) == 0 { // where nobody else builds
					removeOutputs(b.dir)
				}
				b.alone()
			}
		})
	}
	for _, work := range works {
		others.Go(func() {
			for range begun {
				work()
			}
		})
	}
	builders.Wait()
	close(begun)
	others.Wait()
	for _, b := range folders {
		b.survived("all")
	}
}

// copied is the same project elsewhere.
func (p *statesProject) copied() *statesProject {
	q := *p
	q.dir = filepath.Join(p.t.TempDir(), "copy")
	if err := os.CopyFS(q.dir, os.DirFS(p.dir)); err != nil {
		p.t.Fatal(err)
	}
	return &q
}

const busy = "another kbuild works in this build tree"

// alone builds in a process of its own, as soon as nobody else builds here, and looks at the
// outputs.
func (p *statesProject) alone() {
	text, err := exec.Command("kbuild", "-C", p.dir, "-k0").CombinedOutput()
	if err != nil || strings.Contains(string(text), "warning: the cache") {
		p.t.Errorf("kbuild: %v\n%s", err, text)
	}
	got := outputs(p.t, p.dir)
	for name, want := range p.want[p.state] {
		if got[name] != want {
			p.t.Errorf("%s holds %q, from nothing %q; kbuild said\n%s", name, got[name], want, text)
		}
	}
}

// intrude builds where another does.
func (p *statesProject) intrude() {
	text, err := exec.Command("kbuild", "-C", p.dir, "--no-wait", "library.k").CombinedOutput()
	if err != nil && !strings.Contains(string(text), busy) {
		p.t.Errorf("kbuild beside another: %v\n%s", err, text)
	}
}

// collect makes everything in the cache look as if nobody had needed it for long, and has it
// removed.
func (p *statesProject) collect() {
	old := time.Now().Add(-5 * time.Hour)
	filepath.WalkDir(filepath.Join(p.cache, "v2/blobs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			os.Chtimes(name, old, old)
		}
		return nil
	})
	text, err := exec.Command("kbuild", "cache", "gc", "--max-age=1ns").CombinedOutput()
	if err != nil {
		p.t.Errorf("gc: %v\n%s", err, text)
	}
}
