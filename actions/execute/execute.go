// Package execute does the work of actions in a real build tree: it decides by content whether an
// action is up to date, restores its outputs from the cache, or runs it and records the run. It
// does not plan actions or order them: the planner builds the graph, and package sched chooses what
// runs when.
//
// This file is the life of one action, from top to bottom:
//
//	key      everything that is known before the action runs and can change an output
//	reuse    a valid record of the build tree (up to date), or of the cache (restored)
//	run      the command, in a scratch folder; a second time for messages with true line numbers
//	capture  what it wrote and read, as a new record
//	publish  outputs to their names, then the record to the build tree, then both to the cache
//
// The scheduler calls Check for the first two, which start no process, and then waits for a slot
// before it calls Execute for the others. Between the two, the action is pending. An action that
// was lost on another machine, or that ended for lack of memory, is pending again.
//
// The rules that keep a build correct:
//
//   - Nothing is decided by time. An action is up to date if it has a valid record whose outputs
//     are on disk with the recorded digests. A record is valid if its key (tools, argv,
//     environment, declared inputs, all by content) and its discovered inputs equal today's.
//   - If kbuild cannot know what an action read, the action runs and is not recorded. That includes
//     an input that changed while the action ran: see stability.
//   - An output that comes out equal keeps its old file, so nothing downstream runs.
//
// kbuild may be killed at any moment. Until publish, the outputs of the last run are in place with
// their record, which is valid if the edit is undone. In publish some outputs are new, and the last
// record names the old digests: the action runs again, or is restored. Once the new record is
// appended, the action is up to date; that the cache lacks it costs another machine a run. A
// command that writes in place removes its old outputs first, so what it leaves fits no record. The
// next build removes what is left in scratch folders.
package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kbuild-dev/kbuild/actions/advice"
	"github.com/kbuild-dev/kbuild/actions/check"
	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/inprocess"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// Config configures a Runner.
type Config struct {
	Graph *graph.Graph
	// the graph that Graph is a part of; nil if Graph is complete
	Outer   *graph.Packed
	Root    string         // project root, absolute: the folder that commands run in
	State   string         // folder for temporary files, absolute
	Files   *cache.Files   // digests of files, memoised by stat
	Listing *cache.Listing // which paths exist, by folder
	Records *tree.DB       // the last records of this build tree
	Store   cache.Store    // the shared cache; nil if there is none
	// keeps the files between compiler passes: the shared cache, or a store of the build tree; nil
	// if there is none
	IntermediateStore cache.Store
	Tools             map[string]string // fingerprints of the tools that actions name
	Env               []string          // the complete environment of commands
	KeyEnv            []string          // the part of Env that can change an output
	GPUEnv            []string          // additional environment of tests that need a GPU: which GPU to use
	Begun             time.Time         // when this kbuild started, or had the lock after a wait
	// a folder whose preprocessed texts are equal in other checkouts; "" for none: see
	// pptext.Options
	Base string
	// every pass prints all its messages, on stderr, even those that another pass of its command
	// printed
	Verbatim bool
	Warn     func(string) // reports trouble with the cache, at most once
	Remote   Remote       // nil without remote execution

	Unsplit map[string]bool // keys of dry runs whose compilers run unsplit: see SplitFailure
}

// Runner implements sched.Runner.
type Runner struct {
	*buildTree
	discovery     *discover.Discovery
	generated     *generatedFiles
	provenance    *provenance
	keys          *keys
	intermediates *intermediates
	scratches     *scratches
	canonical     *canonicalizer
	stability     *stability
	splitFailures *splitFailures
	frontEnds     atomic.Int64 // number of front ends running now, see run.HugePages
	printed       sync.Map     // outputs of passes: see withoutRepeats
	pending       sync.Map     // of *pending, by graph.ActionID

	warning sync.Once

	mu       sync.Mutex
	counters cache.Counters
}

// pending holds what is known about an action between Check and the end of Execute.
type pending struct {
	key     actionKey
	reason  string
	lost    error // of a remote run; nil if there was none
	starved bool  // it failed for lack of memory
}

