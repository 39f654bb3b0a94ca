package main

import (
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type precompileCmd struct {
	Verify bool     `help:"Compare the named manifests of modules with the files beside them. Needs neither a project nor a compiler."`
	Names  []string `arg:"" optional:"" name:"module" help:"Modules (default: all), or with --verify manifests such as build/modules/gemm.json."`
}

// Run builds modules and prints what came out, one path a line.
func (cmd precompileCmd) Run(c *cli) error {
	if cmd.Verify {
		return c.verify(cmd.Names)
	}
	c.fromMake(os.Getenv("MAKEFLAGS"))
	w := c.workspace()
	req := engine.Request{Select: func(p *engine.Project) ([]graph.ActionID, error) { return manifests(p, cmd.Names) }}
	show := func(p *engine.Project, manifests []graph.ActionID) error { return c.printArtifacts(p, manifests) }
	switch {
	case c.DryRun:
	case c.JSON:
		req.Good = show // the finished event is the last
	default:
		req.Done = show
	}
	return c.ended(w.Build(req))
}

// manifests are the actions that end what names, or all modules, stand for. An embedded module is not made into an object.
func manifests(p *engine.Project, names []string) ([]graph.ActionID, error) {
	all := len(names) == 0
	if all {
		for _, t := range p.Graph.Targets {
			if t.Kind == string(manifest.Module) && t.Unbuilt == "" {
				names = append(names, t.Label)
			}
		}
		if len(names) == 0 {
			return nil, usagef("this project has no module to precompile")
		}
	} else if _, err := p.Select(names); err != nil {
		return nil, err
	}
	var out []graph.ActionID
	for _, name := range names {
		ids, err := manifestsOf(p, name)
		if err != nil {
			return nil, err
		}
		out = append(out, ids...)
	}
	slices.Sort(out) // as they stand in the manifest
	return slices.Compact(out), nil
}

// manifestsOf are those of one module, of all instances of one, or of a group.
func manifestsOf(p *engine.Project, name string) (out []graph.ActionID, err error) {
	targets := p.Graph.FindTarget(name)
	if len(targets) == 0 {
		return nil, usagef("%s is a file; precompile wants the names of modules", name)
	}
	for _, t := range targets {
		switch t.Kind {
		case "group":
			for _, d := range t.Deps {
				ids, err := manifestsOf(p, d)
				if err != nil {
					return nil, err
				}
				out = append(out, ids...)
			}
		case string(manifest.Module):
			for _, id := range t.Actions {
				if p.Graph.Actions[id].Kind == graph.Manifest {
					out = append(out, id)
				}
			}
		default:
			return nil, usagef("%s (%s) is no module; build it with: kbuild build %s", t.Label, t.Pos, t.Name)
		}
	}
	return out, nil
}

// artifactEvent is one file of a module. That of a manifest has the kind "manifest".
type artifactEvent struct {
	Event   string            `json:"event"`
	Module  string            `json:"module"`
	Variant map[string]string `json:"variant"`
	Arch    string            `json:"arch"`
	Kind    string            `json:"kind"`
	Path    string            `json:"path"`
	SHA256  string            `json:"sha256"`
	Size    int64             `json:"size"`
}

// printArtifacts prints the artifacts of modules, each with its manifest last: a path a line, as seen from where kbuild was started, or an event.
func (c *cli) printArtifacts(p *engine.Project, manifests []graph.ActionID) error {
	for _, id := range manifests {
		events, err := c.artifacts(p.Root, p.Graph.Actions[id].Outputs[0])
		if err != nil {
			return err
		}
		for _, e := range events {
			if c.JSON {
				err = c.out.Event(e)
			} else {
				_, err = fmt.Fprintln(c.out.Paths(), e.Path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// artifacts are those that a manifest of the build tree names, and itself.
func (c *cli) artifacts(root, name string) ([]artifactEvent, error) {
	text, err := regular.Read(cache.Absolute(root, name))
	if err != nil {
		return nil, err
	}
	m, problems := modinfo.Decode(text)
	if problems != nil {
		return nil, fmt.Errorf("BUG: %s: %v", name, problems)
	}
	self := modinfo.Artifact{File: path.Base(name), Kind: "manifest", Size: int64(len(text)), SHA256: modules.Digest(text)}
	var out []artifactEvent
	for _, a := range append(m.Artifacts, self) {
		out = append(out, artifactEvent{"artifact", m.Module, m.Variant, a.Arch, a.Kind, c.seen(path.Join(path.Dir(name), a.File)), a.SHA256, a.Size})
	}
	return out, nil
}

// verified is what --verify says of a manifest as an event.
type verified struct {
	Event     string            `json:"event"`
	Manifest  string            `json:"manifest"`
	OK        bool              `json:"ok"`
	Artifacts int               `json:"artifacts"`
	Problems  []modinfo.Problem `json:"problems"`
}

// verify holds manifests against their artifacts, and tells all that is wrong with all of them.
func (c *cli) verify(files []string) error {
	if len(files) == 0 {
		return usagef("--verify wants the manifests of modules, such as build/modules/gemm.json")
	}
	wrong := false
	for _, name := range files {
		name = c.seen(name)
		m, problems := modules.Verify(name)
		wrong = wrong || problems != nil
		v := verified{"verified", name, problems == nil, 0, problems}
		if m != nil {
			v.Artifacts = len(m.Artifacts)
		}
		if err := c.sayVerified(v); err != nil {
			return err
		}
	}
	if wrong {
		return exitError{status: exitRequirement}
	}
	return nil
}

func (c *cli) sayVerified(v verified) error {
	if c.JSON {
		if v.Problems == nil {
			v.Problems = []modinfo.Problem{}
		}
		return c.out.Event(v)
	}
	for _, p := range v.Problems {
		c.say("%s: %s", v.Manifest, p)
	}
	if !v.OK || c.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(c.out, "%s: %d artifacts are as it says\n", v.Manifest, v.Artifacts)
	return err
}
