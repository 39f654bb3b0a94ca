package clangcuda_test

import (
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

type example struct {
	e2e.Project
	clang string // the name of clang++
}

// realProject is what testdata/NAME.txtar holds.
func realProject(t *testing.T, name string) *example {
	return &example{Project: e2e.Unpack(t, name)}
}