// New returns a Runner for c.
func New(c Config) *Runner {
	t := &buildTree{Config: c}
	r := &Runner{buildTree: t}
	r.intermediates = &intermediates{buildTree: t, present: map[string]bool{}, runs: 1}
	r.discovery = discover.New(discover.Config{
		Tree: discover.Tree{Build: r, Root: c.Root, Listing: c.Listing},
		Env:  c.Env, KeyEnv: c.KeyEnv, Tools: c.Tools,
	})
	r.generated = &generatedFiles{buildTree: t}
	r.provenance = &provenance{buildTree: t, discovery: r.discovery}
	r.keys = &keys{t, r.discovery, r.generated, r.provenance}
	r.scratches = &scratches{buildTree: t, dir: filepath.Join(c.State, "tmp")}
	r.canonical = &canonicalizer{intermediates: r.intermediates}
	r.stability = &stability{t, kernelClock{}}
	r.splitFailures = &splitFailures{r: r, found: map[string]SplitFailure{}}
	return r
}

func failed(err error) sched.Result { return sched.Result{Status: sched.Failed, Err: err} }

// Check implements sched.Runner: it computes the key of a, and looks for a valid record.
func (r *Runner) Check(ctx context.Context, a *graph.Action) (res sched.Result, done bool) {
	defer func() {
		if done {
			r.intermediates.release(a)
		}
	}()
	key, err := r.keys.of(a)
	if err != nil {
		return failed(err), true
	}
	if rec, status := r.lookUp(ctx, a, key.key); rec != nil {
		if err := r.generated.undeclared(a, rec.Discovered); err != nil {
			return failed(err), true
		}
		if res, ok := r.restore(ctx, a, rec, status); ok {
			r.provenance.use(a, rec)
			r.withoutRepeats(a, &res)
			return res, true
		}
	}
	p := &pending{key: key, reason: r.keys.reason(a, key)}
	r.pending.Store(a.ID, p)
	r.mu.Lock()
	r.counters.Misses++
	r.mu.Unlock()
	return sched.Result{Reason: p.reason, Portable: r.portable(a)}, false
}

// portable reports whether a may run remotely, by the size of its files.
func (r *Runner) portable(a *graph.Action) bool {
	if r.Remote == nil {
		return false
	}
	in, out := int64(0), int64(-1)
	reads := commandReads(a, a.Argv)
	for _, file := range a.Reads() {
		if reads.has(file) {
			in += r.size(file)
		}
	}
	if rec := r.Records.Last(a.Outputs[0]); rec != nil {
		out = 0
		for _, o := range rec.Outputs {
			out += o.Size
		}
	}
	return r.Remote.Portable(a, in, out)
}

// lookUp returns a valid record of a, or nil if a must run. The record comes from the build tree,
// if its outputs exist, or from the cache. Intermediate outputs need not exist: the build tree
// keeps none.
func (r *Runner) lookUp(
	ctx context.Context, a *graph.Action, key cache.Key,
) (rec *cache.Record, status sched.Status) {
	if a.Test().Each {
		return nil, ""
	}
	rec = r.Records.Last(a.Outputs[0])
	if rec != nil && rec.Command == key && r.discovery.IsValid(a, rec) &&
		(a.Intermediate && len(rec.Outputs) == len(a.Outputs) ||
			!a.Intermediate && r.hasOutputs(rec)) {
		return rec, sched.UpToDate
	}
	return r.stored(ctx, a, key), sched.Cached
}

func (r *Runner) hasOutputs(rec *cache.Record) bool {
	return !slices.ContainsFunc(rec.Outputs, func(o cache.Output) bool { return !r.has(o) })
}

// storeOf returns the store that keeps the outputs of a, or nil.
func (r *Runner) storeOf(a *graph.Action) cache.Store {
	if a.Intermediate {
		return r.IntermediateStore
	}
	return r.Store
}

