// Package execute does the work of actions in a real build tree: it decides by content whether an
// action is up to date, restores its outputs from the cache, or runs it and records the run. It
// does not plan actions or order them: the planner builds the graph, and package sched chooses what
// runs when.
//
// The rules that keep a build correct:
//
//   - Nothing is decided by time. An action is up to date if it has a valid record whose outputs
//     are on disk with the recorded digests. A record is valid if its key (tools, argv,
//     environment, declared inputs, all by content) and its discovered inputs equal today's.
//   - A command writes to temporary names; its outputs move into place after it succeeded. So a
//     killed build leaves old outputs or new ones, and the records tell them apart.
//   - If kbuild cannot know what an action read, the action runs and is not recorded.
//   - An output that comes out equal keeps its old file, so nothing downstream runs.
package execute

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
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
	// the tools that are host compilers and take options only from their commands
	Plain  map[string]bool
	Env    []string  // the complete environment of commands
	KeyEnv []string  // the part of Env that can change an output
	GPUEnv []string  // additional environment of tests that need a GPU: which GPU to use
	Begun  time.Time // when this kbuild started
	// is called for actions that failed for lack of memory; may be nil
	Starved func(*graph.Action)
	// a folder whose preprocessed texts are equal in other checkouts; "" for none: see
	// pptext.Options
	Base string
	// every pass prints all its messages, on stderr, even those that another pass of its command
	// printed
	Verbatim bool
	Warn     func(string) // reports trouble with the cache, at most once

	Remote Remote // nil without remote execution

	Misparsed map[string]bool // keys of the dry runs that are known to be misparsed
}

// Runner implements sched.Runner. It makes the decisions and delegates the work to its parts.
type Runner struct {
	Config
	makers        makers
	discovery     *discover.Discovery
	tree          buildTree
	generated     *generatedFiles
	intermediates *intermediates
	provenance    *provenance
	keys          *keys
	scratches     *scratches
	frontEnds     atomic.Int64 // number of front ends running now, see run.HugePages
	canonical     *canonicalizer
	stability     *stability
	misparses     *misparses
	repeated      repeatedOutput

	mu       sync.Mutex
	pending  map[graph.ActionID]*pending
	starved  map[graph.ActionID]bool // actions that failed for lack of memory
	warned   bool
	counters cache.Counters
}

// New returns a Runner for c.
func New(c Config) *Runner {
	r := &Runner{Config: c, pending: map[graph.ActionID]*pending{}, starved: map[graph.ActionID]bool{}}
	r.makers = makers{c.Graph, c.Outer}
	r.tree = buildTree{c.Root, c.Files, c.Listing}
	r.scratches = &scratches{root: c.Root, buildDir: c.Graph.BuildDir, dir: filepath.Join(c.State, "tmp")}
	r.intermediates = newIntermediates(r.makers, c.Root, c.IntermediateStore, r.remake)
	r.discovery = discover.New(discover.Config{
		Tree: discover.Tree{Root: c.Root, Listing: c.Listing, Digest: r.digest}, Env: c.Env, KeyEnv: c.KeyEnv, Tools: c.Tools, Plain: c.Plain,
		Made: r.makers.isMade, Intermediate: r.makers.isIntermediate, Query: r.query,
	})
	r.generated = &generatedFiles{makers: r.makers, tree: r.tree}
	r.provenance = &provenance{makers: r.makers, root: c.Root, tools: c.Tools, keyEnv: c.KeyEnv, digest: r.digest, named: r.discovery.Named}
	r.keys = &keys{makers: r.makers, root: c.Root, tools: c.Tools, env: c.Env, keyEnv: c.KeyEnv, gpuEnv: c.GPUEnv, digest: r.digest, named: r.discovery.Named, loaded: r.discovery.Loaded,
		undeclared: func(a *graph.Action, file string) error { return r.generated.undeclaredFile(a, r.discovery.Name(file)) }, steps: steps(r.provenance)}
	r.canonical = &canonicalizer{incbins: r.discovery.IncbinDigests, isRead: r.intermediates.isRead, base: c.Base}
	r.stability = &stability{makers: r.makers, root: c.Root, env: c.Env, discovery: r.discovery, files: c.Files, last: c.Records.Last, begun: c.Begun}
	r.misparses = &misparses{r: r}
	return r
}

