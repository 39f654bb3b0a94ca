package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// keys computes the command keys of actions.
type keys struct {
	*buildTree
	discovery  *discover.Discovery
	generated  *generatedFiles
	provenance *provenance
}

// actionKey is the key of an action, with the facts it covers besides the action itself. Very many
// actions wait for their commands at the same time. So the key's texts are built on demand: see
// keys.fields.
type actionKey struct {
	key cache.Key
	// declared, then named by arguments, then shared libraries of a test
	inputs   []cache.FileDigest
	loaded   int // how many of inputs are shared libraries of a test
	implicit []cache.Field
}

// of computes the key of a.
func (k *keys) of(a *graph.Action) (key actionKey, err error) {
	named := k.discovery.Named(a)
	key.inputs = make([]cache.FileDigest, 0, len(a.Inputs)+len(named))
	for _, in := range a.Inputs {
		if err := k.input(&key, a, in); err != nil {
			return key, err
		}
	}
	for _, f := range named {
		err := k.generated.undeclaredFile(a, k.discovery.Name(f))
		if err != nil && !a.Kind.Info().Project {
			return key, err
		}
		if err := k.input(&key, a, f); err != nil {
			return key, err
		}
	}
	libraries, _ := k.discovery.Loaded(a)
	for _, f := range libraries {
		if err := k.input(&key, a, f); err != nil {
			return key, err
		}
		key.loaded++
	}
	if key.implicit, err = k.implicit(a); err != nil {
		return key, err
	}
	h := cache.NewHasher()
	k.write(h, a, key)
	key.key = h.Sum()
	return key, nil
}

// fields returns the texts that the key of a covers.
func (k *keys) fields(a *graph.Action, key actionKey) []cache.Field {
	text := &cache.Text{}
	k.write(text, a, key)
	return text.Fields
}

// input digests the file in and appends it to the inputs of key.
func (k *keys) input(key *actionKey, a *graph.Action, in string) error {
	d, err := k.Digest(in)
	key.inputs = append(key.inputs, cache.FileDigest{Path: in, Digest: d})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; %s needs it", in, a.Target)
	}
	if err != nil {
		return fmt.Errorf("reading %s for %s: %w", in, a.Target, err)
	}
	return nil
}

