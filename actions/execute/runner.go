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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/discover"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

// Config is what a Runner works with.
type Config struct {
	Graph             *graph.Graph
	Outer             *graph.Packed       // the graph that Graph is a part of; nil if it is whole
	Root              string              // project root, absolute: the folder every command runs in
	State             string              // folder for temporary files, absolute
	Files             *cache.Files        // digests of files, memoised by stat
	Listing           *cache.Listing      // which paths exist, by folder
	Records           *tree.DB            // the last records of this build tree
	Store             cache.Store         // the shared cache; nil without
	IntermediateStore cache.Store         // keeps what compiler passes make for others: the shared cache, or one of the build tree; nil without
	Tools             map[string]string   // identity by content of the tools that actions name
	Plain             map[string]bool     // of those, host compilers that take options from their commands alone
	Env               []string            // the complete environment of commands
	KeyEnv            []string            // the part of Env that can change an output
	GPUEnv            []string            // what tests that need a GPU have besides: which one to use
	Begun             time.Time           // when this kbuild started
	Starved           func(*graph.Action) // is told what ended since memory was short; may be nil
	Base              string              // a folder whose texts are the same at another place; "" is none: see pptext.Options
	Verbatim          bool                // every pass says what it has to say, on standard error, though another pass of its command has said it
	Warn              func(string)        // told once of what is wrong with the cache

	Elsewhere Elsewhere                         // runs commands on other machines; nil without
	Platform  [][2]string                       // what those machines must be, in the server's words; {memory} stands for bytes
	Cost      func(*graph.Action) time.Duration // expected time here; needed with Elsewhere
	Memory    func(*graph.Action) int64         // expected peak in bytes; nil is unknown

	Misparsed map[string]bool // questions to compilers whose answers are known to be misparsed
}

// Runner implements sched.Runner. It decides, and leaves the rest to its parts.
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
	processes     *processes
	canonical     *canonicalizer
	stability     *stability
	carrier       *carrier // nil without other machines
	misparses     *misparses
	repeated      repeatedOutput

	mu       sync.Mutex
	pending  map[graph.ActionID]*pending
	starved  map[graph.ActionID]bool // memory was, once
	warned   bool
	counters cache.Counters
}

// New makes a Runner.
func New(c Config) *Runner {
	r := &Runner{Config: c, pending: map[graph.ActionID]*pending{}, starved: map[graph.ActionID]bool{}}
	r.makers = makers{c.Graph, c.Outer}
	r.tree = buildTree{c.Root, c.Files, c.Listing}
	r.scratches = &scratches{root: c.Root, buildDir: c.Graph.BuildDir, dir: filepath.Join(c.State, "tmp")}
	r.processes = &processes{root: c.Root, env: c.Env, gpuEnv: c.GPUEnv, scratches: r.scratches, errorOnly: c.Verbatim}
	r.intermediates = newIntermediates(r.makers, c.Root, c.IntermediateStore, r.remake)
	r.discovery = discover.New(discover.Config{
		Tree: discover.Tree{Root: c.Root, Listing: c.Listing, Digest: r.digest}, Env: c.Env, KeyEnv: c.KeyEnv, Tools: c.Tools, Plain: c.Plain,
		Made: r.makers.isMade, Intermediate: r.makers.isIntermediate, Ask: r.processes.ask,
	})
	r.generated = &generatedFiles{makers: r.makers, tree: r.tree}
	r.provenance = &provenance{makers: r.makers, root: c.Root, tools: c.Tools, keyEnv: c.KeyEnv, digest: r.digest, named: r.discovery.Named}
	r.keys = &keys{makers: r.makers, root: c.Root, tools: c.Tools, env: c.Env, keyEnv: c.KeyEnv, gpuEnv: c.GPUEnv, digest: r.digest, named: r.discovery.Named, loaded: r.discovery.Loaded,
		undeclared: func(a *graph.Action, file string) error { return r.generated.undeclaredFile(a, r.discovery.Name(file)) }, steps: steps(r.provenance)}
	r.canonical = &canonicalizer{incbins: r.discovery.IncbinDigests, isRead: r.intermediates.isRead, base: c.Base}
	r.stability = &stability{makers: r.makers, root: c.Root, env: c.Env, discovery: r.discovery, files: c.Files, last: c.Records.Last, begun: c.Begun}
	if c.Elsewhere != nil {
		r.carrier = &carrier{elsewhere: c.Elsewhere, platform: c.Platform, cost: c.Cost, memory: c.Memory, root: c.Root, env: c.Env, keyEnv: c.KeyEnv, files: c.Files,
			digest: r.digest, named: r.discovery.Named, ask: r.processes.ask, here: r.processes.runHere}
		r.processes.carrier = r.carrier
	}
	r.misparses = &misparses{makers: r.makers, processes: r.processes, exists: c.Listing.Exists, known: c.Misparsed}
	return r
}

