package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/pptext"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Parts are the steps inside an nvcc command. A build tree holds none of their outputs: a record of what a part
// made is enough to decide what comes after it, so a part that is up to date costs no file at all. What must
// run gets the files that it reads from the cache, and those that no cache keeps (preprocessed text is large and
// quickly made) by running their part again. A file goes when the last action that may read it has ended.

// parts is what a run knows of them.
type parts struct {
	mu      sync.Mutex
	outputs map[string]cache.Output // of the parts that have been settled or run, by path
	present map[string]bool         // files that stand in the build tree now
	users   map[string]int          // actions that may still read a file
	making  map[graph.ActionID]*sync.Mutex
}

// outputsOf are the outputs of rec under the names that a gives them. Two parts with one key share a record,
// whatever their files are called. nil if they do not fit.
func outputsOf(a *graph.Action, rec *cache.Record) []cache.Output {
	if len(rec.Outputs) != len(a.Outputs) {
		return nil
	}
	if !a.Part {
		return rec.Outputs
	}
	out := slices.Clone(rec.Outputs)
	for i := range out {
		out[i].Path = a.Outputs[i]
	}
	return out
}

// know notes what a part makes.
func (r *Runner) know(outputs []cache.Output) {
	r.parts.mu.Lock()
	defer r.parts.mu.Unlock()
	if r.parts.outputs == nil {
		r.parts.outputs = map[string]cache.Output{}
		r.parts.present = map[string]bool{}
	}
	for _, o := range outputs {
		r.parts.outputs[o.Path] = o
	}
}

// partDigest is the content of a part's output.
func (r *Runner) partDigest(path string) (cache.Digest, bool) {
	r.parts.mu.Lock()
	defer r.parts.mu.Unlock()
	o, ok := r.parts.outputs[path]
	return o.Digest, ok
}

// done notes that a reads nothing any more.
func (r *Runner) done(a *graph.Action) {
	r.parts.mu.Lock()
	defer r.parts.mu.Unlock()
	if r.parts.users == nil {
		r.parts.users = map[string]int{}
		for _, b := range r.Graph.Actions {
			for _, list := range [2][]string{b.Inputs, b.Weak} {
				for _, in := range list {
					if r.isPart(in) {
						r.parts.users[in]++
					}
				}
			}
		}
	}
	for _, list := range [2][]string{a.Inputs, a.Weak} {
		for _, in := range list {
			if n, ok := r.parts.users[in]; ok {
				r.parts.users[in] = n - 1
				if n == 1 && r.parts.present[in] {
					os.Remove(r.abs(in))
					delete(r.parts.present, in)
				}
			}
		}
	}
}

func (r *Runner) isPart(path string) bool {
	id, made := r.Graph.Producer(path)
	return made && r.Graph.Actions[id].Part
}

