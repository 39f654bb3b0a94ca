package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
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
	ended   map[graph.ActionID]bool // actions that read nothing any more, before users is known
	users   map[string]int          // actions that may still read a file; nil until there is a file
	read    map[string]bool         // files that the command of some action reads
	making  map[graph.ActionID]*sync.Mutex
}

// outputsOf are the outputs of rec under the names that a gives them. Two parts with one key share a record,
// whatever their files are called, and so does a pass in two build trees. nil if they do not fit.
func outputsOf(a *graph.Action, rec *cache.Record) []cache.Output {
	if len(rec.Outputs) != len(a.Outputs) {
		return nil
	}
	if !a.Intermediate && !isPass(a) {
		return rec.Outputs
	}
	out := slices.Clone(rec.Outputs)
	for i := range out {
		out[i].Path = a.Outputs[i]
	}
	return out
}

// renamed is rec with its outputs under the names that a gives them.
func renamed(a *graph.Action, rec *cache.Record) *cache.Record {
	mine := *rec
	mine.Outputs = outputsOf(a, rec)
	return &mine
}

// isPass reports a pass of nvcc that makes device code which is wanted for itself, a cubin say, or a copy of what a pass made.
func isPass(a *graph.Action) bool { return a.Kind.Info().Unnamed && !a.Intermediate }

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
		if r.parts.ended == nil {
			r.parts.ended = map[graph.ActionID]bool{}
		}
		r.parts.ended[a.ID] = true
		return
	}
	for _, in := range a.Reads() {
		{
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

// count finds who uses which file, before the first one stands: a build that has nothing to do needs none. The lock is
// held.
func (r *Runner) count() {
	if r.parts.users != nil {
		return
	}
	r.parts.users, r.parts.read = map[string]int{}, map[string]bool{}
	for _, b := range r.Graph.Actions {
		reads := readBy(b, b.Argv)
		for _, list := range [2][]string{b.Inputs, b.Step().DiagnosticInputs} {
			for _, in := range list {
				if r.isPart(in) {
					if !r.parts.ended[b.ID] {
						r.parts.users[in]++
					}
					r.parts.read[in] = r.parts.read[in] || reads(in)
				}
			}
		}
	}
	r.parts.ended = nil
}

func (r *Runner) isPart(path string) bool {
	id, made := r.Graph.Producer(path)
	return made && r.Graph.Actions[id].Intermediate
}

// bring puts the parts' files that a command reads into the build tree.
func (r *Runner) bring(ctx context.Context, a *graph.Action, argv []string) error {
	reads := readBy(a, argv)
	for _, in := range a.Reads() {
		{
			if r.isPart(in) && reads(in) {
				if err := r.put(ctx, in); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readBy tells which files are named by a's command argv, or are for what kbuild does itself.
func readBy(a *graph.Action, argv []string) func(file string) bool {
	if len(argv) == 0 {
		return func(string) bool { return true }
	}
	named := map[string]bool{a.Link().HostRefs: true}
	for _, arg := range argv {
		named[arg] = true
	}
	for _, s := range a.Step().Staged {
		named[s.From] = true
	}
	return func(file string) bool {
		return named[file] || slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, file) })
	}
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
	r.stands(o.Path)
	return nil
}

// stands notes that files of parts are in the build tree.
func (r *Runner) stands(files ...string) {
	r.parts.mu.Lock()
	defer r.parts.mu.Unlock()
	r.count()
	for _, f := range files {
		r.parts.present[f] = true
	}
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
	if !a.Intermediate || res.Status == sched.Failed || len(res.Output) == 0 {
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
func (r *Runner) keepPart(ctx context.Context, a *graph.Action, rec *cache.Record, res sched.Result, dir scratch, stable bool) sched.Result {
	var moved []string
	for i := range rec.Outputs {
		o := &rec.Outputs[i]
		o.Unkept = a.Transient || r.Keep == nil
		name := r.abs(o.Path)
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		if err == nil {
			err = os.Rename(dir.output(i, o.Path), name)
		}
		if errors.Is(err, fs.ErrNotExist) && a.Transient {
			continue // nobody reads it
		}
		if err != nil {
			res.Status, res.Err = sched.Failed, fmt.Errorf("moving %s into place: %w", o.Path, err)
			return res
		}
		moved = append(moved, o.Path)
	}
	r.know(rec.Outputs)
	r.stands(moved...)
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
func (r *Runner) stage(a *graph.Action, dir scratch) error {
	if len(a.Step().Staged) == 0 {
		return nil
	}
	in := dir.file("in")
	if err := os.MkdirAll(in, 0o777); err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	for _, s := range a.Step().Staged {
		var err error
		if name := filepath.Join(in, s.Name); s.From != "" {
			err = os.Link(r.abs(s.From), name)
		} else {
			err = os.WriteFile(name, []byte(strings.ReplaceAll(s.Text, graph.StageDir, r.staged(a, dir))), 0o666)
		}
		if err != nil {
			return fmt.Errorf("preparing %s: %w", a.Name, err)
		}
	}
	return nil
}

// staged is the folder of staged files as a string literal has it.
func (r *Runner) staged(a *graph.Action, dir scratch) string {
	if !a.Step().EmptyCwd {
		dir = r.relative(dir)
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(dir.file("in"))
}

// spelling replaces the names of a part's files by what they are to it, so that equal parts of different targets
// and build trees have one key.
func (r *Runner) spelling(a *graph.Action) func(string) string {
	if !a.Intermediate && !isPass(a) {
		return func(s string) string { return s }
	}
	pairs := [][2]string{{a.Depfile, "<dep>"}}
	if a.Depfile == "" {
		pairs = nil
	}
	for i, o := range a.Outputs {
		name := fmt.Sprintf("<out %d>", i)
		if !a.Intermediate {
			name = "<build>" + strings.TrimPrefix(o, r.Graph.BuildDir)
		}
		pairs = append(pairs, [2]string{o, name})
	}
	for i, in := range a.Reads() {
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