// digest is the content of a file; of one between passes, what its pass made.
func (r *Runner) digest(file string) (cache.Digest, error) {
	if d, ok := r.intermediates.digest(file); ok {
		return d, nil
	}
	return r.Files.Digest(file)
}

// pending is what Check learned of an action that must run.
type pending struct {
	actionKey
	reason string
	there  error // how it ended on another machine, where it was lost
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

// lookUp returns the record by which a need not run: one of the build tree, whose outputs are
// there, or one of the cache. It is nil if a must run. Of intermediates the build tree has no
// outputs.
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

// recorded is the last record of the build tree with this key, of a if there is one; else nil.
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
	return r.ExecuteElsewhere(ctx, a, nil)
}

// ExecuteElsewhere implements sched.Distributor. If here is nil a runs on this machine alone.
func (r *Runner) ExecuteElsewhere(ctx context.Context, a *graph.Action, here <-chan struct{}) sched.Result {
	res := r.executeChecked(ctx, a, here)
	if !res.Short && !res.Lost { // else it may be executed again
		r.intermediates.release(a)
	}
	return res
}

// executeChecked is Execute for one who goes on to read what a reads. If here is not nil a runs
// elsewhere, see sched.Distributor.
func (r *Runner) executeChecked(ctx context.Context, a *graph.Action, here <-chan struct{}) sched.Result {
	r.mu.Lock()
	p := r.pending[a.ID]
	delete(r.pending, a.ID)
	r.mu.Unlock()

	res := r.execute(ctx, a, p.actionKey, here)
	res.Reason = p.reason
	if res.Lost = errors.Is(res.Err, errLost); res.Lost {
		r.mu.Lock()
		defer r.mu.Unlock()
		p.there = res.Err
		r.pending[a.ID] = p
		return res
	}
	r.retryAlone(a, p, &res)
	if p.there != nil && !res.Short {
		r.carrier.judge(p.there, res.Status != sched.Failed)
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

// retryAlone makes ready for another time what failed because memory was short, and tells of that
// time if it went well.
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

// remake runs a pass again for its files.
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

// Misparses are the questions to compilers whose answers this run found to be misparsed, sorted.
func (r *Runner) Misparses() []Misparse { return r.misparses.all() }

// TellsTime reports that an output of this run holds the time, or that of a file.
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

// CopyIntermediate writes the output of a pass that the last run settled to the file name: from the
// cache, or by running the pass again if no cache has it.
func (r *Runner) CopyIntermediate(ctx context.Context, output, name string) error {
	return r.intermediates.copy(ctx, output, name)
}

// RemoveTemp removes the folder for temporary files, at the end of a build.
func (r *Runner) RemoveTemp() { r.scratches.remove() }

// drop drops what was said before.
func (r *Runner) drop(a *graph.Action, res *sched.Result) {
	if !r.Verbatim {
		r.repeated.drop(a, res)
	}
}

// repeatedOutput is what was said in this run by passes of one command.
type repeatedOutput struct{ seen sync.Map }

// drop drops what another pass of the same command has said: a warning of the language comes from
// the compile for every architecture.
func (o *repeatedOutput) drop(a *graph.Action, res *sched.Result) {
	if !a.Intermediate || res.Status == sched.Failed || len(res.Output) == 0 {
		return
	}
	if _, seen := o.seen.LoadOrStore([2]string{path.Dir(a.Outputs[0]), string(res.Output)}, true); seen {
		res.Output = nil
	}
}