// digest returns the digest of a file. For a file between passes it is the digest of the pass's
// output.
func (r *Runner) digest(file string) (cache.Digest, error) {
	if d, ok := r.intermediates.digest(file); ok {
		return d, nil
	}
	return r.Files.Digest(file)
}

// pending holds what Check learned about an action that must run.
type pending struct {
	actionKey
	reason string
	lost   error // of a remote run; nil if there was none
}

// Check implements sched.Runner.
func (r *Runner) Check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	res, settled := r.check(ctx, a)
	if settled {
		r.drop(a, &res)
		r.intermediates.release(a)
	}
	return res, settled
}

func (r *Runner) check(ctx context.Context, a *graph.Action) (sched.Result, bool) {
	key, err := r.keys.of(a)
	if err != nil {
		return failed(err), true
	}
	if rec, status := r.lookUp(ctx, a, key.key); rec != nil {
		if err := r.generated.undeclared(a, rec.Discovered); err != nil {
			return failed(err), true
		}
		if res, ok := r.restore(ctx, a, rec, status); ok {
			r.provenance.settled(a, rec)
			return res, true
		}
	}
	p := &pending{actionKey: key, reason: r.reason(a, key)}
	r.mu.Lock()
	r.pending[a.ID] = p
	r.counters.Misses++
	r.mu.Unlock()
	return sched.Result{Reason: p.reason}, false
}

// lookUp returns a valid record of a, or nil if a must run. The record comes from the build tree,
// if its outputs exist, or from the cache. Intermediate outputs need not exist: the build tree
// keeps none.
func (r *Runner) lookUp(ctx context.Context, a *graph.Action, key cache.Key) (rec *cache.Record, status sched.Status) {
	if a.Test().Each {
		return nil, ""
	}
	rec = r.recorded(a, key)
	if rec != nil && (r.discovery.Holds(a, rec) || r.discovery.HoldsInTokens(a, rec)) &&
		(a.Intermediate && len(rec.Outputs) == len(a.Outputs) || !a.Intermediate && r.hasOutputs(rec)) {
		return rec, sched.UpToDate
	}
	return r.stored(ctx, a, key), sched.Cached
}

// recorded returns the last record of the build tree with this key, or nil. It prefers a record of
// a itself.
func (r *Runner) recorded(a *graph.Action, key cache.Key) *cache.Record {
	if rec := r.Records.Last(a.Outputs[0]); rec != nil && rec.Command == key {
		return rec
	}
	return r.Records.ByCommand(key)
}

func (r *Runner) hasOutputs(rec *cache.Record) bool {
	return !slices.ContainsFunc(rec.Outputs, func(o cache.Output) bool { return !r.tree.holds(o) })
}

func failed(err error) sched.Result { return sched.Result{Status: sched.Failed, Err: err} }

// Execute implements sched.Runner.
func (r *Runner) Execute(ctx context.Context, a *graph.Action) sched.Result {
	return r.ExecuteRemote(ctx, a, nil)
}

// ExecuteRemote implements sched.Distributor. If local is nil, a runs only locally.
func (r *Runner) ExecuteRemote(ctx context.Context, a *graph.Action, local <-chan struct{}) sched.Result {
	res := r.executeChecked(ctx, a, local)
	if !res.Short && !res.Lost { // else the scheduler may execute it again
		r.intermediates.release(a)
	}
	return res
}

