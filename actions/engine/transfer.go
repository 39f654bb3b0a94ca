package engine

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
)

// Fingerprint returns what keys contain besides the project, with tools by the names that actions
// use for them. If any of it differs, no entry of the cache fits.
func (p *Project) Fingerprint() []cache.Field {
	tools := p.Tools()
	fields := []cache.Field{
		{Name: "key version", Value: cache.KeyVersion + "." + inprocess.Method},
		{Name: "platform", Value: runtime.GOOS + "/" + runtime.GOARCH},
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		fields = append(fields, cache.Field{Name: name, Value: strings.TrimSpace(tools[name].Version + " " + tools[name].ID)})
	}
	return append(fields, cache.Field{Name: "environment", Value: strings.Join(p.w.keyEnv(), " ")})
}

// alwaysFingerprint lists the fields of an identity that every bundle has. The other fields are the
// tools that its actions use.
var alwaysFingerprint = []string{"key version", "platform", "environment"}

// Bundle describes a bundle of the records in entries. missing are the actions without a record.
func (p *Project) Bundle(entries []execute.Entry) (m disk.Manifest, missing []*graph.Action) {
	fields := slices.Clone(alwaysFingerprint)
	var actions []*graph.Action
	for _, h := range entries {
		actions, fields = append(actions, h.Action), append(fields, h.Action.Tools...)
		m.Targets = append(m.Targets, h.Action.Target)
		if h.Record == nil {
			missing = append(missing, h.Action)
		} else {
			m.Entries = append(m.Entries, disk.Entry(h.Action.Outputs[0], h.Record))
		}
	}
	slices.Sort(m.Targets)
	m.Archs, m.Targets = shipped(actions), slices.Compact(m.Targets)
	m.Fingerprint = slices.DeleteFunc(p.Fingerprint(), func(f cache.Field) bool { return !slices.Contains(fields, f.Name) })
	return m, missing
}

// shipped returns the architectures of actions, except those whose outputs are only for the next
// pass.
func shipped(actions []*graph.Action) (archs []string) {
	for _, a := range actions {
		if !a.Intermediate {
			archs = append(archs, a.Archs...)
		}
	}
	slices.Sort(archs)
	return slices.Compact(archs)
}

// Unlike is a field of the identity of a bundle that has another value locally.
type Unlike struct{ Name, Bundle, Here string }

// Compare compares a bundle with the project. If differ has fields, none of the bundle's entries
// would be found. lacking lists the architectures that the project ships and the bundle lacks. The
// error reports a damaged bundle.
func (p *Project) Compare(m disk.Manifest) (differ []Unlike, lacking []string, err error) {
	here, named := map[string]string{}, map[string]bool{}
	for _, f := range p.Fingerprint() {
		here[f.Name] = f.Value
	}
	for _, f := range m.Fingerprint {
		named[f.Name] = true
		if is := here[f.Name]; is != f.Value {
			differ = append(differ, Unlike{f.Name, f.Value, is})
		}
	}
	for _, name := range alwaysFingerprint {
		if !named[name] {
			return nil, nil, fmt.Errorf("the manifest of the bundle is damaged: it does not name its %s", name)
		}
	}
	lacking = slices.DeleteFunc(shipped(p.Graph.Actions), func(a string) bool { return slices.Contains(m.Archs, a) })
	return differ, lacking, nil
}

// Bundles is the records of the imported bundles.
type Bundles struct {
	store *disk.Store
	names map[string]string // of records, by the first outputs of actions
}

// Imported returns the imported bundles.
func (t *Tree) Imported() (b Bundles) {
	if t.Store != nil {
		b = Bundles{t.Store, t.Store.Imported()}
	}
	return b
}

// Record returns the record of an action by its first output, or nil.
func (b Bundles) Record(output string) *cache.Record {
	if b.names[output] == "" {
		return nil
	}
	r, _ := b.store.Named(b.names[output]) // nil if gc removed it
	return r
}

// Covered returns what the fingerprints of the plan's tools cover: the files of each tool, and the
// paths that make kbuild query the tools again when they change.
func (p *Project) Covered(ctx context.Context) (files map[string][]string, queried []string) {
	byID, queried := probe.Covered(ctx, p.request)
	files = map[string][]string{}
	for name, tool := range p.Tools() {
		files[name] = byID[tool.ID]
	}
	return files, queried
}
