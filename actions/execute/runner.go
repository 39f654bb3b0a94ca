// Package execute does the work of actions in a real build tree: it decides by content whether an
// action is up to date, takes its outputs from the cache, or runs it and records what happened.
//
// The rules that keep a build right:
//
//   - Nothing is decided by time. An action is done when a record exists whose key (tools, argv,
//     environment, declared inputs, all by content) and whose discovered inputs equal today's, and
//     its outputs on disk have the digests that the record names.
//   - A command writes to temporary names; its outputs are moved into place after it succeeded. So a
//     killed build leaves old outputs or new ones, and the records tell which.
//   - What cannot be known is run: a record with a doubt is no record.
//   - An output that comes out equal keeps its old file, so nothing downstream runs.
package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// Config is what a Runner works with.
type Config struct {
	Graph   *graph.Graph
	Outer   *graph.Packed     // the graph that Graph is a part of; nil if it is whole
	Root    string            // project root, absolute: the folder every command runs in
	State   string            // folder for temporary files, absolute
	Files   *cache.Files      // digests of files, memoised by stat
	Listing *cache.Listing    // which paths exist, by folder
	Journal *tree.DB          // the last records of this build tree
	Store   cache.Store       // the shared cache; nil without
	Keep    cache.Store       // keeps what parts make: the shared cache, or one of the build tree; nil without
	Tools   map[string]string // identity by content of the tools that actions name
	Env     []string          // the complete environment of commands
	KeyEnv  []string          // the part of Env that can change an output
	Begun   time.Time         // when this kbuild started
	Warn    func(string)      // told once of what is wrong with the cache

	Distrusted map[string]bool // questions to compilers whose answers are known to be understood wrongly
}

// Runner implements sched.Runner.
type Runner struct {
	Config
	discovery *discover.Discovery

	under func(a *graph.Action, argv []string, cwd string) []string // the command that runs argv; nil is argv

	temp    sync.Once // makes the folder for temporary files
	tempErr error
	short   string       // the same folder by a short name, see run.ShortTemp; "" without
	shorts  atomic.Int64 // folders in it that have short names

	parts    parts
	mu       sync.Mutex
	pending  map[graph.ActionID]pending
	warned   bool
	counters cache.Counters
	noted    noted
	leadsTo  sync.Map                // what links to generated files lead to, see generated
	said     map[[2]string]bool      // by source and text, see sayOnce
	misread  []Misreading            // see Misread
	starved  map[graph.ActionID]bool // memory was, once
	buffers  sync.Pool               // of *[]byte
	hungry   atomic.Int64            // front ends that run now, see run.HugePages
	clock    fileClock
	assumed  map[string]cache.Digest // in a dry run: content that outputs would have
}

// New makes a Runner.
func New(c Config) *Runner {
	r := &Runner{Config: c}
	r.discovery = discover.New(discover.Config{
		Tree: discover.Tree{Root: c.Root, Listing: c.Listing, Digest: r.digest}, Env: c.Env, KeyEnv: c.KeyEnv, Tools: c.Tools,
		Made: func(file string) bool { return r.maker(file) != nil }, Intermediate: r.isPart, Ask: r.ask,
	})
	return r
}

// digest is the content of a file, or the content that a dry run found it would have.
func (r *Runner) digest(file string) (cache.Digest, error) {
	r.mu.Lock()
	d, ok := r.assumed[file]
	r.mu.Unlock()
	if ok {
		return d, nil
	}
	if d, ok := r.partDigest(file); ok {
		return d, nil
	}
	return r.Files.Digest(file)
}

// pending is what Check learned of an action that must run.
type pending struct {
	key    cache.Key
	fields []cache.Field
	inputs map[string]cache.Digest
	reason string
}

// Check implements sched.Runner.
func (r *Runner) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	res, settled := r.check(ctx, a)
	if settled {
		r.sayOnce(a, &res)
		r.done(a)
	}
	return res, settled
}