// bring puts the parts' files that a command reads into the build tree.
func (r *Runner) bring(ctx context.Context, a *graph.Action, argv []string) error {
	for _, list := range [2][]string{a.Inputs, a.Weak} {
		for _, in := range list {
			if r.isPart(in) && reads(a, argv, in) {
				if err := r.put(ctx, in); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// reads reports whether a file is named by the command, or is for what kbuild does itself.
func reads(a *graph.Action, argv []string, file string) bool {
	if len(argv) == 0 {
		return true
	}
	for _, s := range a.Stage {
		if s.From == file {
			return true
		}
	}
	return slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, file) })
}

// put brings one file: from the cache, or by running its part again.
func (r *Runner) put(ctx context.Context, file string) error {
	id, _ := r.Graph.Producer(file)
	a := r.Graph.Actions[id]
	r.parts.mu.Lock()
	if r.parts.making == nil {
		r.parts.making = map[graph.ActionID]*sync.Mutex{}
	}
	lock := r.parts.making[id]
	if lock == nil {
		lock = new(sync.Mutex)
		r.parts.making[id] = lock
	}
	r.parts.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()
	r.parts.mu.Lock()
	here, o := r.parts.present[file], r.parts.outputs[file]
	r.parts.mu.Unlock()
	if here {
		return nil
	}
	if !o.Unkept && r.Keep != nil && r.fetch(ctx, o) == nil {
		return nil
	}
	return r.remake(ctx, a)
}

// fetch restores a file of a part.
func (r *Runner) fetch(ctx context.Context, o cache.Output) error {
	name := r.abs(o.Path)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	if err := r.Keep.Restore(ctx, o, name); err != nil {
		return err
	}
	r.parts.mu.Lock()
	r.parts.present[o.Path] = true
	r.parts.mu.Unlock()
	return nil
}

// remake runs a part again for its files.
func (r *Runner) remake(ctx context.Context, a *graph.Action) error {
	p, err := r.key(a)
	if err != nil {
		return err
	}
	res := r.execute(ctx, a, p)
	if res.Status == sched.Failed {
		return fmt.Errorf("making %s again (%s): %w\n%s", a.Outputs[0], strings.Join(a.Argv, " "), res.Err, res.Output)
	}
	return nil
}

// keepPart moves the outputs of a part to where they are read, records them and stores what is worth it.
func (r *Runner) keepPart(ctx context.Context, a *graph.Action, rec *cache.Record, res sched.Result, dir string, stable bool) sched.Result {
	for i := range rec.Outputs {
		o := &rec.Outputs[i]
		o.Unkept = a.Transient || r.Keep == nil
		name := r.abs(o.Path)
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		if err == nil {
			err = os.Rename(tempName(dir, i, o.Path), name)
		}
		if err != nil {
			res.Status, res.Err = sched.Failed, fmt.Errorf("moving %s into place: %w", o.Path, err)
			return res
		}
	}
	r.know(rec.Outputs)
	r.parts.mu.Lock()
	for _, o := range rec.Outputs {
		r.parts.present[o.Path] = true
	}
	r.parts.mu.Unlock()
	if !stable {
		r.Journal.Remove(a.Outputs[0])
		return res
	}
	if err := r.Journal.Append(rec); err != nil {
		res.Status, res.Err = sched.Failed, fmt.Errorf("writing the build journal: %w", err)
		return res
	}
	if r.Keep != nil && !r.tellsTime(a, rec.Discovered) {
		if err := r.Keep.Put(ctx, rec, func(o cache.Output) string { return r.abs(o.Path) }); err != nil && ctx.Err() == nil {
			r.warn(fmt.Sprintf("the cache cannot be written, building goes on without: %v", err))
		}
	}
	return res
}

// stage writes the files that a command finds in its own folder.
func (r *Runner) stage(a *graph.Action, dir string) error {
	if len(a.Stage) == 0 {
		return nil
	}
	in := filepath.Join(dir, "in")
	if err := os.MkdirAll(in, 0o777); err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	for _, s := range a.Stage {
		var err error
		if name := filepath.Join(in, s.Name); s.From != "" {
			err = os.Link(r.abs(s.From), name)
		} else {
			err = os.WriteFile(name, []byte(s.Text), 0o666)
		}
		if err != nil {
			return fmt.Errorf("preparing %s: %w", a.Name, err)
		}
	}
	return nil
}

// texts makes the canonical forms of what a command wrote, and says which macros the text used.
func (r *Runner) texts(a *graph.Action, dir string) (used []string, err error) {
	if a.Kind == graph.Preprocess && len(a.Macros) > 0 {
		name := tempName(dir, 0, a.Outputs[0])
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text, used = pptext.TakeMacros(text, a.Macros...)
		if err := os.WriteFile(name, text, 0o666); err != nil {
			return nil, err
		}
	}
	for i, o := range a.Outputs {
		if strings.HasSuffix(o, ".stub.c") {
			if err := r.nameless(tempName(dir, i, o), tempName(r.relTemp(dir), i, o)); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range a.Texts {
		raw, canon := slices.Index(a.Outputs, t.Raw), slices.Index(a.Outputs, t.Canon)
		text, err := os.ReadFile(tempName(dir, raw, t.Raw))
		if err != nil {
			return nil, err
		}
		out, _ := pptext.Canonical(make([]byte, 0, len(text)), text, pptext.Options{DropFalse: t.DropFalse})
		if err := os.WriteFile(tempName(dir, canon, t.Canon), out, 0o666); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// nameless takes the temporary name of a generated text out of its line markers.
func (r *Runner) nameless(file, name string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, bytes.ReplaceAll(text, []byte(name), []byte(toolchain.StubName)), 0o666)
}

// conditions are what a record depends on besides files of the project: the values of macros that the text used,
// and the true text if the command said something about it.
func (r *Runner) conditions(a *graph.Action, found []cache.FileDigest, used []string, said bool) []cache.FileDigest {
	if a.Kind != graph.Preprocess {
		used = r.mentioned(a, found)
	}
	var out []cache.FileDigest
	for _, m := range used {
		out = append(out, cache.FileDigest{Path: "-D" + m, Digest: macroValue(a, m)})
	}
	if said {
		for _, w := range a.Weak {
			if d, ok := r.partDigest(w); ok {
				out = append(out, cache.FileDigest{Path: w, Digest: d})
			}
		}
	}
	return out
}

// macroValue is a digest over what a command defines a macro as.
func macroValue(a *graph.Action, name string) cache.Digest {
	for _, arg := range a.Argv {
		if v, ok := strings.CutPrefix(arg, "-D"+name+"="); ok {
			return sha256.Sum256([]byte(v))
		}
	}
	return cache.Digest{}
}

// mentioned are the macros of a whose names stand in a file that it read.
func (r *Runner) mentioned(a *graph.Action, found []cache.FileDigest) []string {
	if len(a.Macros) == 0 {
		return nil
	}
	var files []string
	for _, f := range found {
		files = append(files, f.Path)
	}
	for _, s := range a.Stage {
		if s.From != "" {
			files = append(files, s.From)
		}
	}
	for _, arg := range a.Argv {
		if path.Base(arg) == "link.stub" {
			files = append(files, arg)
		}
	}
	var used []string
	for _, f := range files {
		text, err := os.ReadFile(r.abs(f))
		for _, m := range a.Macros {
			if (err != nil || strings.Contains(string(text), m)) && !slices.Contains(used, m) {
				used = append(used, m)
			}
		}
	}
	return used
}

// spelling replaces the names of a part's files by what they are to it, so that equal parts of different targets
// and build trees have one key.
func (r *Runner) spelling(a *graph.Action) func(string) string {
	if !a.Part {
		return func(s string) string { return s }
	}
	pairs := [][2]string{{a.Depfile, "<dep>"}}
	if a.Depfile == "" {
		pairs = nil
	}
	for i, o := range a.Outputs {
		pairs = append(pairs, [2]string{o, fmt.Sprintf("<out %d>", i)})
	}
	for i, in := range append(slices.Clone(a.Inputs), a.Weak...) {
		if r.isPart(in) {
			pairs = append(pairs, [2]string{in, fmt.Sprintf("<in %d>", i)})
		}
	}
	return replacer(pairs).Replace
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
