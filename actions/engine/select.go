package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Select resolves names of targets, sources and outputs. Without names it selects all default
// targets.
func (p *Project) Select(names []string) ([]graph.ActionID, error) {
	if len(names) == 0 {
		names = p.Graph.Default
	}
	if unbuilt := p.Graph.Unbuilt(names); len(unbuilt) > 0 {
		t := unbuilt[0]
		return nil, usagef("%s (%s) cannot be built: %s", t.Label, t.Pos, t.Unbuilt)
	}
	want, unknown := p.Graph.Select(names)
	if len(unknown) > 0 {
		var say []string
		for _, u := range unknown {
			hint := ""
			if near := manifest.Nearest(u, p.Graph.Names()); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			say = append(say, fmt.Sprintf("no target, source or output is called %q%s", u, hint))
		}
		return nil, usagef("%s", strings.Join(say, "\nkbuild: "))
	}
	return want, nil
}

// selectChecks returns the actions of the modules that names select, and of their link checks.
// Without names it returns those of all modules with link checks.
func (p *Project) selectChecks(names []string) ([]graph.ActionID, error) {
	var checks []string
	all := len(names) == 0
	for _, t := range p.Graph.Targets {
		checks = append(checks, t.Checks...)
		if all && len(t.Checks) > 0 {
			names = append(names, t.Label)
		}
	}
	for _, name := range names {
		if ids, _ := p.Graph.Select([]string{name}); ids != nil && len(p.Graph.FindTarget(name)) == 0 {
			return nil, usagef("%s is a file; --check-link wants the names of modules", name)
		}
	}
	if all && len(checks) == 0 {
		var archs []string
		for _, a := range p.w.CheckLink.Archs {
			archs = append(archs, a.String())
		}
		return nil, usagef("no module of this project has LTO-IR to link: --check-link %s is for modules with \"ltoir\" in emit", strings.Join(archs, ","))
	}
	return p.Select(append(names, checks...))
}

// SelectModules returns the actions that write the manifests of the modules that names select, or
// of all modules. It leaves out the objects of embedded modules.
func (p *Project) SelectModules(names []string) (manifests []graph.ActionID, err error) {
	if _, err := p.Select(names); len(names) > 0 && err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for _, t := range p.Graph.Targets {
			if t.Kind == string(manifest.Module) && t.Unbuilt == "" {
				names = append(names, t.Label)
			}
		}
	}
	if len(names) == 0 {
		return nil, usagef("this project has no module to precompile")
	}
	for _, name := range names {
		targets := p.Graph.FindTarget(name)
		if len(targets) == 0 {
			return nil, usagef("%s is a file; precompile wants the names of modules", name)
		}
		for _, t := range p.Graph.Expand(targets) {
			if t.Kind != "group" && t.Kind != string(manifest.Module) {
				return nil, usagef("%s (%s) is no module; build it with: kbuild build %s", t.Label, t.Pos, t.Name)
			}
			for _, id := range t.Actions {
				if p.Graph.Actions[id].Work.Manifest != nil {
					manifests = append(manifests, id)
				}
			}
		}
	}
	slices.Sort(manifests) // in the order of the manifest
	return slices.Compact(manifests), nil
}
