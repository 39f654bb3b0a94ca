package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
	"github.com/kbuild-dev/kbuild/actions/run"
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
	for _, f := range k.discovery.Loaded(a) {
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