// stored returns a valid record of the shared cache, or nil.
func (r *Runner) stored(ctx context.Context, a *graph.Action, key cache.Key) *cache.Record {
	store := r.storeOf(a)
	if store == nil || a.Test().Each || r.discovery.CommandTellsTime(a) {
		return nil
	}
	recs, err := store.Records(ctx, key)
	if err != nil {
		r.warn(fmt.Sprintf("the cache cannot be read: %v", err))
	}
	rec := r.firstValid(a, recs)
	if distant, ok := store.(cache.Distant); ok && rec == nil {
		rec = r.firstValid(a, distant.Elsewhere(ctx, key))
		if rec == nil {
			distant.Missed()
		} else if !distant.Confirm(ctx, rec) {
			rec = nil
		}
	}
	if rec == nil || a.Intermediate {
		return rec
	}
	return renamed(a, rec)
}

// firstValid returns the first valid record of a, or nil.
func (r *Runner) firstValid(a *graph.Action, recs []*cache.Record) *cache.Record {
	for _, rec := range recs {
		if r.discovery.IsValid(a, rec) && sameOutputs(rec, a) {
			return rec
		}
	}
	return nil
}

// sharesRecords reports whether the outputs of a are the same under any name. That is true for a
// pass and for a copy of a pass's output. It is also true for device code that is a target's
// output, such as a cubin.
func sharesRecords(a *graph.Action) bool { return a.Intermediate || a.Kind.Info().Unnamed }

// sameOutputs reports whether a record writes exactly the outputs of a. Keys cover the names of
// outputs. So this only guards the build tree against a record that does not belong to its key.
func sameOutputs(rec *cache.Record, a *graph.Action) bool {
	return slices.EqualFunc(rec.Outputs, a.Outputs, func(o cache.Output, name string) bool {
		return o.Path == name || sharesRecords(a)
	})
}

// renamed returns rec with its outputs under the names that a uses. It has none if they do not fit.
// Two parts with one key share a record, whatever their files are called, and so does a pass in two
// build trees.
func renamed(a *graph.Action, rec *cache.Record) *cache.Record {
	mine := *rec
	switch {
	case len(rec.Outputs) != len(a.Outputs):
		mine.Outputs = nil
	case sharesRecords(a):
		mine.Outputs = slices.Clone(rec.Outputs)
		for i := range mine.Outputs {
			mine.Outputs[i].Path = a.Outputs[i]
		}
	}
	return &mine
}

// restore restores the outputs of rec unless they exist already. ok is false if a blob is missing
// or damaged: then the action runs.
func (r *Runner) restore(
	ctx context.Context, a *graph.Action, rec *cache.Record, status sched.Status,
) (res sched.Result, ok bool) {
	start := time.Now()
	res = sched.Result{Status: status}
	mine := renamed(a, rec)
	switch {
	case a.Intermediate: // its files are restored when an action reads them
		r.setPasses(mine.Outputs)
	case status == sched.UpToDate:
	case r.hasOutputs(rec):
		res.Status = sched.UpToDate
	default:
		ok, err := r.restoreFiles(ctx, rec)
		if err != nil {
			return failed(err), true
		}
		if !ok {
			return sched.Result{}, false
		}
		res.Elapsed = time.Since(start)
	}
	// the record is new here, or of another action with the same key
	if status == sched.Cached || rec.Outputs[0].Path != a.Outputs[0] {
		if err := r.Records.Append(mine); err != nil {
			return failed(err), true
		}
	}
	if res.Status != sched.Cached {
		return res, true
	}
	res.Output = []byte(rec.Text)
	r.storeOf(a).Used(rec)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counters.Saved += max(0, rec.Elapsed-res.Elapsed)
	if a.Intermediate && a.Depfile == "" { // it reads the outputs of other passes
		r.counters.Stage++
	} else {
		r.counters.Direct++
	}
	for _, o := range rec.Outputs {
		if !a.Intermediate { // or else no file was copied
			r.counters.Bytes += o.Size
		}
	}
	return res, true
}