// implicit returns what an action depends on and does not name. For a generate block it is the
// content of the program that the block runs. For a manifest it is what the artifacts are built
// from.
func (k *keys) implicit(a *graph.Action) ([]cache.Field, error) {
	if a.Work.Manifest != nil {
		d, err := k.provenance.of(a)
		return []cache.Field{{Name: "made from", Value: d}}, err
	}
	if !a.Kind.Info().Generates || len(a.Argv) == 0 {
		return nil, nil
	}
	file, err := run.LookPath(a.Argv[0], k.Root, k.Env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Target, err)
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	d, err := k.Digest(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return []cache.Field{{Name: "program", Value: d.String()}}, nil
}

// write writes the fields of a key. Both the key and its explanation come from this one traversal.
func (k *keys) write(w cache.KeyWriter, a *graph.Action, key actionKey) {
	w.Field("kind", string(a.Kind))
	for _, t := range a.Tools {
		w.Field("tool "+t, k.Tools[t])
	}
	for _, f := range key.implicit {
		w.Field(f.Name, f.Value)
	}
	if a.Kind.InProcess() {
		inprocess.WriteKey(w, a)
	} else if len(a.Pass().CanonicalForms) > 0 || a.Link().HostRefs != "" {
		w.Field("method", inprocess.Method)
	}
	if a.Kind.Info().LinksDevice() {
		w.Field("libraries", "recorded") // records of older versions of kbuild do not resolve -l
	}
	k.writeCommand(w, a)
	if head := a.Work.Manifest; head != nil {
		w.Field("head", string(*head))
	}
	for _, f := range a.Pass().Staged {
		w.Field("staged "+f.Name, f.Text) // those that are other files are inputs
	}
	if a.Pass().FilesOutput != "" {
		w.Field("files", map[bool]string{false: "all", true: "without system"}[a.Pass().WithoutSystem])
	}
	if len(a.Tools) > 0 || a.Kind.Info().Project {
		for _, e := range k.KeyEnv {
			w.Field("env", e)
		}
	}
	if a.Test().GPU {
		for _, e := range k.GPUEnv {
			w.Field("env", e)
		}
	}
	for _, e := range a.Env {
		w.Field("env", e)
	}
	if a.CwdInKey {
		w.Field("folder", k.Root)
	}
	if a.Pass().StageInKey {
		// the name that scratches uses
		w.Field("stage", k.Graph.BuildDir+"/"+flatName(k.Graph.BuildDir, a.Outputs[0]))
	}
	if ships := a.Driver().Ships; ships != nil { // earlier versions of kbuild did not check them
		w.Field("ships", strings.Join(ships, " "))
	}
	if l := a.Work.Link; l != nil { // messages may name these without an error
		w.Field("not LTO", strings.Join(l.NonLTO, "\n"))
	}
	if limit := a.Test().Timeout; limit > 0 { // a test that exceeds it fails
		w.Field("timeout", limit.String())
	}
	if c := a.Work.Collect; c != nil {
		w.Field("folder", c.Dir)
		w.Field("patterns", strings.Join(c.Patterns, "\n"))
	}
	libraries := len(key.inputs) - key.loaded
	for _, in := range key.inputs[libraries:] {
		// the toolkit's folder differs between machines
		w.Field("library "+path.Base(in.Path), in.Digest.String())
	}
	for _, in := range key.inputs[:libraries] {
		name := in.Path
		if k.IsIntermediate(name) {
			name = keyName(name)
		}
		w.Field("input "+name, in.Digest.String())
	}
}

// writeCommand writes the arguments and the outputs of the command.
func (k *keys) writeCommand(w cache.KeyWriter, a *graph.Action) {
	roles := k.roles(a)
	for i, arg := range a.Argv {
		if i == 0 && len(a.Tools) > 0 {
			arg = filepath.Base(arg) // the tool's fingerprint covers its content
		}
		for _, m := range a.Pass().Macros {
			if strings.HasPrefix(arg, "-D"+m+"=") {
				arg = "-D" + m + "=" // the record has the value, if it matters
			}
		}
		w.Field("arg", roles.Replace(arg))
	}
	for _, o := range a.Outputs {
		w.Field("output", roles.Replace(o))
	}
	if a.Kind.Info().Project && a.Depfile != "" { // its command need not name it
		w.Field("depfile", a.Depfile)
	}
}

// roles returns a replacer for the names of a part's files by their roles, such as "<in 0>". Equal
// parts of different targets and build trees then have the same key.
func (k *keys) roles(a *graph.Action) *strings.Replacer {
	var pairs [][2]string
	if !sharesRecords(a) {
		return replacer(pairs)
	}
	if a.Depfile != "" {
		pairs = append(pairs, [2]string{a.Depfile, "<dep>"})
	}
	for i, o := range a.Outputs {
		name := fmt.Sprintf("<out %d>", i)
		if !a.Intermediate {
			name = "<build>" + strings.TrimPrefix(o, k.Graph.BuildDir)
		}
		pairs = append(pairs, [2]string{o, name})
	}
	for i, in := range a.Reads() {
		if k.IsIntermediate(in) {
			pairs = append(pairs, [2]string{in, fmt.Sprintf("<in %d>", i)})
		}
	}
	return replacer(pairs)
}

// keyName returns the role of a part's file for its reader: "stub.canon.c" for
// compute_80.stub.canon.c. A reader that takes the host code of any architecture does not depend on
// which one it is.
func keyName(file string) string {
	base := path.Base(file)
	arch, rest, ok := strings.Cut(base, ".")
	if ok && (strings.HasPrefix(arch, "compute_") || strings.HasPrefix(arch, "sm_")) {
		return rest
	}
	return base
}

// replacer builds a Replacer that prefers longer names: x/fatbin.c is not x/fatbin and ".c".
func replacer(pairs [][2]string) *strings.Replacer {
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p[0], p[1])
	}
	return strings.NewReplacer(flat...)
}

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

