package term

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// describe names an action in one line: "compile src/a.cu (sm_80, sm_90)".
func describe(a *graph.Action) string {
	s := string(a.Kind) + " " + a.Name
	if len(a.Archs) > 0 {
		s += " (" + strings.Join(a.Archs, ", ") + ")"
	}
	return oneLine(s)
}

// fit is describe for so many columns. The kind, the end of the name and an architecture say most:
// folders go first, then all architectures but one.
func fit(a *graph.Action, cols int) string {
	text := describe(a)
	if textWidth(text) <= cols {
		return text
	}
	archs := ""
	switch n := len(a.Archs); {
	case n > 1:
		archs = fmt.Sprintf(" (%s +%d)", a.Archs[0], n-1)
	case n == 1:
		archs = " (" + a.Archs[0] + ")"
	}
	name := oneLine(a.Name)
	for textWidth(string(a.Kind)+" "+name+archs) > cols {
		_, rest, ok := strings.Cut(strings.TrimPrefix(name, "…/"), "/")
		if !ok {
			name = strings.TrimPrefix(name, "…/")
			break
		}
		name = "…/" + rest
	}
	before, after := oneLine(string(a.Kind))+" ", oneLine(archs)
	return before + truncate(name, max(1, cols-textWidth(before+after))) + after
}

// report is what stays of a finished action; nil if nothing does.
func (p *Progress) report(a *graph.Action, r sched.Result) []byte {
	switch {
	case r.Status == sched.Failed:
		return p.failure(a, r)
	case r.Status == sched.Skipped || p.opts.Quiet:
		return nil
	}
	said := commandOutput(r.Output, p.color)
	if r.Status == sched.UpToDate && !p.opts.Verbose {
		said = nil
	}
	if len(said) == 0 && !p.hasLine(r.Status) {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s%s\n", p.ink(dim, fmt.Sprintf("[%d/%d]", p.done, p.total)), describe(a), settled(r.Status, r.Worker, p.opts.DryRun))
	if (p.opts.Verbose || p.opts.DryRun) && len(r.Argv) > 0 && r.Status == sched.Ran {
		fmt.Fprintf(&b, "  %s\n", Visible(ShellQuote(r.Argv)))
		if a.Driver().UnsplitReason != "" {
			fmt.Fprintf(&b, "  %s runs as one command: %s\n", a.DriverName(), oneLine(a.Driver().UnsplitReason))
		}
	}
	b.Write(said)
	return p.folded(b.Bytes(), said)
}

// longOutput is how many lines of a command a log of GitHub shows unfolded.
const longOutput = 10

// folded is what a log of GitHub gets of a command that went well: a group if it is long, and no
// line of it taken for a workflow command.
func (p *Progress) folded(text, said []byte) []byte {
	if !p.opts.GitHub {
		return text
	}
	text = p.inert(text, said)
	if bytes.Count(said, []byte("\n")) <= longOutput {
		return text
	}
	return slices.Concat([]byte("::group::"), text, []byte("::endgroup::\n"))
}

// inert has GitHub take no line of a command's output for a workflow command.
func (p *Progress) inert(text, said []byte) []byte {
	if !p.opts.GitHub || !bytes.Contains(said, []byte("::")) {
		return text
	}
	head, _, _ := bytes.Cut(text, said)
	token := fmt.Sprintf("%x", sha256.Sum256(said))[:16]
	return slices.Concat(head, fmt.Appendf(nil, "::stop-commands::%s\n", token), text[len(head):], fmt.Appendf(nil, "::%s::\n", token))
}

// hasLine reports whether an action that said nothing gets a line: on a terminal the live lines are
// enough, elsewhere what ran does.
func (p *Progress) hasLine(s sched.Status) bool {
	if p.opts.DryRun && s == sched.UpToDate {
		return p.opts.Verbose && p.mode != None
	}
	if p.opts.Verbose || p.opts.DryRun {
		return p.mode != None
	}
	return p.mode == Plain && s == sched.Ran
}

// settled says how an action came by its outputs without a process of this machine, or would come
// by them.
func settled(s sched.Status, worker string, dry bool) string {
	switch s {
	case sched.Ran:
		if dry {
			return ": would run"
		}
		if worker != "" {
			return ": ran elsewhere"
		}
	case sched.Cached:
		if dry {
			return ": would be restored from the cache"
		}
		return ": cached"
	case sched.UpToDate:
		return ": up to date"
	}
	return ""
}

// failure is all that a person needs to act: what failed, for which target and where that is
// written, why it ran, the command to paste, and what it said. Nothing else. nil is nothing new.
func (p *Progress) failure(a *graph.Action, r sched.Result) []byte {
	of, again, news := p.failures.add(a, r)
	if again && !news {
		return nil
	}
	var b bytes.Buffer
	title := describe(a)
	if of.command != nil {
		title = string(a.Kind) + " " + (&failed{name: a.Name, parts: a.CodeFor()}).title()
	}
	head := p.ink(red, "FAILED") + " " + p.ink(bold, title)
	if r.Err != nil {
		head += ": " + Visible(strings.TrimRight(r.Err.Error(), "\n"))
	}
	fmt.Fprintf(&b, "%s\n", head)
	if !again {
		p.about(&b, a, r)
	}
	said := commandOutput(r.Output, p.color)
	b.Write(p.inert(said, said))
	for _, h := range r.Help {
		fmt.Fprintf(&b, "  %s %s\n", p.ink(dim, "= help:"), oneLine(h))
	}
	return b.Bytes()
}

// about writes for whom a failed action ran, and how.
func (p *Progress) about(b *bytes.Buffer, a *graph.Action, r sched.Result) {
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %s %s\n", p.ink(dim, fmt.Sprintf("%-8s", name)), value)
		}
	}
	target := oneLine(a.Target)
	if pos := a.Pos.String(); pos != "" {
		target += " (" + oneLine(pos) + ")"
	}
	field("target", target)
	why := r.Reason
	if first := p.failures.reasons[a.Work.Driver]; first != "" {
		why = first
	}
	if why != sched.NoRecord { // news only after an edit
		field("why", oneLine(why))
	}
	argv := r.Argv
	if len(argv) == 0 {
		argv = a.Argv
	}
	if a.Intermediate {
		argv = a.Driver().Argv // the files of a part are gone
	}
	field("command", Visible(ShellQuote(argv)))
}

