package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// deviceCompiler compiles one source with device code. Each compiler has one: nvcc.go, hip.go,
// clangcuda.go.
type deviceCompiler interface {
	// command is the compile as one command of the driver; nil if a problem was reported.
	command(out string, inc []string) *graph.Action

	// learn gives what plans the passes of the command, or why it stays in one piece.
	learn(whole *graph.Action) (splitter, error)

	// inOnePiece plans the command as it is.
	inOnePiece(whole *graph.Action, why error)
}

// compile is one source of a target.
type compile struct {
	b *builder
	t *target
	s manifest.Source
}

// splitter plans the passes of a unit. It gives the relocatable code by architecture, if a device
// link reads that.
type splitter func(u compiler.Unit) (bitcode map[string]string)

// unit is a command of t that makes the file out and is taken apart.
func (b *builder) unit(t *target, whole *graph.Action, out string) compiler.Unit {
	return compiler.Unit{Whole: whole, Env: whole.Env, Dir: b.out(graph.PartsDir, b.inTree(out)), Emit: func(a *graph.Action) { b.emit(t, a) }}
}

// joinable wants host code that device code can be put into afterwards. options are those of its
// compile, whoever asked for them: the manifest, or NVCC_APPEND_FLAGS.
func joinable(options []string) error {
	if o := host.IntermediateCode(options); o != "" {
		return fmt.Errorf("%s makes intermediate code of the host code, and a link takes device code from there", o)
	}
	return nil
}
