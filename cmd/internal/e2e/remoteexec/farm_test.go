package remoteexec_test

import (
	"os"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) {
	os.Setenv("KBUILD_REMOTE_PATIENCE", "1m") // a machine that has much to do is no fault of the server's
	e2e.Main(m, shared.end)
}

// shared is a server that tests use one after the other, each with instances of its own: to start
// one takes as long as to build what most of them build.
var shared farms

type farms struct {
	unused []*server
	ends   []func()
}

// take gives an instance that nobody has used.
func (f *farms) take(t *testing.T) *server {
	t.Helper()
	if len(f.unused) == 0 {
		f.unused = startServers(lasting{t, f}, 14)
	}
	farm := f.unused[0]
	f.unused = f.unused[1:]
	return farm
}

func (f *farms) end() {
	for len(f.ends) > 0 { // an end may start something, which is to end too
		last := len(f.ends) - 1
		end := f.ends[last]
		f.ends = f.ends[:last]
		end()
	}
}

// lasting is a test of which all that it starts lasts as long as the process.
type lasting struct {
	testing.TB
	farms *farms
}

// Cleanup implements testing.TB.
func (l lasting) Cleanup(end func()) { l.farms.ends = append(l.farms.ends, end) }

// TempDir implements testing.TB.
func (l lasting) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "kbuild-farm")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
