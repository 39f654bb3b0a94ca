// Package term shows a build: a live status on a terminal, plain lines in logs, JSON events and
// traces. It knows how actions are displayed, and not how they are planned or run.
package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Options configures a Progress. The zero value shows plain lines on standard error.
type Options struct {
	Err  io.Writer // progress, failures, diagnostics; nil is standard error
	JSON io.Writer // gets the event stream; nil is none

	Mode    Mode   // "" is Auto
	Color   string // "auto" or "", "always", "never"
	Verbose bool   // command lines, and lines for actions that needed no process
	Quiet   bool   // failures only
	DryRun  bool   // nothing runs: report what would run
	GitHub  bool   // the log is a GitHub workflow's: fold long outputs

	Jobs     int                                            // processes at once, for the estimate
	Actions  []*graph.Action                                // of this run, for the estimate
	Expected func(*graph.Action) (d time.Duration, ok bool) // from past runs; nil if there are none

	Size func() (cols, rows int) // of the terminal; nil queries it
}

// redrawInterval limits how often the live lines are redrawn. Ten times a second looks live, and
// stays cheap when a thousand actions finish in that time.
const redrawInterval = 100 * time.Millisecond

// stopped is the time without redrawing after which kbuild was stopped by the user (Ctrl-Z), and a
// shell has written to the terminal.
const stopped = 2 * time.Second

// liveLines is the maximum number of live lines.
const liveLines = 5

// Progress shows one run. It implements sched.Observer. Its other methods may be called from any
// goroutine. Finish must be called at the end, or the live lines stay on the terminal.
type Progress struct {
	opts   Options
	mode   Mode
	color  bool
	events *events

	mu       sync.Mutex
	live     live
	drawn    bool // the live lines were shown since Start
	done     int
	total    int
	cached   int
	began    time.Time
	spoke    time.Time // when the last line was written
	redrawn  time.Time // when the live lines were last drawn
	failures failures
	errors   int // diagnostics that fail the run
	running  []runningAction
	forecast *forecast
	quit     chan struct{} // stops the ticker
	gone     chan struct{} // the ticker has stopped
}

type runningAction struct {
	action *graph.Action
	start  time.Time
}

var _ sched.Observer = (*Progress)(nil)

// New returns a Progress. It writes nothing before the first event.
func New(o Options) *Progress {
	if o.Err == nil {
		o.Err = os.Stderr
	}
	if o.Size == nil {
		o.Size = func() (int, int) { return windowSize(o.Err) }
	}
	watched := IsTerminal(o.Err) && !InCI()
	p := &Progress{
		opts:     o,
		mode:     o.Mode.resolve(watched),
		color:    Color(o.Color, watched),
		live:     live{w: o.Err},
		forecast: newForecast(o),
	}
	if o.Quiet {
		p.mode = None
	}
	if o.JSON != nil {
		p.events = &events{json.NewEncoder(o.JSON), o.DryRun}
		p.events.enc.SetEscapeHTML(false)
	}
	return p
}

// Start implements sched.Observer.
func (p *Progress) Start(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.began = total, time.Now()
	p.events.write(startedEvent{"started", total})
	if p.mode == None || p.quit != nil {
		return
	}
	p.quit, p.gone = make(chan struct{}), make(chan struct{})
	p.spoke = p.began
	go p.tick()
}

// tick draws the live lines, or breaks the silence of Plain mode, at every interval until quit
// closes. It begins after one interval, so a run with nothing to do does not flash.
func (p *Progress) tick() {
	defer close(p.gone)
	interval := redrawInterval
	if p.mode == Plain {
		interval = heartbeat
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-t.C:
			p.mu.Lock()
			if p.mode == Plain {
				p.stillRunning(now)
			} else {
				p.drawn = true
				p.redraw(nil)
			}
			p.mu.Unlock()
		}
	}
}

// heartbeat is the interval at which Plain mode checks for silence. silence is the longest time
// without a line, because CI systems kill jobs that print nothing for minutes.
const (
	heartbeat = 5 * time.Second
	silence   = time.Minute
)

// stillRunning writes the longest running action into a log that was silent for too long.
func (p *Progress) stillRunning(now time.Time) {
	if now.Sub(p.spoke) < silence || len(p.running) == 0 {
		return
	}
	line := fmt.Sprintf("still running: %s %s", describe(p.running[0].action), clock(now.Sub(p.running[0].start)))
	if more := len(p.running) - 1; more > 0 {
		line += fmt.Sprintf(", and %d more", more)
	}
	p.permanent([]byte(line + "\n"))
}

// Started implements sched.Observer.
func (p *Progress) Started(a *graph.Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, runningAction{a, time.Now()})
	p.events.write(actionEventOf("action_started", a))
	if p.mode == Plain && !p.opts.DryRun {
		p.permanent(p.startsLong(a))
	}
}

// longAction is the expected duration from which Plain mode announces the start of an action.
const longAction = 30 * time.Second

