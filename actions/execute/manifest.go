package execute

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// The manifest of a module tells what its artifacts are made from, in one digest. An edit of a comment changes that and no artifact,
// so the key of the manifest covers more than its inputs: the sources and headers, tools and options of all actions behind them, as
// the records have them by which those actions were settled in this run.
//
// The digest does not depend on where the project, its build tree and the toolkit stand: a file of the project counts by its name and
// content, one from elsewhere by its content alone, a tool by its identity.

// noted remembers the records of actions that a manifest tells of.
type noted struct {
	once    sync.Once
	wanted  map[graph.ActionID]bool
	records sync.Map // of *cache.Record, by graph.ActionID
}

// note remembers by which record a was settled.
func (r *Runner) note(a *graph.Action, rec *cache.Record) {
	r.noted.once.Do(func() {
		var manifests []graph.ActionID
		for _, b := range r.Graph.Actions {
			if b.Kind == graph.Manifest {
				manifests = append(manifests, b.ID)
			}
		}
		r.noted.wanted = map[graph.ActionID]bool{}
		for _, id := range r.Graph.Closure(manifests) {
			r.noted.wanted[id] = true
		}
	})
	if r.noted.wanted[a.ID] {
		r.noted.records.Store(a.ID, rec)
	}
}

// madeFrom is the digest over all that the artifacts of a manifest are made from.
func (r *Runner) madeFrom(a *graph.Action) (string, error) {
	o := origin{r: r, seen: map[graph.ActionID]bool{}, fields: map[cache.Field]bool{}}
	for _, in := range a.Inputs {
		if err := o.file(in); err != nil {
			return "", err
		}
	}
	for _, e := range r.KeyEnv {
		o.add("env", r.placeless(e))
	}
	fields := slices.SortedFunc(maps.Keys(o.fields), func(a, b cache.Field) int {
		return strings.Compare(a.Name+"\x00"+a.Value, b.Name+"\x00"+b.Value)
	})
	return cache.KeyOf(fields).String(), nil
}

// origin collects what files are made from, each fact once.
type origin struct {
	r      *Runner
	seen   map[graph.ActionID]bool
	fields map[cache.Field]bool
}

func (o *origin) add(name, value string) { o.fields[cache.Field{Name: name, Value: value}] = true }

// file takes a file: what it is made from, or its content if it is a source, or written by a command of the user.
func (o *origin) file(name string) error {
	if a := o.r.maker(name); a != nil && a.Kind != graph.Generate {
		return o.action(a)
	}
	d, err := o.r.digest(name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	o.content(name, d)
	return nil
}

func (o *origin) content(name string, d cache.Digest) {
	if filepath.IsAbs(name) && !strings.HasPrefix(name, o.r.Graph.BuildDir+"/") {
		o.add("file", d.String())
	} else {
		o.add("file "+o.r.placeless(name), d.String())
	}
}

// action takes what an action reads, and what it is told.
func (o *origin) action(a *graph.Action) error {
	if o.seen[a.ID] {
		return nil
	}
	o.seen[a.ID] = true
	for _, list := range [3][]string{a.Inputs, a.Step().DiagnosticInputs, o.r.discovery.Named(a)} {
		for _, in := range list {
			if err := o.file(in); err != nil {
				return err
			}
		}
	}
	rec, ok := o.r.noted.records.Load(a.ID)
	if !ok {
		return fmt.Errorf("BUG: %s was not settled before the manifest that tells of it", a.Name)
	}
	for _, f := range rec.(*cache.Record).Discovered {
		if !discover.IsCondition(f.Path) {
			o.content(f.Path, f.Digest)
		}
	}
	for _, t := range a.Tools {
		o.add("tool "+t, o.r.Tools[t])
	}
	for _, e := range a.Env {
		o.add("env", o.r.placeless(e))
	}
	argv := a.Driver().Argv // of nvcc: the same whether it is taken apart or not
	if argv == nil {
		argv = a.Argv
	}
	if !a.Kind.InProcess() || a.Driver().Argv != nil { // of a copy: the command that would make it alone
		o.command(argv)
	}
	return nil
}

func (o *origin) command(argv []string) {
	spelled := []string{path.Base(argv[0])}
	for _, arg := range argv[1:] {
		spelled = append(spelled, o.r.placeless(arg))
	}
	o.add("command", strings.Join(spelled, "\n"))
}

// absolutePath finds one in an argument: alone, after a one-letter option, or behind =, a comma or a colon.
var absolutePath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|^-[A-Za-z]|[=,:])/[^=,:]*`) })

// placeless spells an argument or a file as it would be anywhere.
func (r *Runner) placeless(arg string) string {
	arg = strings.ReplaceAll(arg, r.Graph.BuildDir+"/", "<build>/")
	arg = strings.ReplaceAll(arg, r.Root+"/", "")
	return absolutePath().ReplaceAllString(arg, "${1}/")
}

// manifest writes what the artifacts of a module are.
func (r *Runner) manifest(a *graph.Action, name string) error {
	var m modinfo.Manifest
	if err := json.Unmarshal([]byte(*a.Work.Manifest), &m); err != nil {
		return fmt.Errorf("BUG: the manifest of %s: %w", a.Target, err)
	}
	var err error
	if m.InputDigest, err = r.madeFrom(a); err != nil {
		return err
	}
	m.Kbuild = cache.KeyVersion
	symbols, dir := a.Argv[1:], path.Dir(a.Outputs[0])
	for i := range m.Artifacts {
		art := &m.Artifacts[i]
		err := r.describe(art, dir)
		if err == nil && art.Kind == "ltoir" {
			art.LTOSymbols, err = r.ltoSymbols(symbols[0])
			symbols = symbols[1:]
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(dir, art.File), err)
		}
	}
	m.Complete()
	return os.WriteFile(name, m.Encode(), 0o666)
}

// describe fills in what the artifact's file tells.
func (r *Runner) describe(art *modinfo.Artifact, dir string) error {
	file, err := regular.Read(r.abs(path.Join(dir, art.File)))
	if err != nil {
		return err
	}
	found, err := modules.Describe(file)
	if err != nil {
		return err
	}
	if found.Kind != art.Kind || !modules.SameArch(art.Kind, art.Arch, found.Arch) {
		return fmt.Errorf("it should be %s %s, and is %s %s", art.Kind, art.Arch, found.Kind, found.Arch)
	}
	found.File, found.Arch = art.File, art.Arch
	*art = found
	return nil
}

// ltoSymbols reads them off the PTX that was made beside the LTO-IR.
func (r *Runner) ltoSymbols(name string) (*modinfo.LTOSymbols, error) {
	text, err := regular.Read(r.abs(name))
	if err != nil {
		return nil, err
	}
	return modules.LTOSymbols(text)
}
