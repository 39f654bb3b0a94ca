package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	read    map[string]bool         // files that the command of some action reads
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
	r.count()
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

// count finds once who uses which file. The lock is held.
func (r *Runner) count() {
	if r.parts.users != nil {
		return
	}
	r.parts.users, r.parts.read = map[string]int{}, map[string]bool{}
	for _, b := range r.Graph.Actions {
		for _, list := range [2][]string{b.Inputs, b.Weak} {
			for _, in := range list {
				if r.isPart(in) {
					r.parts.users[in]++
					r.parts.read[in] = r.parts.read[in] || reads(b, b.Argv, in)
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
	r.parts.mu.Lock()
	r.count()
	for _, o := range a.Outputs {
		r.parts.read[o] = true // as it turns out
	}
	r.parts.mu.Unlock()
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

// sayOnce drops what a pass of the same command has said in this run: a warning of the language comes from the compile
// for every architecture.
func (r *Runner) sayOnce(a *graph.Action, res *sched.Result) {
	if !a.Part || res.Status == sched.Failed || len(res.Output) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{path.Dir(a.Outputs[0]), string(res.Output)}
	if r.said == nil {
		r.said = map[[2]string]bool{}
	}
	if r.said[key] {
		res.Output = nil
	}
	r.said[key] = true
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
		if errors.Is(err, fs.ErrNotExist) && a.Transient {
			continue // nobody reads it
		}
		if err != nil {
			res.Status, res.Err = sched.Failed, fmt.Errorf("moving %s into place: %w", o.Path, err)
			return res
		}
	}
	r.know(rec.Outputs)
	r.parts.mu.Lock()
	for _, o := range rec.Outputs {
		if _, err := os.Lstat(r.abs(o.Path)); err == nil {
			r.parts.present[o.Path] = true
		}
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
	r.share(ctx, r.Keep, a, rec)
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

// made is what texts found: outputs by name that need no file, since nobody reads them, or are digested already;
// and the macros that a text used.
type made struct {
	outputs map[string]cache.Output
	used    []string
}

// texts makes the canonical forms of what a command wrote. Texts are large and most are only wanted for their
// digests, so each is read once, and a file is left where some command reads it.
func (r *Runner) texts(a *graph.Action, dir string) (made, error) {
	m := made{outputs: map[string]cache.Output{}}
	for i, o := range a.Outputs {
		raw := a.Kind == graph.Preprocess && i == 0
		canon := slices.IndexFunc(a.Texts, func(t graph.Text) bool { return t.Raw == o })
		stub := strings.HasSuffix(o, ".stub.c")
		if !raw && canon < 0 && !stub {
			continue
		}
		name := tempName(dir, i, o)
		text, err := readInto(r.buffer(), name)
		if err != nil {
			return m, err
		}
		changed := false
		switch {
		case raw && len(a.Macros) > 0:
			var used map[string]bool
			text, used = pptext.TakeMacros(text, a.Macros...)
			m.used, changed = slices.Sorted(maps.Keys(used)), true
		case stub: // names itself, in line markers
			text, changed = bytes.ReplaceAll(text, []byte(tempName(r.relTemp(dir), i, o)), []byte(toolchain.StubName)), true
		}
		if err := r.settleText(a, m, name, o, text, changed); err != nil {
			return m, err
		}
		if canon >= 0 {
			t := a.Texts[canon]
			buf := bytes.NewBuffer(r.buffer())
			if _, err := pptext.Canonical(buf, text, pptext.Options{DropFalse: t.DropFalse}); err != nil {
				return m, err
			}
			out := buf.Bytes()
			if err := r.settleText(a, m, tempName(dir, slices.Index(a.Outputs, t.Canon), t.Canon), t.Canon, out, true); err != nil {
				return m, err
			}
			r.buffers.Put(&out)
		}
		r.buffers.Put(&text)
	}
	return m, nil
}

// settleText notes the digest of an output, and writes its file if it is new and somebody reads it.
func (r *Runner) settleText(a *graph.Action, m made, name, output string, text []byte, changed bool) error {
	m.outputs[output] = cache.Output{Path: output, Digest: sha256.Sum256(text), Size: int64(len(text)), Unkept: a.Transient}
	switch {
	case a.Transient && !r.isRead(output):
		os.Remove(name)
		return nil
	case changed:
		return os.WriteFile(name, text, 0o666)
	}
	return nil
}

// isRead reports whether the command of some action reads a part's output.
func (r *Runner) isRead(output string) bool {
	r.parts.mu.Lock()
	defer r.parts.mu.Unlock()
	r.count()
	return r.parts.read[output]
}

// buffer is an empty slice with room, mostly.
func (r *Runner) buffer() []byte {
	if b, ok := r.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 4<<20)
}

// readInto is os.ReadFile with a given buffer.
func readInto(b []byte, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := bytes.NewBuffer(b)
	_, err = buf.ReadFrom(f)
	return buf.Bytes(), err
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
		for _, m := range a.Macros {
			if !slices.Contains(used, m) && r.mentions(f, m) {
				used = append(used, m)
			}
		}
	}
	return used
}

// mentions reports a name in a file; a file that cannot be read may hold any. The toolkit's headers are asked for
// again and again, so their answers are remembered.
func (r *Runner) mentions(file, name string) bool {
	key := [2]string{file, name}
	r.mu.Lock()
	yes, known := r.found[key]
	r.mu.Unlock()
	if known {
		return yes
	}
	text, err := readInto(r.buffer(), r.abs(file))
	yes = err != nil || bytes.Contains(text, []byte(name))
	r.buffers.Put(&text)
	if filepath.IsAbs(file) {
		r.mu.Lock()
		if r.found == nil {
			r.found = map[[2]string]bool{}
		}
		r.found[key] = yes
		r.mu.Unlock()
	}
	return yes
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

// partName is what a part's file is to its reader: "stub.canon.c" for compute_80.stub.canon.c. Which architecture it is of
// does not matter to the one that reads the host code of some architecture.
func partName(file string) string {
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