// executeChecked does the work of Execute, but does not release the files that a reads: the caller
// still needs them. If local is not nil, a runs remotely: see sched.Distributor.
func (r *Runner) executeChecked(ctx context.Context, a *graph.Action, local <-chan struct{}) sched.Result {
	r.mu.Lock()
	p := r.pending[a.ID]
	delete(r.pending, a.ID)
	r.mu.Unlock()

	res := r.execute(ctx, a, p.actionKey, local)
	res.Reason = p.reason
	if res.Lost = errors.Is(res.Err, ErrLost); res.Lost {
		r.mu.Lock()
		defer r.mu.Unlock()
		p.lost = res.Err
		r.pending[a.ID] = p
		return res
	}
	r.retryAlone(a, p, &res)
	if p.lost != nil && !res.Short {
		r.Remote.Judge(p.lost, res.Status != sched.Failed)
	}
	r.drop(a, &res)
	if res.Status == sched.Failed {
		r.tree.forget(a)
		r.misparses.confirm(ctx, a, res)
		if !r.Verbatim {
			if own := (*ownVariables)(nil); errors.As(res.Err, &own) {
				res.Help = own.help()
			} else {
				res.Help = r.advise(a, string(res.Output))
			}
		}
	}
	return res
}

// retryAlone prepares the retry of an action that failed for lack of memory. It reports the retry
// in res if the retry succeeded.
func (r *Runner) retryAlone(a *graph.Action, p *pending, res *sched.Result) {
	var e *ended
	res.Short = res.Status == sched.Failed && errors.As(res.Err, &e) && e.short
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case res.Short:
		if r.Starved != nil {
			r.Starved(a)
		}
		r.pending[a.ID] = p
		r.starved[a.ID] = true
	case r.starved[a.ID] && res.Status != sched.Failed && r.Verbatim:
		res.Retried = true
	case r.starved[a.ID] && res.Status != sched.Failed:
		res.Output = append(res.Output, []byte("kbuild: "+a.Name+": it ran out of memory, and was built again with nothing else running\n")...)
	}
}

// remake runs a pass again to rebuild its output files.
func (r *Runner) remake(ctx context.Context, a *graph.Action) error {
	key, err := r.keys.of(a)
	if err != nil {
		return err
	}
	if res := r.execute(ctx, a, key, nil); res.Status == sched.Failed {
		return fmt.Errorf("making %s again (%s): %w\n%s", a.Outputs[0], strings.Join(a.Argv, " "), res.Err, res.Output)
	}
	return nil
}

// warn reports trouble with the cache, only once: it costs time but fails no build.
func (r *Runner) warn(text string) {
	r.mu.Lock()
	first := !r.warned
	r.warned = true
	r.mu.Unlock()
	if first && r.Warn != nil {
		r.Warn(text)
	}
}

// Counters returns the hits and misses of the cache so far.
func (r *Runner) Counters() cache.Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counters
}

// Misparses returns the dry runs that this run found to be misparsed, sorted.
func (r *Runner) Misparses() []Misparse { return r.misparses.all() }

// TellsTime reports whether an output of this run contains the time of the build or of a file.
func (r *Runner) TellsTime() bool {
	for _, a := range r.Graph.Actions {
		if r.discovery.CommandTellsTime(a) {
			return true
		}
		if rec := r.Records.LastRun(a.Outputs[0]); rec != nil && r.discovery.TellsTime(a, rec.Discovered) {
			return true
		}
	}
	return false
}

// CopyIntermediate writes the output of a pass to the file name. The last run must have found the
// pass up to date or run it. The content comes from the cache, or from another run of the pass.
func (r *Runner) CopyIntermediate(ctx context.Context, output, name string) error {
	return r.intermediates.copy(ctx, output, name)
}

// RemoveTemp removes the folder for temporary files at the end of a build.
func (r *Runner) RemoveTemp() { r.scratches.remove() }

// drop removes repeated output from res, unless Verbatim is set.
func (r *Runner) drop(a *graph.Action, res *sched.Result) {
	if !r.Verbatim {
		r.repeated.drop(a, res)
	}
}

// repeatedOutput remembers the output of the passes of each command in this run.
type repeatedOutput struct{ seen sync.Map }

// drop clears the output of a if another pass of the same command has printed it. The compile for
// each architecture prints the same warnings about the language.
func (o *repeatedOutput) drop(a *graph.Action, res *sched.Result) {
	if !a.Intermediate || res.Status == sched.Failed || len(res.Output) == 0 {
		return
	}
	if _, seen := o.seen.LoadOrStore([2]string{path.Dir(a.Outputs[0]), string(res.Output)}, true); seen {
		res.Output = nil
	}
}
