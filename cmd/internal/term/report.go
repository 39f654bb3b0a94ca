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
	return Name(s)
}

// fit describes an action in at most cols columns. The kind, the end of the name and one
// architecture matter most. Folders are dropped first, then the other architectures.
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
	name := Name(a.Name)
	for textWidth(string(a.Kind)+" "+name+archs) > cols {
		_, rest, ok := strings.Cut(strings.TrimPrefix(name, "…/"), "/")
		if !ok {
			name = strings.TrimPrefix(name, "…/")
			break
		}
		name = "…/" + rest
	}
	before, after := Name(string(a.Kind))+" ", Name(archs)
	return before + truncate(name, max(1, cols-textWidth(before+after))) + after
}

// report returns the permanent text of a finished action. nil means none.
func (p *Progress) report(a *graph.Action, r sched.Result) []byte {
	switch {
	case r.Status == sched.Failed:
		return p.failure(a, r)
	case r.Status == sched.Skipped || p.opts.Quiet:
		return nil
	}
	printed := commandOutput(r.Output, p.color)
	if r.Status == sched.UpToDate && !p.opts.Verbose {
		printed = nil
	}
	if len(printed) == 0 && !p.hasLine(r.Status) {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s%s\n", p.ink(dim, fmt.Sprintf("[%d/%d]", p.done, p.total)), describe(a), settled(r.Status, r.Worker, p.opts.DryRun))
	if (p.opts.Verbose || p.opts.DryRun) && len(r.Argv) > 0 && r.Status == sched.Ran {
		fmt.Fprintf(&b, "  %s\n", Visible(ShellQuote(r.Argv)))
		if a.Driver().UnsplitReason != "" {
			fmt.Fprintf(&b, "  %s runs as one command: %s\n", a.DriverName(), Name(a.Driver().UnsplitReason))
		}
	}
	b.Write(printed)
	return p.folded(b.Bytes(), printed)
}

// longOutput is the number of output lines that a GitHub log shows without folding.
const longOutput = 10

// folded returns the text of a successful command for a GitHub log. Long output becomes a group,
// and no line of it acts as a workflow command.
func (p *Progress) folded(text, printed []byte) []byte {
	if !p.opts.GitHub {
		return text
	}
	text = p.inert(text, printed)
	if bytes.Count(printed, []byte("\n")) <= longOutput {
		return text
	}
	return slices.Concat([]byte("::group::"), text, []byte("::endgroup::\n"))
}

// inert stops GitHub from interpreting lines of the output as workflow commands.
func (p *Progress) inert(text, printed []byte) []byte {
	if !p.opts.GitHub || !bytes.Contains(printed, []byte("::")) {
		return text
	}
	head, _, _ := bytes.Cut(text, printed)
	token := fmt.Sprintf("%x", sha256.Sum256(printed))[:16]
	return slices.Concat(head, fmt.Appendf(nil, "::stop-commands::%s\n", token), text[len(head):], fmt.Appendf(nil, "::%s::\n", token))
}

// hasLine reports whether an action without output gets a line. On a terminal the live lines are
// enough. A plain log gets a line for each action that ran.
func (p *Progress) hasLine(s sched.Status) bool {
	if p.opts.DryRun && s == sched.UpToDate {
		return p.opts.Verbose && p.mode != None
	}
	if p.opts.Verbose || p.opts.DryRun {
		return p.mode != None
	}
	return p.mode == Plain && s == sched.Ran
}

// settled returns how an action got its outputs without a local process, or would get them in a dry
// run.
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

// failure returns what the user needs to fix the failure. That is the action, its target and
// position, the reason why it ran, the command line and the output. It returns nil for a repeated
// message.
func (p *Progress) failure(a *graph.Action, r sched.Result) []byte {
	of, again, news := p.failures.add(a, r)
	if again && !news {
		return nil
	}
	var b bytes.Buffer
	title := describe(a)
	if of.command != "" {
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
	printed := commandOutput(r.Output, p.color)
	b.Write(p.inert(printed, printed))
	for _, h := range r.Help {
		fmt.Fprintf(&b, "  %s %s\n", p.ink(dim, "= help:"), Name(h))
	}
	return b.Bytes()
}

// about writes the target, the reason and the command line of a failed action.
func (p *Progress) about(b *bytes.Buffer, a *graph.Action, r sched.Result) {
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %s %s\n", p.ink(dim, fmt.Sprintf("%-8s", name)), value)
		}
	}
	target := Name(a.Target)
	if pos := a.Pos.String(); pos != "" {
		target += " (" + Name(pos) + ")"
	}
	field("target", target)
	why := r.Reason
	if first := p.failures.reasons[source{a.Target, a.Name}]; first != "" && a.Driver().Argv != nil {
		why = first
	}
	if why != sched.NoRecord { // useful only after an edit
		field("why", Name(why))
	}
	argv := r.Argv
	if len(argv) == 0 {
		argv = a.Argv
	}
	if a.Intermediate {
		argv = a.Driver().Argv // the intermediate files no longer exist
	}
	field("command", Visible(ShellQuote(argv)))
}

// summary returns the last line of a run. "" means that there is nothing to report.
func (p *Progress) summary(s sched.Summary, wall time.Duration) string {
	took := brief(wall)
	good := s.Failed == 0 && s.Skipped == 0 && !s.Interrupted
	switch {
	case good && (p.opts.Quiet || p.errors > 0):
		return ""
	case good && s.Actions == 0: // only prebuilt files and header-only libraries
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

// counts lists the non-zero counts. After a failure the bad ones come first.
func (p *Progress) counts(s sched.Summary, badFirst bool) string {
	if n := len(p.failures.list); n > 0 {
		s.Failed = n // count a command once, not once per pass
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
		if q.n > 0 && q.word == "would run" { // unchanged outputs stop dependents
			words = append(words, fmt.Sprintf("up to %d would run", q.n))
		} else if q.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", q.n, q.word))
		}
	}
	return strings.Join(words, ", ")
}
