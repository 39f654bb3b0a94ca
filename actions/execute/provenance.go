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
	o := origins{provenance: p, seen: map[graph.ActionID]bool{}, fields: map[cache.Field]bool{}}
	for _, in := range a.Inputs {
		if err := o.file(in); err != nil {
			return "", err
		}
	}
	for _, e := range p.KeyEnv {
		o.add("env", p.placeless(e))
	}
	fields := slices.SortedFunc(maps.Keys(o.fields), func(a, b cache.Field) int {
		return strings.Compare(a.Name+"\x00"+a.Value, b.Name+"\x00"+b.Value)
	})
	return cache.KeyOf(fields).String(), nil
}

// origins collects the facts that files depend on, each once.
type origins struct {
	*provenance
	seen   map[graph.ActionID]bool
	fields map[cache.Field]bool
}

func (o *origins) add(name, value string) { o.fields[cache.Field{Name: name, Value: value}] = true }

// file adds what a file is built from. For a source, or the output of a user's command, that is its
// content.
func (o *origins) file(name string) error {
	if a := o.Maker(name); a != nil && !a.Kind.Info().Generates {
		return o.action(a)
	}
	d, err := o.Digest(name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	o.content(name, d)
	return nil
}

func (o *origins) content(name string, d cache.Digest) {
	if filepath.IsAbs(name) && !strings.HasPrefix(name, o.Graph.BuildDir+"/") {
		o.add("file", d.String())
	} else {
		o.add("file "+o.placeless(name), d.String())
	}
}

// action adds what an action reads, and its tools and arguments.
func (o *origins) action(a *graph.Action) error {
	if o.seen[a.ID] {
		return nil
	}
	o.seen[a.ID] = true
	for _, in := range slices.Concat(a.Reads(), o.discovery.Named(a)) {
		if err := o.file(in); err != nil {
			return err
		}
	}
	rec, ok := o.records.Load(a.ID)
	if !ok {
		return fmt.Errorf("BUG: %s has no record before the manifest that depends on it", a.Name)
	}
	for _, f := range rec.(*cache.Record).Discovered {
		if !discover.IsCondition(f.Path) {
			o.content(f.Path, f.Digest)
		}
	}
	for _, t := range a.Tools {
		o.add("tool "+t, o.Tools[t])
	}
	for _, e := range a.Env {
		o.add("env", o.placeless(e))
	}
	// of nvcc: the same whether split or not; of a copy: the command that would build it alone
	argv := a.Driver().Argv
	if argv == nil && a.Kind.InProcess() {
		return nil
	}
	if argv == nil {
		argv = a.Argv
	}
	spelled := []string{path.Base(argv[0])}
	for _, arg := range argv[1:] {
		spelled = append(spelled, o.placeless(arg))
	}
	o.add("command", strings.Join(spelled, "\n"))
	return nil
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
