package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Method stands in the keys of what kbuild makes itself: joined and sliced objects, canonical
// texts, manifests of modules. Raise it when one of them comes out differently.
const Method = "4"

// keys computes the command keys of actions.
type keys struct {
	makers
	root        string
	tools       map[string]string
	env, keyEnv []string
	gpuEnv      []string // of tests that need a GPU
	digest      func(file string) (cache.Digest, error)
	named       func(a *graph.Action) []string           // the files that arguments name
	loaded      func(a *graph.Action) []string           // the shared libraries that kbuild leads a test to
	undeclared  func(a *graph.Action, file string) error // of a file that no action may read
	steps       map[graph.Kind]step
}

// actionKey is the key of an action, with what it was made of besides the action. Very many wait at
// once for their commands to run, so the texts are made when they are asked for: keys.fields.
type actionKey struct {
	key      cache.Key
	inputs   []cache.FileDigest // declared, then named by arguments, then shared libraries that kbuild leads a test to
	loaded   int                // how many these are
	implicit []cache.Field
}

// of computes the key of a.
func (k *keys) of(a *graph.Action) (key actionKey, err error) {
	named := k.named(a)
	key.inputs = make([]cache.FileDigest, 0, len(a.Inputs)+len(named))
	for _, in := range a.Inputs {
		if err := k.input(&key, a, in); err != nil {
			return key, err
		}
	}
	for _, f := range named {
		if err := k.undeclared(a, f); err != nil && !a.Kind.Info().Project {
			return key, err
		}
		if err := k.input(&key, a, f); err != nil {
			return key, err
		}
	}
	for _, f := range k.loaded(a) {
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

// fields are the texts that the key of a was made of.
func (k *keys) fields(a *graph.Action, key actionKey) []cache.Field {
	text := &cache.Text{}
	k.write(text, a, key)
	return text.Fields
}

// input digests an input.
func (k *keys) input(key *actionKey, a *graph.Action, in string) error {
	d, err := k.digest(in)
	key.inputs = append(key.inputs, cache.FileDigest{Path: in, Digest: d})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; %s needs it", in, a.Target)
	}
	if err != nil {
		return fmt.Errorf("reading %s for %s: %w", in, a.Target, err)
	}
	return nil
}

// implicit is what an action depends on and does not name: the content of the command that a
// generate block runs, what the artifacts in a manifest are made from.
func (k *keys) implicit(a *graph.Action) ([]cache.Field, error) {
	if s := k.steps[a.Kind]; s != nil {
		return s.implicit(a)
	}
	if a.Kind != graph.Generate || len(a.Argv) == 0 {
		return nil, nil
	}
	file, err := run.LookPath(a.Argv[0], k.root, k.env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Target, err)
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	d, err := k.digest(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return []cache.Field{{Name: "program", Value: d.String()}}, nil
}

// write is the one traversal that makes both the key and its explanation.
func (k *keys) write(w cache.KeyWriter, a *graph.Action, key actionKey) {
	w.Field("kind", string(a.Kind))
	for _, t := range a.Tools {
		w.Field("tool "+t, k.tools[t])
	}
	for _, f := range key.implicit {
		w.Field(f.Name, f.Value)
	}
	if s := k.steps[a.Kind]; s != nil {
		s.keyFields(w, a)
	} else if len(a.Step().CanonicalForms) > 0 || a.Link().HostRefs != "" {
		w.Field("method", Method)
	}
	if a.Kind == graph.NVLink || a.Kind == graph.LLD || a.Kind == graph.DeviceLink {
		w.Field("libraries", "recorded") // records of a kbuild before do not say what -l meant
	}
	k.writeCommand(w, a)
	a.Work.Manifest.WriteKey(w)
	a.Work.Step.WriteKey(w)
	if len(a.Tools) > 0 || a.Kind.Info().Project {
		for _, e := range k.keyEnv {
			w.Field("env", e)
		}
	}
	if a.Test().GPU {
		for _, e := range k.gpuEnv {
			w.Field("env", e)
		}
	}
	for _, e := range a.Env {
		w.Field("env", e)
	}
	if a.CwdInKey {
		w.Field("folder", k.root)
	}
	if a.Step().StageInKey {
		w.Field("stage", k.graph.BuildDir+"/"+flatName(k.graph.BuildDir, a.Outputs[0])) // as scratches name it
	}
	a.Work.Driver.WriteKey(w)
	a.Work.Link.WriteKey(w)
	a.Work.Test.WriteKey(w)
	a.Work.Collect.WriteKey(w)
	libraries := len(key.inputs) - key.loaded
	for _, in := range key.inputs[libraries:] {
		w.Field("library "+path.Base(in.Path), in.Digest.String()) // a toolkit may be elsewhere on another machine
	}
	for _, in := range key.inputs[:libraries] {
		name := in.Path
		if k.isIntermediate(name) {
			name = keyName(name)
		}
		w.Field("input "+name, in.Digest.String())
	}
}

// writeCommand writes the arguments and what the command makes.
func (k *keys) writeCommand(w cache.KeyWriter, a *graph.Action) {
	spell := k.spelling(a)
	for i, arg := range a.Argv {
		if i == 0 && len(a.Tools) > 0 {
			arg = filepath.Base(arg) // its identity is its content
		}
		for _, m := range a.Step().Macros {
			if strings.HasPrefix(arg, "-D"+m+"=") {
				arg = "-D" + m + "=" // the record has the value, if it matters
			}
		}
		w.Field("arg", spell(arg))
	}
	for _, o := range a.Outputs {
		w.Field("output", spell(o))
	}
	if a.Kind == graph.Generate && a.Depfile != "" { // which the command need not name
		w.Field("depfile", a.Depfile)
	}
}

// spelling replaces the names of a part's files by what they are to it, so that equal parts of
// different targets and build trees have one key.
func (k *keys) spelling(a *graph.Action) func(string) string {
	if !sharesRecords(a) {
		return func(s string) string { return s }
	}
	var pairs [][2]string
	if a.Depfile != "" {
		pairs = append(pairs, [2]string{a.Depfile, "<dep>"})
	}
	for i, o := range a.Outputs {
		name := fmt.Sprintf("<out %d>", i)
		if !a.Intermediate {
			name = "<build>" + strings.TrimPrefix(o, k.graph.BuildDir)
		}
		pairs = append(pairs, [2]string{o, name})
	}
	for i, in := range a.Reads() {
		if k.isIntermediate(in) {
			pairs = append(pairs, [2]string{in, fmt.Sprintf("<in %d>", i)})
		}
	}
	return replacer(pairs).Replace
}

// keyName is what a part's file is to its reader: "stub.canon.c" for compute_80.stub.canon.c. Which
// architecture it is of does not matter to the one that reads the host code of some architecture.
func keyName(file string) string {
	base := path.Base(file)
	if arch, rest, ok := strings.Cut(base, "."); ok && (strings.HasPrefix(arch, "compute_") || strings.HasPrefix(arch, "sm_")) {
		return rest
	}
	return base
}

// replacer prefers longer names: x/fatbin.c is not x/fatbin and ".c".
func replacer(pairs [][2]string) *strings.Replacer {
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p[0], p[1])
	}
	return strings.NewReplacer(flat...)
}
