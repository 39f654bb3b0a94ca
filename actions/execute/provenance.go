package execute

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// The manifest of a module has one digest of everything that its artifacts are built from. An edit
// of a comment changes that digest but no artifact. So the key of the manifest covers more than its
// inputs: the sources, headers, tools and options of all actions behind them. They come from the
// records by which those actions were up to date in this run.
//
// The digest does not depend on the paths of the project, its build tree and the toolkit. A file of
// the project counts by its name and content. A file from outside counts by its content alone, and
// a tool by its fingerprint.

// provenance computes what the artifacts of manifests are built from.
type provenance struct {
	*buildTree
	discovery *discover.Discovery

	once    sync.Once
	wanted  map[graph.ActionID]bool // actions behind a manifest
	records sync.Map                // of *cache.Record, by graph.ActionID
}

// use stores the record by which a is up to date, if a manifest depends on a.
func (p *provenance) use(a *graph.Action, rec *cache.Record) {
	p.once.Do(func() {
		var manifests []graph.ActionID
		for _, b := range p.Graph.Actions {
			if b.Work.Manifest != nil {
				manifests = append(manifests, b.ID)
			}
		}
		p.wanted = map[graph.ActionID]bool{}
		for _, id := range p.Graph.Closure(manifests) {
			p.wanted[id] = true
		}
	})
	if p.wanted[a.ID] {
		p.records.Store(a.ID, rec)
	}
}

// of returns a digest of everything that the artifacts of a manifest are built from.
func (p *provenance) of(a *graph.Action) (string, error) {
	fields, seen := map[cache.Field]bool{}, map[graph.ActionID]bool{}
	add := func(name, value string) { fields[cache.Field{Name: name, Value: value}] = true }
	for _, e := range p.KeyEnv {
		add("env", p.placeless(e))
	}
	todo := slices.Clone(a.Inputs)
	for at := 0; at < len(todo); at++ {
		file := todo[at]
		b := p.Maker(file)
		// what a source is built from, or the output of a user's command, is its content
		if b == nil || b.Kind.Info().Generates {
			d, err := p.Digest(file)
			if err != nil {
				return "", fmt.Errorf("reading %s: %w", file, err)
			}
			add(p.contentName(file), d.String())
			continue
		}
		if seen[b.ID] {
			continue
		}
		seen[b.ID] = true
		todo = append(append(todo, b.Reads()...), p.discovery.Named(b)...)
		rec, ok := p.records.Load(b.ID)
		if !ok {
			return "", fmt.Errorf("BUG: %s has no record before the manifest that depends on it",
				b.Name)
		}
		_, skipped := discover.EqualHeaders(rec.(*cache.Record))
		for _, f := range rec.(*cache.Record).Discovered {
			if !discover.IsCondition(f.Path) && !slices.Contains(skipped, f.Path) {
				add(p.contentName(f.Path), f.Digest.String())
			}
		}
		for _, t := range b.Tools {
			add("tool "+t, p.Tools[t])
		}
		for _, e := range b.Env {
			add("env", p.placeless(e))
		}
		// of nvcc: the same whether split or not; of a copy: the command that would build it alone
		argv := b.Driver().Argv
		if argv == nil && b.Kind.InProcess() {
			continue
		}
		if argv == nil {
			argv = b.Argv
		}
		spelled := []string{path.Base(argv[0])}
		for _, arg := range argv[1:] {
			spelled = append(spelled, p.placeless(arg))
		}
		add("command", strings.Join(spelled, "\n"))
	}
	sorted := slices.SortedFunc(maps.Keys(fields), func(a, b cache.Field) int {
		return strings.Compare(a.Name+"\x00"+a.Value, b.Name+"\x00"+b.Value)
	})
	return cache.KeyOf(sorted).String(), nil
}

// contentName returns the name of the field with the content of a file.
func (p *provenance) contentName(file string) string {
	if filepath.IsAbs(file) && !strings.HasPrefix(file, p.Graph.BuildDir+"/") {
		return "file"
	}
	return "file " + p.placeless(file)
}

// absolutePath matches an absolute path in an argument: alone, after a one-letter option, or behind
// =, a comma or a colon.
var absolutePath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|^-[A-Za-z]|[=,:])/[^=,:]*`)
})

// placeless spells an argument or a file independently of the project's folder.
func (p *provenance) placeless(arg string) string {
	arg = strings.ReplaceAll(arg, p.Graph.BuildDir+"/", "<build>/")
	arg = strings.ReplaceAll(arg, p.Root+"/", "")
	return absolutePath().ReplaceAllString(arg, "${1}/")
}