// summary is the last line, or "" if nothing needs to be said.
func (p *Progress) summary(s sched.Summary, wall time.Duration) string {
	took := brief(wall)
	good := s.Failed == 0 && s.Skipped == 0 && !s.Interrupted
	switch {
	case good && (p.opts.Quiet || p.errors > 0):
		return ""
	case good && s.Actions == 0: // prebuilt files and libraries of headers alone
		return "kbuild: nothing to do\n"
	case good && s.Ran == 0 && s.Cached == 0:
		return fmt.Sprintf("kbuild: nothing to do (%s up to date)\n", graph.Count(s.Actions, "action"))
	case good:
		return fmt.Sprintf("kbuild: %s: %s in %s\n", graph.Count(s.Actions, "action"), p.counts(s, false), took)
	case s.Interrupted:
		return fmt.Sprintf("kbuild: %s: %s in %s\n", p.ink(red, "interrupted"), p.counts(s, true), took)
	}
	return fmt.Sprintf("kbuild: %s in %s\n", p.counts(s, true), took)
}

// counts lists what happened, without zeros. After a failure the bad comes first.
func (p *Progress) counts(s sched.Summary, badFirst bool) string {
	if n := len(p.failures.list); n > 0 {
		s.Failed = n // of a command, all passes are one failure
	}
	type part struct {
		n    int
		word string
	}
	parts := []part{{s.Ran, "ran"}, {s.Cached, "cached"}, {s.UpToDate, "up to date"}}
	if p.opts.DryRun {
		parts[0].word, parts[1].word = "would run", "would be restored from the cache"
	}
	bad := []part{{s.Failed, "failed"}, {s.Skipped, "skipped"}}
	if badFirst {
		parts = append(bad, parts...)
	}
	var words []string
	for _, q := range parts {
		if q.n > 0 && q.word == "would run" { // an output that comes out as it was stops what waits for it
			words = append(words, fmt.Sprintf("up to %d would run", q.n))
		} else if q.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", q.n, q.word))
		}
	}
	return strings.Join(words, ", ")
}
