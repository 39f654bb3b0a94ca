package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// deviceCompiler compiles one source with device code. Each compiler has one: nvcc.go, hip.go, clangcuda.go.
type deviceCompiler interface {
	// command is the compile as one command of the driver; nil if a problem was reported.
	command(out string, inc []string) *graph.Action

	// learn gives what plans the passes of the command, or why it stays in one piece.
	learn(whole *graph.Action) (splitter, error)

	// inOnePiece plans the command as it is.
	inOnePiece(whole *graph.Action, why error)
}

// splitter plans the passes of a unit. It gives the bitcode by architecture, if a device link reads that.
type splitter func(u compiler.Unit) (bitcode map[string]string)

// compilerOf is what compiles a source of t with device code.
func (b *builder) compilerOf(t *target, s manifest.Source) deviceCompiler {
	switch {
	case s.Language == "hip":
		return &hipCompiler{b, t, s}
	case b.clang() != nil:
		return &clangCompiler{b, t, s}
	}
	return &nvccCompiler{b: b, t: t, s: s}
}

// compileDevice plans the compile of one source with device code: in passes, if its compiler says what they are. ok is false if a problem
// was reported before there was a command.
func (b *builder) compileDevice(t *target, s manifest.Source, o *object, inc, headers []string) (ok bool) {
	c := b.compilerOf(t, s)
	whole := c.command(o.path, inc)
	if whole == nil {
		return false
	}
	whole.OrderOnly, whole.Work.Driver = headers, &graph.Driver{}
	split, err := c.learn(whole)
	if err != nil {
		whole.Work.Driver.UnsplitReason = err.Error()
		c.inOnePiece(whole, err)
		return true
	}
	o.bitcode = split(b.unit(t, whole, o.path))
	return true
}

// unit is a command of t that makes the file out and is taken apart.
func (b *builder) unit(t *target, whole *graph.Action, out string) compiler.Unit {
	return compiler.Unit{Whole: whole, Env: whole.Env, Dir: b.out(graph.PartsDir, b.inTree(out)), Emit: func(a *graph.Action) { b.emit(t, a) }}
}

// optedOut says how the user asked for a compiler in one piece, "" if nobody did.
func (b *given) optedOut(t *target) string {
	switch {
	case b.options.NoSplit:
		return "--no-split"
	case t.Split != nil && !*t.Split:
		return "split = false"
	}
	return ""
}

// joinable wants host code that device code can be put into afterwards. options are those of its compile, whoever asked for them: the
// manifest, or NVCC_APPEND_FLAGS.
func joinable(options []string) error {
	if o := host.IntermediateCode(options); o != "" {
		return fmt.Errorf("%s makes intermediate code of the host code, and a link takes device code from there", o)
	}
	return nil
}
