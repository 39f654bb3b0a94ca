package main

import (
	"fmt"
	"os"
	"path"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

type precompileCmd struct {
	Verify bool     `help:"Compare the named manifests of modules with the files beside them. Needs neither a project nor a compiler."`
	Names  []string `arg:"" optional:"" name:"module" help:"Modules (default: all), or with --verify manifests such as build/modules/gemm.json."`
}

// Run builds modules and prints the paths of their artifacts, one per line.
func (cmd precompileCmd) Run(c *cli) error {
	if cmd.Verify {
		return verifyManifests(c, cmd.Names)
	}
	c.fromMake(os.Getenv("MAKEFLAGS"))
	command := precompilation{c, cmd.Names}
	return c.ended(c.workspace().Build(engine.Request{Command: command, SummaryFirst: !c.JSON}))
}

// precompilation implements engine.Command.
type precompilation struct {
	*cli
	names []string
}

func (c precompilation) Select(p *engine.Project) ([]graph.ActionID, error) {
	return p.SelectModules(c.names)
}

// artifactEvent is one file of a module. Its kind is "manifest" for the module's manifest.
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

// OnSuccess prints the artifacts of each module, the manifest last. The output is one path per
// line, relative to the start folder, or one event each with --json.
func (c precompilation) OnSuccess(p *engine.Project, manifests []graph.ActionID) error {
	if c.DryRun {
		return nil
	}
	for _, id := range manifests {
		name := p.Graph.Actions[id].Outputs[0]
		m, self, err := modules.Load(cache.Absolute(p.Root, name))
		if err != nil {
			return err
		}
		for _, a := range append(m.Artifacts, self) {
			file := c.seen(path.Join(path.Dir(name), a.File))
			c.out.Paths()
			err = c.print(artifactEvent{"artifact", m.Module, m.Variant, a.Arch, a.Kind, file, a.SHA256,
				a.Size}, "%s\n", file)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// verified is the event that --verify writes for one manifest.
type verified struct {
	Event     string            `json:"event"`
	Manifest  string            `json:"manifest"`
	OK        bool              `json:"ok"`
	Artifacts int               `json:"artifacts"`
	Problems  []modinfo.Problem `json:"problems"`
}

// verifyManifests checks manifests against their artifacts and reports all problems of all of them.
func verifyManifests(c *cli, files []string) error {
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
		if c.JSON {
			if v.Problems == nil {
				v.Problems = []modinfo.Problem{}
			}
			if err := c.out.Event(v); err != nil {
				return err
			}
			continue
		}
		for _, p := range problems {
			c.say("%s: %s", name, p)
		}
		if v.OK && !c.Quiet {
			if _, err := fmt.Fprintf(c.out, "%s: %s as it says\n", name, graph.Count(v.Artifacts, "artifact")); err != nil {
				return err
			}
		}
	}
	if wrong {
		return exitError{status: exitRequirement}
	}
	return nil
}
