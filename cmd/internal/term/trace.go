package term

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// Trace records a run for --trace in the Chrome trace event format, which Perfetto opens
// (https://ui.perfetto.dev). It has one thread per job slot and one slice per process. Restored
// outputs are instants. A counter shows the running processes. Trace implements sched.Observer.
type Trace struct {
	file string

	mu     sync.Mutex
	begin  time.Time
	events []traceEvent
	slots  []*traceEvent // by job slot; nil means free
	open   map[graph.ActionID]int
}

// traceEvent is one entry of the trace event format; times are in microseconds since Start.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	TS    int64          `json:"ts"`
	Dur   *int64         `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Cat   string         `json:"cat,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// A trace has one process. Thread 0 holds actions without a process; job slots start at 1.
const (
	tracePID     = 1
	settledTrack = 0
)

var _ sched.Observer = (*Trace)(nil)

// NewTrace returns a Trace that Finish writes to file.
func NewTrace(file string) *Trace {
	return &Trace{file: file, begin: time.Now(), open: map[graph.ActionID]int{}}
}

// Start implements sched.Observer.
func (t *Trace) Start(int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin = time.Now()
}

func (t *Trace) now() int64 { return time.Since(t.begin).Microseconds() }

// Started implements sched.Observer. The action takes the lowest free slot.
func (t *Trace) Started(a *graph.Action) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := slices.Index(t.slots, nil)
	if slot < 0 {
		slot = len(t.slots)
		t.slots = append(t.slots, nil)
	}
	t.slots[slot] = &traceEvent{Name: describe(a), Phase: "X", TS: t.now(), PID: tracePID, TID: slot + 1, Cat: category(a), Args: traceArgs(a)}
	t.open[a.ID] = slot
	t.count()
}

// category returns the kind and the lane of an action. Perfetto can filter by either.
func category(a *graph.Action) string { return string(a.Kind) + "," + string(a.Kind.Info().Lane) }

func traceArgs(a *graph.Action) map[string]any {
	args := map[string]any{"id": int(a.ID), "target": a.Target, "argv": a.Argv}
	if len(a.Archs) > 0 {
		args["archs"] = a.Archs
	}
	return args
}

// Finished implements sched.Observer.
func (t *Trace) Finished(a *graph.Action, r sched.Result, _, _ int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot, ran := t.open[a.ID]
	if !ran {
		t.settled(a, r)
		return
	}
	delete(t.open, a.ID)
	e := t.slots[slot]
	if len(r.Argv) > 0 {
		e.Args["argv"] = r.Argv
	}
	e.Args["cpu_ms"], e.Args["max_rss"] = r.CPU.Milliseconds(), r.MaxRSS
	if r.Worker != "" {
		e.Args["worker"] = r.Worker
	}
	if r.Reason != "" {
		e.Args["reason"] = r.Reason
	}
	t.close(slot, string(r.Status))
}

// settled adds an instant for an action that was restored or failed without a process. Other
// actions take no measurable time.
func (t *Trace) settled(a *graph.Action, r sched.Result) {
	if r.Status != sched.Cached && r.Status != sched.Failed {
		return
	}
	args := traceArgs(a)
	args["status"] = string(r.Status)
	t.events = append(t.events, traceEvent{Name: describe(a), Phase: "i", TS: t.now(), PID: tracePID, TID: settledTrack, Cat: category(a), Scope: "t", Args: args})
}

func (t *Trace) close(slot int, status string) {
	e := t.slots[slot]
	dur := t.now() - e.TS
	e.Dur = &dur
	e.Args["status"] = status
	t.events = append(t.events, *e)
	t.slots[slot] = nil
	t.count()
}

// count adds a point to the counter of running processes.
func (t *Trace) count() {
	n := 0
	for _, e := range t.slots {
		if e != nil {
			n++
		}
	}
	t.events = append(t.events, traceEvent{Name: "running", Phase: "C", TS: t.now(), PID: tracePID, Args: map[string]any{"processes": n}})
}

// Finish writes the file atomically. Actions that still run end as "interrupted".
func (t *Trace) Finish() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for slot, e := range t.slots {
		if e != nil {
			t.close(slot, "interrupted")
		}
	}
	clear(t.open)
	text, err := json.Marshal(struct {
		Unit   string       `json:"displayTimeUnit"`
		Events []traceEvent `json:"traceEvents"`
	}{"ms", append(t.metadata(), t.events...)})
	if err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	if err := ReplaceFile(t.file, append(text, '\n')); err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	return nil
}

// metadata names the process and its threads, and fixes the order of the threads.
func (t *Trace) metadata() []traceEvent {
	meta := func(tid int, name string, args map[string]any) traceEvent {
		return traceEvent{Name: name, Phase: "M", PID: tracePID, TID: tid, Args: args}
	}
	list := []traceEvent{meta(settledTrack, "process_name", map[string]any{"name": "kbuild"})}
	for tid := range len(t.slots) + 1 {
		name := fmt.Sprintf("job %d", tid)
		if tid == settledTrack {
			name = "cache"
		}
		list = append(list, meta(tid, "thread_name", map[string]any{"name": name}),
			meta(tid, "thread_sort_index", map[string]any{"sort_index": tid}))
	}
	return list
}

// ReplaceFile replaces a file atomically. A device such as /dev/stdout is written in place.
func ReplaceFile(file string, text []byte) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(file, text, 0o666)
	}
	return regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// Tee forwards events to several observers, in order.
type Tee []sched.Observer

// Start implements sched.Observer.
func (t Tee) Start(total int) {
	for _, o := range t {
		o.Start(total)
	}
}

// Started implements sched.Observer.
func (t Tee) Started(a *graph.Action) {
	for _, o := range t {
		o.Started(a)
	}
}

// Finished implements sched.Observer.
func (t Tee) Finished(a *graph.Action, r sched.Result, done, total int) {
	for _, o := range t {
		o.Finished(a, r, done, total)
	}
}
