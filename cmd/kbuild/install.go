package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/install"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type installCmd struct {
	Targets []string `arg:"" optional:"" help:"Targets to install, with the libraries that they need (default: group default, or everything)."`
	Prefix  string   `placeholder:"DIR" default:"/usr/local" help:"The folder that bin, include and lib are in (default: /usr/local)."`
	DestDir string   `name:"destdir" placeholder:"DIR" help:"Put it in front of the prefix, to make a package (default: $DESTDIR)."`
}

// Run builds targets and installs them below the prefix. The paths that it prints omit --destdir.
func (cmd installCmd) Run(c *cli) error {
	c.fromMake(os.Getenv("MAKEFLAGS"))
	prefix, below, err := cmd.folders(c)
	if err != nil {
		return err
	}
	w := c.workspace()
	w.Exports = true
	command := &installation{cli: c, names: cmd.Targets, prefix: prefix, below: below}
	return c.ended(w.Build(engine.Request{Command: command, SummaryFirst: !c.JSON}))
}

// installation implements engine.Command.
type installation struct {
	*cli
	names         []string
	prefix, below string
	pkg           *install.Package
}

// Select plans the installation, and returns the actions that it needs.
func (i *installation) Select(p *engine.Project) ([]graph.ActionID, error) {
	names := i.names
	if len(names) == 0 {
		names = p.Graph.Default
	}
	labels, err := labelsOf(p, "install", names)
	if err != nil {
		return nil, err
	}
	labels = install.Labels(p.Exports, labels)
	if len(labels) == 0 {
		return nil, usagef("nothing of this is installed: libraries, executables and modules are")
	}
	var diags manifest.Diagnostics
	i.pkg, diags = install.New(p.Project, p.Exports, labels, p.Facts.Toolchains()["cuda"].Info().Archs)
	p.Quote(diags)
	i.Diagnose(diags)
	if diags.HasErrors() {
		return nil, engine.ErrDiagnosed
	}
	return p.Select(append(labels, i.pkg.Made()...))
}

// folders returns the prefix, and the folder that stands in for it under --destdir. Relative
// folders are relative to -C, as with make.
func (cmd installCmd) folders(c *cli) (prefix, below string, err error) {
	if cmd.Prefix == "" {
		return "", "", usagef("--prefix wants a folder, such as /usr/local")
	}
	if prefix, err = filepath.Abs(c.seen(cmd.Prefix)); err != nil {
		return "", "", err
	}
	dest := cmp.Or(cmd.DestDir, os.Getenv("DESTDIR"))
	if dest == "" {
		return prefix, prefix, nil
	}
	if dest, err = filepath.Abs(c.seen(dest)); err != nil {
		return "", "", err
	}
	return prefix, filepath.Join(dest, prefix), nil
}

// labelsOf returns the labels of the targets that a command names.
func labelsOf(p *engine.Project, command string, names []string) (labels []string, err error) {
	if _, err := p.Select(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		targets := p.Graph.FindTarget(name)
		if len(targets) == 0 {
			return nil, usagef("%s is a file; %s wants the names of targets", name, command)
		}
		for _, t := range p.Graph.Expand(targets) {
			labels = append(labels, t.Label)
		}
	}
	return labels, nil
}

// installedEvent reports one installed file.
type installedEvent struct {
	Event   string `json:"event"`
	Path    string `json:"path"` // without --destdir
	Link    string `json:"link,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Changed bool   `json:"changed"` // new, or its content differed
}

// OnSuccess writes the files of the built package, or with -n lists them.
func (i *installation) OnSuccess(*engine.Project, []graph.ActionID) error {
	changed := 0
	for _, f := range i.pkg.Files() {
		e := installedEvent{Event: "installed", Path: path.Join(i.prefix, f.Path), Link: f.Link}
		if f.Link == "" {
			e.Mode = fmt.Sprintf("%04o", f.Mode.Perm())
		}
		var err error
		if !i.DryRun {
			if e.Changed, err = i.pkg.Write(f, i.below); err != nil {
				return fmt.Errorf("installing %s: %w", e.Path, err)
			}
		}
		if e.Changed {
			changed++
		}
		i.out.Paths()
		if err := i.print(e, "%s\n", e.Path); err != nil {
			return err
		}
	}
	if !i.DryRun && !i.JSON {
		note := fmt.Sprintf("installed %s in %s", graph.Count(changed, "file"), i.below)
		if same := len(i.pkg.Files()) - changed; changed == 0 {
			note = fmt.Sprintf("nothing to install in %s: all of it is there already", i.below)
		} else if same > 0 {
			note += fmt.Sprintf("; %d were there already", same)
		}
		i.Note(note)
	}
	return nil
}
