// Package sched decides what runs when: it walks a graph with a bounded number of processes,
// critical path first. It knows nothing of compilers, caches or terminals.
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

// Result is the result of one action.
type Result struct {
	Status      Status
	Err         error         // for Failed
	Output      []byte        // output of the command; shown as one piece
	Help        []string      // for Failed: what to do about it, in sentences
	Reason      string        // why it ran: NoRecord, "input src/a.cu changed", ...
	Argv        []string      // what was executed
	Elapsed     time.Duration // wall time of the process
	CPU         time.Duration
	MaxRSS      int64  // bytes, of the largest process; 0 means unknown
	Worker      string // the remote worker that it ran on; "" if it ran locally
	OutOfMemory bool   // for Failed: it may succeed with nothing beside it
	Retried     bool   // it succeeded after it had ended OutOfMemory
	// for Failed, remotely: it says nothing about the action, which must be executed locally
	Lost bool
	// of Check: it may be executed remotely, and is worth the transfer of its files
	Portable bool
}

// Runner does the work of actions. Both methods are called concurrently for different actions, and
// only after everything the action needs has ended well. Execute is called only after Check of the
// same action.
type Runner interface {
	// Check ends an action without starting a process, if it can: up to date, restored from the
	// cache, or failed. ok is false if Execute must be called.
	Check(ctx context.Context, a *graph.Action) (res Result, ok bool)
	// Execute runs the action. If local is nil, the action holds one of Options.Jobs slots (and a
	// jobserver token). Execute is called again if the first run ended OutOfMemory while others
	// ran. Then no other action is executed beside it.
	//
	// If local is not nil, the action is Portable, holds one of Options.Elsewhere, and is executed
	// remotely. When local is closed, it has one of Options.Jobs as well, which no other action
	// needs. So it may be executed locally too, and the first run that ends well decides.
	Execute(ctx context.Context, a *graph.Action, local <-chan struct{}) Result
}

// Remote reports whether remote workers take actions.
type Remote interface {
	Executes() bool
	// Ready returns a channel that is closed when the answer of Executes is first known.
	Ready() <-chan struct{}
}

// Observer is notified of what happens, from one goroutine, in order.
type Observer interface {
	Start(total int)                                     // once, before anything else
	Started(a *graph.Action)                             // a process is about to run
	Finished(a *graph.Action, r Result, done, total int) // also for actions that ran no process
}

// Jobserver grants the right to run one more process, as GNU make's does. The first slot of every
// client is implicit: sched acquires a token only for the second and further concurrent processes.
type Jobserver interface {
	Acquire(ctx context.Context) (token byte, err error)
	Release(token byte)
}

// Broker shares the machine with other runs.
type Broker interface {
	// Acquire waits for the right to execute an action that is expected to take so many bytes of
	// memory. The broker knows how much of the machine that is. An error other than ctx's reports
	// that the broker does not work: the run goes on without it.
	Acquire(ctx context.Context, a *graph.Action, memory int64) (Lease, error)
}

// Lease is that right. The run releases it as soon as the action has ended.
type Lease interface{ Release() }

// Options configures and limits a run.
type Options struct {
	Jobs      int            // concurrent processes; at least 1
	Checks    int            // concurrent checks; 0 is for those that only read and hash files
	KeepGoing int            // stop after this many failures; 0 means never
	Pools     map[string]int // concurrent processes in each pool
	Jobserver Jobserver      // nil if there is none
	Broker    Broker         // nil if there is none
	// other runs like this one share the machine: an action may run out of memory because of them
	SharedMachine bool
	MaxLoad       float64        // start no further process above this load average; 0 means no limit
	Load          func() float64 // 1-minute load average; nil reads the system's
	Estimates     Estimates      // nil: all actions cost the same and need no memory
	Budget        int64          // bytes of memory for all processes together; 0 means no limit
	Remote        Remote         // nil if nothing runs remotely
	Elsewhere     int            // concurrent remote actions
}

// Estimates are what an action is expected to take locally.
type Estimates interface {
	Cost(a *graph.Action) time.Duration // wall time, for the critical path
	Memory(a *graph.Action) int64       // peak in bytes; 0 is negligible or unknown
	// Overdue returns the time after which a remote action may get a local slot before others.
	Overdue(a *graph.Action) time.Duration
}

// Summary counts the results of a run.
type Summary struct {
	Actions, Ran, Cached, UpToDate, Failed, Skipped int
	Interrupted                                     bool // ctx was cancelled
}
