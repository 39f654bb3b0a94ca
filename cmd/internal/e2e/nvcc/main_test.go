package nvcc_test

import (
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

type example struct{ e2e.Project }

// realExample is a copy of examples/NAME.
func realExample(t *testing.T, name string) *example { return &example{e2e.Example(t, name)} }

// realProject is what testdata/NAME.txtar holds.
func realProject(t *testing.T, name string) *example { return &example{e2e.Unpack(t, name)} }
