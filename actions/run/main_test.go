package run

import (
	"os"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Normalize()
	os.Exit(m.Run())
}