func (r *Runner) check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	p, err := r.key(a)
	if err != nil {
		return failed(err), true
	}
	rec := r.recorded(a, p.key)
	if rec != nil && r.discovery.Holds(a, rec) && r.inPlace(a, rec) {
		r.note(a, rec)
		if rec.Outputs[0].Path != a.Outputs[0] { // a part with the key of another's
			if err := r.Journal.Append(renamed(a, rec)); err != nil {
				return failed(err), true
			}
		}
		if err := r.undeclared(a, rec.Discovered); err != nil {
			return failed(err), true
		}
		if a.Intermediate {
			r.know(outputsOf(a, rec))
		}
		return sched.Result{Status: sched.UpToDate}, true
	}
	if rec := r.stored(ctx, a, p.key); rec != nil {
		if err := r.undeclared(a, rec.Discovered); err != nil {
			return failed(err), true
		}
		if res, ok := r.restore(ctx, a, rec); ok {
			r.note(a, rec)
			return res, true
		}
	}
	p.reason = r.reason(a, p)
	r.mu.Lock()
	if r.pending == nil {
		r.pending = map[graph.ActionID]pending{}
	}
	r.pending[a.ID] = p
	r.counters.Misses++
	r.mu.Unlock()
	return sched.Result{Reason: p.reason}, false
}

// recorded is the last record of the build tree with this key, of a if there is one; else nil.
func (r *Runner) recorded(a *graph.Action, key cache.Key) *cache.Record {
	if rec := r.Journal.Last(a.Outputs[0]); rec != nil && rec.Command == key {
		return rec
	}
	return r.Journal.ByCommand(key)
}

func failed(err error) sched.Result { return sched.Result{Status: sched.Failed, Err: err} }

// key computes the command key of a and the text that explains it.
func (r *Runner) key(a *graph.Action) (pending, error) {
	p := pending{inputs: map[string]cache.Digest{}}
	for _, in := range a.Inputs {
		d, err := r.digest(in)
		if err != nil {
			return p, r.inputError(a, in, err)
		}
		p.inputs[in] = d
	}
	named := r.discovery.Named(a)
	for _, f := range named {
		if err := r.undeclaredFile(a, r.discovery.Name(f)); err != nil && a.Kind != graph.Generate {
			return p, err
		}
		d, err := r.digest(f)
		if err != nil {
			return p, r.inputError(a, f, err)
		}
		p.inputs[f] = d
	}
	behind, err := r.behind(a)
	if err != nil {
		return p, err
	}
	text := &cache.Text{}
	r.writeKey(text, a, named, p.inputs, behind)
	p.key, p.fields = cache.KeyOf(text.Fields), text.Fields
	return p, nil
}

// writeKey is the one traversal that makes both the key and its explanation.
func (r *Runner) writeKey(w cache.KeyWriter, a *graph.Action, named []string, inputs map[string]cache.Digest, behind []cache.Field) {
	w.Field("kind", string(a.Kind))
	for _, t := range a.Tools {
		w.Field("tool "+t, r.Tools[t])
	}
	for _, f := range behind {
		w.Field(f.Name, f.Value)
	}
	if a.Kind == graph.Slice {
		w.Field("arch", a.Archs[0]) // others say it in their arguments
	}
	if a.Kind.InProcess() || len(a.Step().CanonicalForms) > 0 || a.Link().HostRefs != "" {
		w.Field("method", Method)
	}
	if a.Kind == graph.Embed {
		w.Field("header", artifactDigest())
	}
	r.writeCommand(w, a)
	a.Work.Manifest.WriteKey(w)
	a.Work.Step.WriteKey(w)
	if len(a.Tools) > 0 || a.Kind == graph.Generate {
		for _, e := range r.KeyEnv {
			w.Field("env", e)
		}
	}
	for _, e := range a.Env {
		w.Field("env", e)
	}
	if a.CwdInKey {
		w.Field("folder", r.Root)
	}
	if a.Step().StageInKey {
		w.Field("stage", r.Graph.BuildDir+"/"+flatName(r.Graph.BuildDir, a.Outputs[0])) // as newScratch names it
	}
	a.Work.Driver.WriteKey(w)
	a.Work.Link.WriteKey(w)
	for _, list := range [2][]string{a.Inputs, named} {
		for _, in := range list {
			name := in
			if r.isPart(in) {
				name = partName(in)
			}
			w.Field("input "+name, inputs[in].String())
		}
	}
}

