package toolchain

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// A command line that another build tool wrote is a project of one target and one source, or of one
// device link. It is planned like those: by the toolchain, from the same dry runs, into the same
// passes. It has no attributes. Its options are passed on as they are, and whatever kbuild does not
// understand makes the toolchain refuse it, so that the compiler runs it.

// Commander is a Toolchain that plans command lines.
type Commander interface {
	Command(CommandRequest) PlannedCommand
}

// CommandRequest is a request to plan a command line.
type CommandRequest struct {
	*Build
	Command *host.Command

	Output, Depfile string // in place of the files that the command names; Output has no extension
	Dir             string // folder of the intermediates

	// Label, Source and Variant identify the source within any program.
	Label, Source, Variant string
	Named                  string // name of the source in passes that do not read it; "" is its path
	Files                  bool   // list the files of each text
	Shown                  bool   // texts show the includes as written
}

// PlannedCommand is a planned command line.
type PlannedCommand struct {
	Plan           // the last action writes the output
	Refused error  // why the command passes through to its compiler, or nil
	Lines   bool   // the outputs record lines, and the working directory
	Printed string // by the driver itself

	// Order lists the actions in the order in which the compiler runs the passes; nil if that is
	// the order of the plan.
	Order []*graph.Action

	// Where the compiler searches for a host compiler: a PATH, in which the folder of its own
	// programs is Programs. HostCXX is the one of the plan, Installed the folder of the toolkit.
	// They are "" for other compilers.
	Path, Programs, HostCXX, Installed string

	// How the requested dependency file is made: it is the output DepsOutput, or DepsArgv is the
	// command of DepsPass that writes it if it is changed by host.AskOwn, or it lists the files of
	// the texts.
	DepsOutput string
	DepsArgv   []string
	DepsPass   *graph.Action
}

// Refuse returns p with a reason why the command passes through to its compiler.
func (p PlannedCommand) Refuse(format string, args ...any) PlannedCommand {
	p.Refused = fmt.Errorf(format, args...)
	return p
}

// WriteDeps makes the requested dependency file of c from a pass that writes one of all headers:
// argv is the pass with the requested target.
func (p *PlannedCommand) WriteDeps(c *host.Command, pass *graph.Action, argv []string, dir string) {
	if c.Own {
		p.DepsArgv, p.DepsPass = argv, pass
		return
	}
	p.DepsOutput = dir + "/made.deps"
	pass.Argv, pass.Outputs = argv, append(pass.Outputs, p.DepsOutput)
	pass.Work.Pass.DepfileOutput = p.DepsOutput
}
