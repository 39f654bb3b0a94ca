package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type runCmd struct {
	Target string   `arg:"" optional:"" help:"An executable (default: the only one)."`
	Args   []string `arg:"" optional:"" help:"What it is given. All that follows -- is the program's, as it stands."`
}

// Run builds an executable and replaces kbuild with it. Signals reach the program, and its exit
// status is its own.
func (cmd runCmd) Run(c *cli) error {
	c.Quiet = c.Quiet || !c.Verbose && !term.IsTerminal(c.err) // stderr belongs to the program
	c.quietEnd = true
	w := c.workspace()
	build := &runBuild{cmd: cmd}
	sum, err := w.Build(engine.Request{Command: build})
	if err = c.ended(sum, err); err != nil || !build.succeeded {
		return err
	}
	argv := append([]string{cache.Absolute(build.project.Root, build.program)}, cmd.Args...)
	if c.DryRun {
		fmt.Fprintln(c.err, "kbuild: would run", term.Visible(term.ShellQuote(argv)))
		return nil
	}
	if c.below != "" {
		c.Dir = "." // if started below the manifest, run the program there
	}
	if err := os.Chdir(c.Dir); err != nil {
		return err
	}
	c.out.Close()
	err = unix.Exec(argv[0], argv, run.WithLibraryFolders(os.Environ(), build.project.LibraryFolders()))
	return fmt.Errorf("starting %s: %w", argv[0], err)
}

// runBuild builds the program to run. It implements engine.Command.
type runBuild struct {
	cmd       runCmd
	project   *engine.Project
	program   string
	succeeded bool
}

func (b *runBuild) Select(p *engine.Project) ([]graph.ActionID, error) {
	t, err := b.cmd.target(p)
	if err != nil {
		return nil, err
	}
	b.project, b.program = p, t.Outputs[0]
	return p.Select([]string{t.Label})
}

func (b *runBuild) OnSuccess(*engine.Project, []graph.ActionID) error {
	b.succeeded = true
	return nil
}

// target returns the executable that the command names, or the only one.
func (cmd runCmd) target(p *engine.Project) (*graph.Target, error) {
	var all []string
	var only *graph.Target
	for _, t := range p.Graph.Targets {
		if t.Kind == string(manifest.Executable) {
			all, only = append(all, t.Name), t
		}
	}
	known := "the executables are " + strings.Join(all, ", ")
	if len(all) == 0 {
		return nil, usagef("this project has no executable to run")
	}
	if cmd.Target == "" {
		if len(all) > 1 {
			return nil, usagef("say which executable to run: %s", known)
		}
		return only, nil
	}
	found := p.Graph.FindTarget(cmd.Target)
	i := slices.IndexFunc(found, func(t *graph.Target) bool { return t.Kind == string(manifest.Executable) })
	switch {
	case i < 0 && len(found) > 0:
		return nil, usagef("%s cannot be run; %s", found[0].Label, known)
	case i < 0:
		if near := manifest.Nearest(cmd.Target, all); near != "" {
			known = fmt.Sprintf("did you mean %s?", near)
		}
		return nil, usagef("there is no executable %q; %s", cmd.Target, known)
	case found[i].Unbuilt != "":
		return nil, usagef("%s cannot be built: %s", found[i].Label, found[i].Unbuilt)
	}
	return found[i], nil
}