// writeCommand writes the arguments and what the command makes.
func (r *Runner) writeCommand(w cache.KeyWriter, a *graph.Action) {
	spell := r.spelling(a)
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
}

// behind is what an action depends on and does not name: the content of the command that a generate block runs, what the artifacts
// in a manifest are made from.
func (r *Runner) behind(a *graph.Action) ([]cache.Field, error) {
	switch {
	case a.Kind == graph.Generate && len(a.Argv) > 0:
		d, err := r.program(a)
		return []cache.Field{{Name: "program", Value: d}}, err
	case a.Kind == graph.Manifest:
		d, err := r.madeFrom(a)
		return []cache.Field{{Name: "made from", Value: d}}, err
	}
	return nil, nil
}

// program is the content of the command a generate block runs.
func (r *Runner) program(a *graph.Action) (string, error) {
	path, err := run.LookPath(a.Argv[0], r.Root, r.Env)
	if err != nil {
		return "", fmt.Errorf("%s: %w", a.Target, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	d, err := r.Files.Digest(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return d.String(), nil
}

func (r *Runner) inputError(a *graph.Action, in string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; %s needs it", in, a.Target)
	}
	return fmt.Errorf("reading %s for %s: %w", in, a.Target, err)
}

// inPlace reports whether the outputs on disk are the ones of the record. A part has none there.
func (r *Runner) inPlace(a *graph.Action, rec *cache.Record) bool {
	if a.Intermediate {
		return len(rec.Outputs) == len(a.Outputs)
	}
	for _, o := range rec.Outputs {
		if !r.isPlaced(o) {
			return false
		}
	}
	return true
}

func (r *Runner) isPlaced(o cache.Output) bool {
	info, err := os.Lstat(r.abs(o.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size || (info.Mode()&0o100 != 0) != o.Exec {
		return false
	}
	d, err := r.Files.Digest(o.Path)
	return err == nil && d == o.Digest
}

func (r *Runner) abs(p string) string {
	return cache.Absolute(r.Root, p)
}

// stored is the record of the shared cache that holds today, nil if there is none.
func (r *Runner) stored(ctx context.Context, a *graph.Action, key cache.Key) *cache.Record {
	store := r.Store
	if a.Intermediate {
		store = r.Keep
	}
	if store == nil || r.discovery.CommandTellsTime(a) {
		return nil
	}
	recs, err := store.Records(ctx, key)
	if err != nil {
		r.warn(fmt.Sprintf("the cache cannot be read: %v", err))
	}
	for _, rec := range recs {
		if r.discovery.Holds(a, rec) && sameOutputs(rec, a) {
			if isPass(a) {
				return renamed(a, rec)
			}
			return rec
		}
	}
	return nil
}

// sameOutputs reports whether a record writes exactly what a writes. Keys hold the names of outputs, so
// this only guards the build tree against a record that is not what its key says.
func sameOutputs(rec *cache.Record, a *graph.Action) bool {
	if len(rec.Outputs) != len(a.Outputs) {
		return false
	}
	for i, o := range rec.Outputs {
		if o.Path != a.Outputs[i] && !a.Intermediate && !isPass(a) {
			return false
		}
	}
	return true
}

// restore puts the outputs of rec in place. ok is false if a blob is gone or damaged: then the action runs.
func (r *Runner) restore(ctx context.Context, a *graph.Action, rec *cache.Record) (sched.Result, bool) {
	start := time.Now()
	if a.Intermediate {
		return r.restorePart(a, rec), true
	}
	if r.inPlace(a, rec) {
		if err := r.Journal.Append(rec); err != nil {
			return failed(err), true
		}
		return sched.Result{Status: sched.UpToDate}, true
	}
	if err := r.makeTemp(); err != nil {
		return failed(err), true
	}
	temp := func(o cache.Output) string { return filepath.Join(r.State, "tmp", flatName(r.Graph.BuildDir, o.Path)) }
	for i, o := range rec.Outputs {
		if err := r.Store.Restore(ctx, o, temp(o)); err != nil {
			for _, done := range rec.Outputs[:i] {
				os.Remove(temp(done))
			}
			switch {
			case errors.Is(err, cache.ErrCorrupt):
				r.warn(fmt.Sprintf("the cache has a damaged entry for %s, which is built instead: %v", o.Path, err))
			case !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil: // trouble where it goes to, such as a full disk
				r.warn(fmt.Sprintf("%s cannot be taken from the cache, and is built instead: %v", o.Path, err))
			}
			return sched.Result{}, false
		}
	}
	for _, o := range rec.Outputs {
		if err := r.place(temp(o), o); err != nil {
			return failed(err), true
		}
	}
	r.Store.Used(rec)
	if err := r.Journal.Append(rec); err != nil {
		return failed(err), true
	}
	took := time.Since(start)
	r.hit(a, rec, took)
	return sched.Result{Status: sched.Cached, Output: []byte(rec.Text), Elapsed: took}, true
}

// restorePart takes a part's record over. Its files come when something reads them.
func (r *Runner) restorePart(a *graph.Action, rec *cache.Record) sched.Result {
	mine := renamed(a, rec)
	r.know(mine.Outputs)
	r.Keep.Used(rec)
	if err := r.Journal.Append(mine); err != nil {
		return failed(err)
	}
	r.hit(a, rec, 0)
	return sched.Result{Status: sched.Cached, Output: []byte(rec.Text)}
}

// hit counts. A part without a dependency file works on what other parts have made.
func (r *Runner) hit(a *graph.Action, rec *cache.Record, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Intermediate && a.Depfile == "" {
		r.counters.Stage++
	} else {
		r.counters.Direct++
	}
	r.counters.Saved += max(0, rec.Elapsed-took)
	if a.Intermediate {
		return // nothing was copied
	}
	for _, o := range rec.Outputs {
		r.counters.Bytes += o.Size
	}
}

// place moves a finished file to its name in the build tree, unless the file there is equal already.
func (r *Runner) place(temp string, o cache.Output) error {
	if r.isPlaced(o) {
		return os.Remove(temp)
	}
	final := r.abs(o.Path)
	err := cache.Rename(temp, final)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(final), 0o777); err != nil {
			return fmt.Errorf("making the folder of %s: %w", o.Path, err)
		}
		err = cache.Rename(temp, final)
	}
	if err == nil {
		r.written(o.Path)
		return nil
	}
	if info, missing := os.Lstat(final); missing == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; it is where kbuild writes a file: remove it", o.Path)
	}
	return fmt.Errorf("moving %s into place: %w", o.Path, err)
}

// written drops what is remembered of a file of the build tree.
func (r *Runner) written(path string) {
	r.Files.Forget(path)
	r.Listing.Forget(filepath.Dir(r.abs(path)))
}

// warn tells of trouble with the cache, once: it costs time, never a build.
func (r *Runner) warn(text string) {
	r.mu.Lock()
	first := !r.warned
	r.warned = true
	r.mu.Unlock()
	if first && r.Warn != nil {
		r.Warn(text)
	}
}

// Counters are the cache's hits and misses so far.
func (r *Runner) Counters() cache.Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counters
}
