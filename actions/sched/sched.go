// Package sched decides what runs when: it walks a graph with a bounded number of processes,
// critical path first, and knows nothing of compilers, caches or terminals.
package sched

import (
	"context"
	"time"

	"github.com/kbuild-dev/kbuild/graph"
)

// Status is how an action ended.
type Status string

const (
	Ran      Status = "ran"        // executed a process
	Cached   Status = "cached"     // outputs restored from the action cache
	UpToDate Status = "up_to_date" // nothing to do
	Failed   Status = "failed"
	Skipped  Status = "skipped" // not tried: something it needs failed, or the build was stopped
)

// NoRecord is the Reason of an action that has not run before in its build tree.
const NoRecord = "no record of an earlier run in this build tree"

// Result of one action.
type Result struct {
	Status  Status
	Err     error         // for Failed
	Output  []byte        // what the command said; shown as one piece
	Help    []string      // of Failed: what to do about it, in sentences
	Reason  string        // why it ran: NoRecord, "input src/a.cu changed", ...
	Argv    []string      // what was executed
	Elapsed time.Duration // wall time of the process
	CPU     time.Duration
	MaxRSS  int64  // bytes, of the largest process; 0 is unknown
	Worker  string // the other machine that it ran on; "" is this one
	Short   bool   // of Failed: memory was short, so that it may succeed with nothing beside it
	Retried bool   // it did so before
	Lost    bool   // of Failed, elsewhere: it says nothing of the action, which must be executed here
}

// Runner does the work of actions. Both methods are called concurrently for different actions,
// never before everything the action needs has ended well, and Execute only after Check of the same
// action.
type Runner interface {
	// Check settles an action without starting a process, if it can: up to date, restored from the
	// cache, or failed. ok is false if Execute must be called.
	Check(ctx context.Context, a *graph.Action) (res Result, ok bool)
	// Execute runs the action. It holds one of Options.Jobs slots (and a jobserver token). It is
	// called once more if the first time ended Short while others ran: then no other action is
	// executed beside it.
	Execute(ctx context.Context, a *graph.Action) Result
}

// Distributor is a Runner that can also execute actions on other machines.
type Distributor interface {
	Runner
	// Portable reports whether an action may be executed elsewhere, and is worth it. It is asked
	// once, when the action must run.
	Portable(a *graph.Action) bool
	// Open reports whether other machines take actions now, and Opened is closed when that is first
	// known.
	Open() bool
	Opened() <-chan struct{}
	// ExecuteElsewhere is Execute for an action that holds one of Options.Elsewhere. When here is
	// closed it has one of Options.Jobs as well: nothing else wants that one, so the action may be
	// executed here too, and whichever ends well first decides.
	ExecuteElsewhere(ctx context.Context, a *graph.Action, here <-chan struct{}) Result
}

// Observer is told what happens, from one goroutine, in order.
type Observer interface {
	Start(total int)                                     // once, before anything else
	Started(a *graph.Action)                             // a process is about to run
	Finished(a *graph.Action, r Result, done, total int) // also for settled and skipped actions
}

// Jobserver hands out the right to run one more process, as GNU make's does. The first slot of
// every client is implicit: sched acquires a token only for the second and further concurrent
// processes.
type Jobserver interface {
	Acquire(ctx context.Context) (token byte, err error)
	Release(token byte)
}

// Broker shares the machine with other runs.
type Broker interface {
	// Acquire waits for the right to execute an action that is expected to take so many bytes of
	// memory, and knows how much of the machine that is. An error that is not that of ctx says that
	// the broker does not work: the run goes on without it.
	Acquire(ctx context.Context, a *graph.Action, memory int64) (Lease, error)
}

// Lease is such a right. It is given back as soon as the action has ended.
type Lease interface{ Release() }

// Options bound a run.
type Options struct {
	Jobs      int                                 // processes at once; at least 1
	Checks    int                                 // checks at once; 0 is for those that only read and hash files
	KeepGoing int                                 // stop after this many failures; 0 is never stop
	Pools     map[string]int                      // processes at once in each pool
	Jobserver Jobserver                           // nil if there is none
	Broker    Broker                              // nil if there is none
	Crowded   bool                                // other runs like this one are beside it: what ends Short here may do so for their memory
	MaxLoad   float64                             // start no further process above this load average; 0 is no limit
	Load      func() float64                      // 1-minute load average; nil reads the system's
	Cost      func(a *graph.Action) time.Duration // expected wall time, for the critical path; nil is 1 each
	Budget    int64                               // bytes of memory for all processes together; 0 is no limit
	Elsewhere int                                 // actions at once on other machines, by a Distributor
	Overdue   func(a *graph.Action) time.Duration // after which one elsewhere is waited for no longer, and may have a slot here before others; nil is never
	Memory    func(a *graph.Action) int64         // expected peak of memory in bytes; nil is none
}

// Summary counts the results of a run.
type Summary struct {
	Actions, Ran, Cached, UpToDate, Failed, Skipped int
	Interrupted                                     bool // ctx was cancelled
}
