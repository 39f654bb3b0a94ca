package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// deviceCompiler plans the compile of one source with device code. It is implemented by nvcc.go,
// hip.go and clangcuda.go.
type deviceCompiler interface {
	// command returns the unsplit compile, or nil if it reported a problem.
	command(out string, inc []string) *graph.Action

	// learn returns a splitter that plans the passes of the command, or the reason to leave it
	// unsplit.
	learn(whole *graph.Action) (splitter, error)

	// inOnePiece plans the unsplit command.
	inOnePiece(whole *graph.Action, why error)
}

// compile is one source of a target.
type compile struct {
	b *builder
	t *target
	s manifest.Source
}

// splitter plans the passes of a unit. It returns the relocatable code by architecture if device
// links read it, else nil.
type splitter func(u toolchain.Unit) (bitcode map[string]string)

// unit returns the unit for splitting a command of t that writes the file out.
func (b *builder) unit(t *target, whole *graph.Action, out string) toolchain.Unit {
	return toolchain.Unit{Whole: whole, Env: whole.Env, Dir: b.out(graph.PartsDir, b.inTree(out)), Emit: func(a *graph.Action) { b.emit(t, a) }}
}

// joinable returns an error if device code cannot be inserted into the compiled host code. options
// are those of its compile, from the manifest or from NVCC_APPEND_FLAGS.
func joinable(options []string) error {
	if o := host.IntermediateCode(options); o != "" {
		return fmt.Errorf("%s makes intermediate code of the host code, and a link takes device code from there", o)
	}
	return nil
}
