package term

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
	"github.com/kbuild-dev/kbuild/graph"
)

// events writes one JSON object per line. New fields may be added; existing fields keep their names
// and meaning. A nil *events writes nothing.
type events struct {
	enc *json.Encoder
	dry bool
}

type startedEvent struct {
	Event string `json:"event"`
	Total int    `json:"total"`
}

// actionEvent identifies an action. Both action events begin with it.
type actionEvent struct {
	Event  string         `json:"event"`
	ID     graph.ActionID `json:"id"`
	Kind   graph.Kind     `json:"kind"`
	Target string         `json:"target"`
	Name   string         `json:"name"`
	Archs  []string       `json:"archs"`
}

type actionFinishedEvent struct {
	actionEvent
	Status    sched.Status `json:"status"`
	ElapsedMS int64        `json:"elapsed_ms"`
	CPUMS     int64        `json:"cpu_ms"`
	MaxRSS    int64        `json:"max_rss"`          // bytes; 0 is unknown
	Worker    string       `json:"worker,omitempty"` // name of the remote worker
	Reason    string       `json:"reason,omitempty"` // why it ran
	Output    string       `json:"output,omitempty"` // of the command, invalid UTF-8 replaced
	Error     string       `json:"error,omitempty"`
	Help      []string     `json:"help,omitempty"`  // how to fix it, in sentences
	Argv      []string     `json:"argv,omitempty"`  // for failures
	Whole     string       `json:"whole,omitempty"` // why the compiler runs unsplit
}

type diagnosticEvent struct {
	Event    string `json:"event"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
}

// messageEvent is a compiler or linker message about a location. Passes for several architectures
// may report the same message.
type messageEvent struct {
	Event    string            `json:"event"`
	Action   graph.ActionID    `json:"action"`
	Target   string            `json:"target"`
	Archs    []string          `json:"archs"`
	Severity messages.Severity `json:"severity"`
	File     string            `json:"file,omitempty"`
	Line     int               `json:"line,omitempty"`
	Column   int               `json:"column,omitempty"`
	Code     string            `json:"code,omitempty"`
	Text     string            `json:"text"`
	Tool     string            `json:"tool,omitempty"`
}

type finishedEvent struct {
	Event    string `json:"event"`
	OK       bool   `json:"ok"`
	Actions  int    `json:"actions"`
	Ran      int    `json:"ran"`
	Cached   int    `json:"cached"`
	UpToDate int    `json:"up_to_date"`
	Failed   int    `json:"failed"`
	Skipped  int    `json:"skipped"`
	WallMS   int64  `json:"wall_ms"`

	DryRun bool `json:"dry_run,omitempty"` // the counts are hypothetical
}

// write ignores errors: the owner of the writer reports them.
func (e *events) write(v any) {
	if e != nil {
		_ = e.enc.Encode(v)
	}
}

func actionEventOf(event string, a *graph.Action) actionEvent {
	archs := a.Archs
	if archs == nil {
		archs = []string{}
	}
	return actionEvent{event, a.ID, a.Kind, a.Target, a.Name, archs}
}

func (e *events) actionFinished(a *graph.Action, r sched.Result) {
	if e == nil {
		return
	}
	for _, m := range messages.Parse(string(r.Output)) {
		archs := a.CodeFor()
		if archs == nil {
			archs = []string{}
		}
		e.write(messageEvent{"message", a.ID, a.Target, archs, m.Severity, m.File, m.Line, m.Column, m.Code, strings.ToValidUTF8(m.Text, "\ufffd"), m.Tool})
	}
	ev := actionFinishedEvent{
		actionEvent: actionEventOf("action_finished", a),
		Status:      r.Status, ElapsedMS: r.Elapsed.Milliseconds(), CPUMS: r.CPU.Milliseconds(), MaxRSS: r.MaxRSS, Worker: r.Worker,
		Reason: r.Reason, Help: r.Help, Output: strings.ToValidUTF8(string(r.Output), "\ufffd"), Whole: a.Driver().UnsplitReason,
	}
	if status := wouldBe[r.Status]; e.dry && status != "" {
		ev.Status = status
	}
	if r.Err != nil {
		ev.Error = r.Err.Error()
	}
	if r.Status == sched.Failed {
		if ev.Argv = r.Argv; len(ev.Argv) == 0 {
			ev.Argv = a.Argv
		}
	}
	e.write(ev)
}

func (e *events) finished(s sched.Summary, ok bool, wall time.Duration) {
	ok = ok && s.Failed == 0 && s.Skipped == 0 && !s.Interrupted
	ev := finishedEvent{Event: "finished", OK: ok, Actions: s.Actions, Ran: s.Ran, Cached: s.Cached, UpToDate: s.UpToDate, Failed: s.Failed,
		Skipped: s.Skipped, WallMS: wall.Milliseconds()}
	if e != nil {
		ev.DryRun = e.dry
	}
	e.write(ev)
}

// wouldBe maps a status to the one that a dry run reports.
var wouldBe = map[sched.Status]sched.Status{sched.Ran: "would_run", sched.Cached: "would_restore"}