// restoreFiles restores the outputs of rec. ok is false if the cache does not have them.
func (r *Runner) restoreFiles(ctx context.Context, rec *cache.Record) (ok bool, err error) {
	if err := r.scratches.open(); err != nil {
		return false, err
	}
	for i, o := range rec.Outputs {
		err := r.Store.Restore(ctx, o, r.scratches.file(o.Path))
		if err == nil {
			continue
		}
		for _, done := range rec.Outputs[:i] {
			os.Remove(r.scratches.file(done.Path))
		}
		switch {
		case errors.Is(err, cache.ErrCorrupt):
			r.warn(fmt.Sprintf("the cache has a damaged entry for %s, which is built instead: %v",
				o.Path, err))
		// trouble at the destination, such as a full disk
		case !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil:
			r.warn(fmt.Sprintf("%s cannot be taken from the cache, and is built instead: %v",
				o.Path, err))
		}
		return false, nil
	}
	for _, o := range rec.Outputs {
		if err := r.place(r.scratches.file(o.Path), o); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Execute implements sched.Runner.
func (r *Runner) Execute(
	ctx context.Context, a *graph.Action, local <-chan struct{},
) sched.Result {
	v, _ := r.pending.LoadAndDelete(a.ID)
	p := v.(*pending)
	res := r.build(ctx, a, p.key, local)
	res.Reason = p.reason
	if errors.Is(res.Err, ErrLost) { // the scheduler executes it again, locally
		res.Lost, p.lost = true, res.Err
		r.pending.Store(a.ID, p)
		return res
	}
	var end *ended
	if errors.As(res.Err, &end) && end.outOfMemory { // the scheduler may execute it again, alone
		res.OutOfMemory, p.starved = true, true
		r.pending.Store(a.ID, p)
	} else {
		defer r.intermediates.release(a)
		if p.lost != nil {
			r.Remote.Judge(p.lost, res.Status != sched.Failed)
		}
	}
	if res.Status != sched.Failed {
		switch {
		case p.starved && r.Verbatim:
			res.Retried = true
		case p.starved:
			res.Output = fmt.Appendf(res.Output, "kbuild: %s: it ran out of memory, and was built "+
				"again with nothing else running\n", a.Name)
		}
		r.withoutRepeats(a, &res)
		return res
	}
	r.drop(a)
	r.splitFailures.confirm(ctx, a, res)
	if own := (*check.OwnVariables)(nil); errors.As(res.Err, &own) {
		res.Help = own.Help()
	} else if !r.Verbatim {
		f := advice.Failure{Action: a, Said: string(res.Output), Root: r.Root, Build: r.Graph.BuildDir,
			Actions: r.actions(), Targets: r.Graph.Targets, Maker: r.Maker}
		res.Help = f.Help()
	}
	return res
}

// build runs a and publishes its outputs. It runs a again if an input's time is too recent to rule
// out a race: see stability.early. If local is not nil, a runs remotely, and locally as well once
// local is closed.
func (r *Runner) build(
	ctx context.Context, a *graph.Action, key actionKey, local <-chan struct{},
) sched.Result {
	for first := true; ; first = false {
		dir, err := r.scratches.place(a)
		if err != nil {
			return failed(err)
		}
		dir.local = local
		if a.InPlace {
			err = r.clear(a)
		}
		rec, stable, res := (*cache.Record)(nil), false, failed(err)
		if err == nil {
			rec, stable, res = r.attempt(ctx, a, key, dir)
		}
		early := first && rec != nil && !stable && r.stability.early(rec.Made)
		if rec != nil && !early {
			r.provenance.use(a, rec)
			res = r.publish(ctx, a, rec, res, dir, stable)
		}
		dir.remove(res.Status == sched.Failed || early)
		if !early {
			return res
		}
		// wait until files from before this kbuild are no longer too recent
		after(r.stability.clock, r.Begun.Add(cache.FileTick))
	}
}

// attempt runs a in dir, or in place, and captures what it wrote and read. The record is nil if a
// failed. stable is false if an input changed during the run.
func (r *Runner) attempt(
	ctx context.Context, a *graph.Action, key actionKey, dir scratch,
) (rec *cache.Record, stable bool, res sched.Result) {
	start := r.stability.start(a)
	var before map[string]fs.FileInfo
	if a.Kind.Info().Generates {
		before = r.generated.beside(a)
	}
	var functions []cache.Function
	commands := [][]string{a.Argv, a.Pass().DiagnosticArgv}
	if a.Kind.InProcess() {
		w := inprocess.Work{Action: a, Root: r.Root}
		for i, o := range a.Outputs {
			w.Files = append(w.Files, dir.output(i, o))
		}
		for _, f := range key.implicit { // of a manifest
			w.MadeFrom = f.Value
		}
		err := r.materialize(ctx, a, a.Argv)
		if err == nil {
			err = inprocess.Run(w)
		}
		if err != nil {
			return nil, false, failed(err)
		}
		res.Status, commands = sched.Ran, nil
	}
	for i, argv := range commands {
		first, folder := res, dir
		// A command that printed something runs again on the text with the true line numbers. The
		// outputs stay those of the canonical text, which is the same wherever the lines are. They
		// are replaced only if the first run failed and the second succeeded.
		if i == 1 {
			var end *ended
			if argv == nil || len(res.Output) == 0 && res.Status != sched.Failed ||
				errors.As(res.Err, &end) || errors.Is(res.Err, ErrLost) {
				break
			}
			folder = dir.again()
			if err := folder.makeFolders(a); err != nil {
				return nil, false, failed(err)
			}
		}
		c, err := r.prepare(ctx, a, argv, folder)
		var out run.Result
		switch {
		case err != nil:
		case dir.local != nil:
			out, err = r.Remote.Run(ctx, c, dir.local)
		default:
			out, err = c.Run(ctx)
		}
		res, functions = r.result(a, c, out, err)
		if i == 1 && first.Status == sched.Failed && res.Status != sched.Failed {
			for i, o := range a.Outputs {
				err := os.Rename(folder.output(i, o), dir.output(i, o))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, false, failed(err)
				}
			}
		}
		res.CPU += first.CPU
		res.Elapsed += first.Elapsed
	}
	if res.Status == sched.Failed {
		if a.Kind.Info().Generates {
			r.generated.discard(a, before)
		}
		return nil, false, res
	}

	var err error
	switch {
	case a.Kind.Info().Generates:
		if err = r.generated.take(a, before, dir.depfile()); err != nil {
			r.generated.discard(a, before)
		}
	case a.Work.Test != nil:
		err = os.WriteFile(dir.output(0, a.Outputs[0]), res.Output, 0o666)
		res.Output = nil // a test that passes prints nothing
	case a.Pass().Gate:
		err = regular.Copy(r.abs(a.Inputs[0]), dir.output(0, a.Outputs[0]))
	}
	if err == nil && a.Driver().Ships != nil {
		err = check.LostCode(r.Root, a, r.outputFile(a, 0, dir))
	}
	if err == nil && a.Kind.Info().LinksHost() {
		err = check.Variables(ctx, r, r.Root, a, dir.file("pass"))
	}
	if err == nil {
		rec, stable, err = r.capture(ctx, a, key, res, dir, start)
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
		return nil, false, res
	}
	rec.Functions = functions
	return rec, stable, res
}

// publish moves the outputs into place and records the run.
func (r *Runner) publish(
	ctx context.Context, a *graph.Action, rec *cache.Record, res sched.Result, dir scratch,
	stable bool,
) sched.Result {
	var err error
	if a.Intermediate {
		err = r.intermediates.publish(a, rec, dir)
	} else {
		for i, o := range rec.Outputs {
			if a.InPlace {
				r.Forget(o.Path)
			} else if err = r.place(dir.output(i, o.Path), o); err != nil {
				break
			}
		}
	}
	switch {
	case err != nil:
	case !stable:
		r.Records.Remove(a.Outputs[0])
		if !a.Intermediate {
			res.Output = fmt.Appendf(res.Output, "kbuild: %s: an input changed while it was being "+
				"built; it will be built again next time\n", a.Name)
		}
	default:
		if err = r.Records.Append(rec); err != nil {
			err = fmt.Errorf("recording the action: %w", err)
			break
		}
		r.share(ctx, a, rec)
	}
	if err != nil {
		res.Status, res.Err = sched.Failed, err
	}
	return res
}

// share puts a record and its outputs into the store, if there is one. It does not share an output
// that contains the time.
func (r *Runner) share(ctx context.Context, a *graph.Action, rec *cache.Record) {
	store := r.storeOf(a)
	if store == nil || r.discovery.TellsTime(a, rec.Discovered) ||
		discover.RunsEachTime(rec) != "" {
		return
	}
	err := store.Put(ctx, rec, func(o cache.Output) string { return r.abs(o.Path) })
	if err != nil && ctx.Err() == nil {
		r.warn(fmt.Sprintf("the cache cannot be written, building goes on without: %v", err))
	}
}

// withoutRepeats clears the output of a pass if another pass of the same command has printed it,
// unless Verbatim is set. The compile for each architecture prints the same warnings about the
// language.
func (r *Runner) withoutRepeats(a *graph.Action, res *sched.Result) {
	if r.Verbatim || !a.Intermediate || len(res.Output) == 0 {
		return
	}
	printed := [2]string{path.Dir(a.Outputs[0]), string(res.Output)}
	if _, repeated := r.printed.LoadOrStore(printed, true); repeated {
		res.Output = nil
	}
}

// warn reports trouble with the cache, only once: it costs time but fails no build.
func (r *Runner) warn(text string) {
	r.warning.Do(func() {
		if r.Warn != nil {
			r.Warn(text)
		}
	})
}

// Counters returns the hits and misses of the cache so far.
func (r *Runner) Counters() cache.Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counters
}