// reason returns one line that explains why an action must run.
func (k *keys) reason(a *graph.Action, key actionKey) string {
	diffs := k.differences(a, key)
	if len(diffs) == 0 {
		return "no record of it"
	}
	if len(diffs) > 1 {
		return fmt.Sprintf("%s (and %d more)", diffs[0], len(diffs)-1)
	}
	return diffs[0]
}

// differences lists, field by field, what differs from the last run of a in this build tree.
func (k *keys) differences(a *graph.Action, key actionKey) []string {
	last := k.Records.Last(a.Outputs[0])
	if last == nil {
		return []string{sched.NoRecord}
	}
	out := k.unlike(last, a, key)
	if a.Test().Each {
		out = append(out, "it has cache = false")
	}
	for _, o := range last.Outputs {
		if a.Intermediate {
			break
		}
		if _, err := os.Lstat(k.abs(o.Path)); err != nil {
			out = append(out, "output "+o.Path+" is missing, and the cache does not hold it")
		} else if !k.has(o) {
			out = append(out, "output "+o.Path+" was changed by someone else")
		}
	}
	return out
}

// unlike lists what changed since a record was made.
func (k *keys) unlike(rec *cache.Record, a *graph.Action, key actionKey) []string {
	return slices.AppendSeq(diffFields(rec.Fields, k.fields(a, key)), k.discovery.Changes(a, rec))
}

// diffFields compares the texts of two keys. Arguments are compared as lists.
func diffFields(old, now []cache.Field) (out []string) {
	was, is := byName(old), byName(now)
	out = diffLists("argument", was["arg"], is["arg"])
	listed := map[string]bool{"arg": true}
	for _, f := range slices.Concat(now, old) {
		before, had := was[f.Name]
		after, has := is[f.Name]
		old, now := strings.Join(before, " "), strings.Join(after, " ")
		switch {
		case listed[f.Name]:
		case !had:
			out = append(out, "new: "+describe(f.Name, now))
		case !has:
			out = append(out, "no longer: "+describe(f.Name, old))
		case old != now:
			out = append(out, change(f.Name, old, now))
		}
		listed[f.Name] = true
	}
	return out
}

func byName(fields []cache.Field) map[string][]string {
	values := map[string][]string{}
	for _, f := range fields {
		values[f.Name] = append(values[f.Name], f.Value)
	}
	return values
}

// digests lists the kinds of fields whose value is a digest, with what a change of one means. The %
// stands for the rest of the field's name.
var digests = map[string]string{
	"input":   "% changed",
	"library": "the shared library % changed",
	"tool":    "the tools of % changed",
	"program": "the program it runs changed",
	"made":    "a source, header, tool or option behind the artifacts changed",
}

func describe(name, value string) string {
	if kind, _, _ := strings.Cut(name, " "); digests[kind] != "" {
		return name
	}
	return name + " " + value
}

func change(name, was, is string) string {
	if kind, of, _ := strings.Cut(name, " "); digests[kind] != "" {
		return strings.ReplaceAll(digests[kind], "%", of)
	}
	return fmt.Sprintf("%s was %q, is %q", name, was, is)
}

// diffLists names what was added to and removed from a list, or that its order changed.
func diffLists(what string, old, now []string) []string {
	count := map[string]int{}
	for _, s := range old {
		count[s]--
	}
	for _, s := range now {
		count[s]++
	}
	var out []string
	for _, s := range now {
		if count[s] > 0 {
			out = append(out, fmt.Sprintf("%s added: %s", what, s))
			count[s]--
		}
	}
	for _, s := range old {
		if count[s] < 0 {
			out = append(out, fmt.Sprintf("%s removed: %s", what, s))
			count[s]++
		}
	}
	if out == nil && strings.Join(old, "\x00") != strings.Join(now, "\x00") {
		out = append(out, what+"s in another order")
	}
	return out
}
