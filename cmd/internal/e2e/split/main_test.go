// Package split_test holds nvcc taken apart against nvcc as one command, and against edits of every
// kind.
package split_test

import (
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

type example struct{ e2e.Project }

// realProject is what testdata/NAME.txtar holds.
func realProject(t *testing.T, name string) *example { return &example{e2e.Unpack(t, name)} }
