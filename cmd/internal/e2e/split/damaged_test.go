package split_test

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// The records of a cache say what every pass makes, and every content in it is damaged: all is made
// again, and is the same.
func TestRealDamagedCache(t *testing.T) {
	tooltest.Broad(t)
	t.Parallel()
	e := realProject(t, "edits")
	e.Share()
	cold := e.Kbuild()
	program := e.Read("build/bin/app")
	rng := rand.New(rand.NewPCG(3, 4))
	blobs, _ := filepath.Glob(filepath.Join(filepath.Dir(e.Dir), "cache/v2/blobs/*/*"))
	if len(blobs) < 15 {
		t.Fatalf("the cache holds only %d blobs", len(blobs))
	}
	for i, name := range blobs {
		e2e.Damage(t, rng, name, blobs[(i+1)%len(blobs)], i%len(e2e.Damages))
	}
	e.Run("rm", "-rf", "build")
	if c := e.Kbuild(); c.Failed != 0 || c.Ran == 0 || c.Ran == cold.Actions {
		t.Errorf("beside damaged blobs: %+v", c)
	}
	if !bytes.Equal(e.Read("build/bin/app"), program) {
		t.Error("the program is another")
	}
}
