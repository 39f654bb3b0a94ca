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
	var program string
	var project *engine.Project
	choose := func(p *engine.Project) ([]graph.ActionID, error) {
		t, err := cmd.target(p)
		if err != nil {
			return nil, err
		}
		program, project = t.Outputs[0], p
		return p.Select([]string{t.Label})
	}
	good := false
	sum, err := w.Build(engine.Request{Select: choose, Good: func(*engine.Project, []graph.ActionID) error { good = true; return nil }})
	if err = c.ended(sum, err); err != nil || !good {
		return err
	}
	argv := append([]string{cache.Absolute(project.Root, program)}, cmd.Args...)
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
	err = unix.Exec(argv[0], argv, run.WithLibraryFolders(os.Environ(), project.LibraryFolders()))
	return fmt.Errorf("starting %s: %w", argv[0], err)
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
