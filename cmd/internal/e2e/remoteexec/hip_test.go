package remoteexec_test

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// Links of AMD's code that other machines make are those that this one makes. Whether it waits for
// one of them is not said: both do it.
func TestHIP(t *testing.T) {
	tooltest.Broad(t)
	local := e2e.Unpack(t, "hip")
	local.Need("hipcc")
	here := build(&local, "-j2")
	farm, p := shared.take(t), local.Checkout(t, "another", "check out")
	w := startTraced(t, farm, 2, nil)
	there := build(p, elsewhere(farm, "--remote-read-only=false")...)
	if here.status != 0 || there.status != 0 || len(there.warnings) > 0 || !maps.Equal(there.messages, here.messages) {
		t.Errorf("%+v, and here %+v", there, here)
	}
	same(t, files(t, filepath.Join(p.Dir, "build")), files(t, filepath.Join(local.Dir, "build")))
	p.Run("kbuild", "-j2", "cache", "verify", "--rebuild")
	t.Logf("elsewhere: %d of %d, %d commands", there.elsewhere, there.actions, w.Ran())
}