// TellsTime reports whether an output of this run contains the time of the build or of a file.
func (r *Runner) TellsTime() bool {
	for _, a := range r.Graph.Actions {
		if r.discovery.CommandTellsTime(a) {
			return true
		}
		rec := r.Records.LastRun(a.Outputs[0])
		if rec != nil && r.discovery.TellsTime(a, rec.Discovered) {
			return true
		}
	}
	return false
}

// RemoveTemp removes the folder for temporary files at the end of a build.
func (r *Runner) RemoveTemp() { run.RemoveTemp(r.scratches.dir, r.scratches.short) }

// lastRecords returns actions with their last records, one by one: all together would fill the
// memory.
func (r *Runner) lastRecords(ids []graph.ActionID) iter.Seq[discover.Recorded] {
	return func(yield func(discover.Recorded) bool) {
		for _, id := range ids {
			if !yield(r.lastRecord(r.Graph.Actions[id])) {
				return
			}
		}
	}
}

func (r *Runner) lastRecord(a *graph.Action) discover.Recorded {
	return discover.Recorded{Action: a, Record: r.Records.LastRun(a.Outputs[0])}
}

// Observed returns the paths that the run which found the actions ids up to date has observed: see
// discover. It leaves out the folder of parts, which kbuild itself writes and removes when a build
// ends.
func (r *Runner) Observed(ids []graph.ActionID) (observed []cache.Observation, ok bool) {
	return r.discovery.Observed(r.lastRecords(ids), path.Join(r.Graph.BuildDir, graph.PartsDir))
}

// Uses packs the paths that actions depend on, except files that other actions of the graph write:
// see discover. It returns the folders that the compilers searched, sorted.
func (r *Runner) Uses(ids []graph.ActionID, to *graph.Packer) (searched []string) {
	return discover.Searched(func(yield func(discover.Recorded) bool) {
		for of := range r.lastRecords(ids) {
			for _, p := range r.discovery.Uses(of) {
				to.Use(cache.Canonical(r.Root, p), of.Action.ID)
			}
			if !yield(of) {
				return
			}
		}
	})
}
