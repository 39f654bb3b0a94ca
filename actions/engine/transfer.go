package engine

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
)

// Identity is what keys hold besides the project, tools by the names that actions have for them: where any of it differs, no
// entry fits.
func (p *Project) Identity() []cache.Field {
	tools := p.Tools()
	fields := []cache.Field{
		{Name: "key version", Value: cache.KeyVersion + "." + execute.Method},
		{Name: "platform", Value: runtime.GOOS + "/" + runtime.GOARCH},
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		fields = append(fields, cache.Field{Name: name, Value: strings.TrimSpace(tools[name].Version + " " + tools[name].ID)})
	}
	_, env := environ()
	return append(fields, cache.Field{Name: "environment", Value: strings.Join(env, " ")})
}

// IdentityAlways are the fields of an identity that every bundle has; tools are those that its actions use.
var IdentityAlways = [...]string{"key version", "platform", "environment"}

// Bundle describes a bundle of what the cache holds.
func (p *Project) Bundle(held []execute.Held) (m disk.Manifest, missing []*graph.Action) {
	tools := map[string]bool{}
	for _, name := range IdentityAlways {
		tools[name] = true
	}
	for _, h := range held {
		for _, t := range h.Action.Tools {
			tools[t] = true
		}
		m.Archs = append(m.Archs, Shipped(h.Action)...)
		m.Targets = append(m.Targets, h.Action.Target)
		if h.Record == nil {
			missing = append(missing, h.Action)
			continue
		}
		m.Entries = append(m.Entries, disk.Entry(h.Action.Outputs[0], h.Record))
	}
	m.Identity = slices.DeleteFunc(p.Identity(), func(f cache.Field) bool { return !tools[f.Name] })
	m.Archs, m.Targets = sortedSet(m.Archs), sortedSet(m.Targets)
	return m, missing
}

// Shipped are the codes of what an action makes for others than the next pass.
func Shipped(a *graph.Action) []string {
	if a.Intermediate {
		return nil
	}
	return a.Archs
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// Imported finds records of the bundles that were imported, by the first output of an action; nil where there is none.
func (t *Tree) Imported() func(output string) *cache.Record {
	if t.Store == nil {
		return func(string) *cache.Record { return nil }
	}
	names := t.Store.Imported()
	return func(output string) *cache.Record {
		if names[output] == "" {
			return nil
		}
		r, err := t.Store.Named(names[output])
		if err != nil {
			return nil // gc took it
		}
		return r
	}
}

// Covered is what the tools of the plan stand for.
func (p *Project) Covered(ctx context.Context) execute.Covered {
	files, asked := probe.Covered(ctx, p.request)
	c := execute.Covered{Files: map[string][]string{}, Asked: asked}
	for name, tool := range p.Tools() {
		c.Files[name] = files[tool.ID]
	}
	return c
}