// startsLong returns a line that announces a long action. It returns nil for other actions.
func (p *Progress) startsLong(a *graph.Action) []byte {
	about := ""
	if d, known := p.forecast.expect(a); known && d >= longAction {
		about = "it took " + clock(d) + " the last time"
	} else if !known && a.Link().LTO && a.Kind.Info().LTOMemory > 0 {
		about = "it optimises all that it links"
	}
	if about == "" {
		return nil
	}
	return []byte(fmt.Sprintf("[%d/%d] %s starts; %s\n", p.done, p.total, describe(a), about))
}

// Finished implements sched.Observer.
func (p *Progress) Finished(a *graph.Action, r sched.Result, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
	for i, run := range p.running {
		if run.action.ID == a.ID {
			p.running = append(p.running[:i], p.running[i+1:]...)
			break
		}
	}
	if r.Status == sched.Cached {
		p.cached++
	}
	p.failures.ran(a, r.Reason)
	p.forecast.finished(a, r.Status == sched.Ran, r.Elapsed)
	p.events.actionFinished(a, r)
	p.permanent(p.report(a, r))
}

// Diagnostic shows d. An error makes the finished event report ok: false.
func (p *Progress) Diagnostic(d manifest.Diagnostic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.Severity == manifest.Error {
		p.errors++
	}
	severity := d.Severity.String()
	p.events.write(diagnosticEvent{"diagnostic", severity, d.Summary, d.Detail, d.Pos.File, d.Pos.Line, d.Pos.Column})
	if p.opts.Quiet && d.Severity != manifest.Error {
		return
	}
	if d.Severity == manifest.Note {
		severity = "kbuild"
	}
	p.permanent([]byte(severity + ": " + Visible(d.Error()) + "\n"))
}

// Clear ends the run like Finish, but prints nothing.
func (p *Progress) Clear() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(nil)
}

// stop ends the ticker.
func (p *Progress) stop() {
	if p.quit != nil {
		close(p.quit)
		<-p.gone
		p.quit = nil
	}
}

// close replaces the live lines with text.
func (p *Progress) close(text []byte) {
	p.drawn = false
	p.running = nil
	p.redraw(text)
}

// Finish clears the live lines, prints the summary and ends the event stream.
func (p *Progress) Finish(s sched.Summary, wall time.Duration) {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close([]byte(p.failures.closing(p) + p.summary(s, wall)))
	p.events.finished(s, p.errors == 0, wall)
}

// permanent writes text that is not redrawn, in one Write.
func (p *Progress) permanent(text []byte) {
	if len(text) > 0 {
		p.spoke = time.Now()
		p.redraw(text)
	}
}

// redraw writes text above the live lines. The live lines are shown only while a ticker runs.
func (p *Progress) redraw(text []byte) {
	if !p.drawn {
		p.live.draw(text, nil, p.columns())
		return
	}
	now := time.Now()
	if now.Sub(p.redrawn) > stopped {
		p.live.widths = nil // draw below what a shell has written
	}
	p.redrawn = now
	cols, rows := p.opts.Size()
	p.live.draw(text, p.status(now, cols, rows), cols)
}

func (p *Progress) columns() int {
	if len(p.live.widths) == 0 {
		return 80 // nothing to erase
	}
	cols, _ := p.opts.Size()
	return cols
}

// status returns the live lines: a header, and the longest running actions.
func (p *Progress) status(now time.Time, cols, rows int) []liveLine {
	room := max(1, min(liveLines, rows-1))
	lines := []liveLine{p.line(bold, p.header(now), cols)}
	shown := p.running
	if len(shown) > room-1 {
		shown = shown[:max(0, room-2)]
	}
	for _, r := range shown {
		took := fmt.Sprintf("%7s  ", brief(now.Sub(r.start)))
		lines = append(lines, p.line("", took+fit(r.action, cols-1-len(took)), cols))
	}
	if more := len(p.running) - len(shown); more > 0 && room > 1 {
		lines = append(lines, p.line(dim, fmt.Sprintf("%7s  and %d more", "", more), cols))
	}
	return lines
}

// line builds a live line. It leaves the last column empty, because some terminals wrap when it is
// written.
func (p *Progress) line(i ink, text string, cols int) liveLine {
	text = truncate(Name(text), cols-1)
	if i == "" {
		return liveLine{text, text}
	}
	return liveLine{text, p.ink(i, text)}
}

// header returns "[12/17] 0:45, eta 0:12, 1 failed, 2 running, 9 cached". The least important part
// comes last, since a narrow terminal cuts the end off.
func (p *Progress) header(now time.Time) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[%d/%d] %s", p.done, p.total, clock(now.Sub(p.began)))
	if left, ok := p.forecast.shown(now, p.running); ok {
		fmt.Fprintf(&b, ", eta %s", clock(left))
	}
	for _, count := range []struct {
		n    int
		word string
	}{{len(p.failures.list), "failed"}, {len(p.running), "running"}, {p.cached, "cached"}} {
		if count.n > 0 {
			fmt.Fprintf(&b, ", %d %s", count.n, count.word)
		}
	}
	return b.String()
}
