package term

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// A mistake in a source fails several passes: the host pass, and the pass of each architecture that
// runs concurrently. All of them print the same messages, but the user has one mistake to fix.
// Therefore a failed command is shown once, when its first pass fails. A later pass adds only new
// messages. The list at the end names all passes that failed.

// failures holds the failed commands in order.
type failures struct {
	list    []*failed
	reasons map[source]string // why a command's first pass ran, which reads sources
}

// source identifies what a command compiles or links. It is shorter than the command.
type source struct{ target, name string }

// failed is a failed command: a split one with its failed passes, or an unsplit one.
type failed struct {
	command string // see graph.Action.PassOf
	name    string
	target  string
	parts   []string // "host", "sm_80"
	texts   []string // the outputs
	folded  bool     // a later pass repeated a text
}

// ran records why a pass ran.
func (f *failures) ran(a *graph.Action, reason string) {
	if a.Driver().Argv == nil || reason == "" {
		return
	}
	if f.reasons == nil {
		f.reasons = map[source]string{}
	}
	of := source{a.Target, a.Name}
	if _, ok := f.reasons[of]; !ok {
		f.reasons[of] = reason
	}
}

// add records a failure. again reports whether another pass of the command failed before. news
// reports whether the output is new.
func (f *failures) add(a *graph.Action, r sched.Result) (of *failed, again, news bool) {
	text := strings.TrimSpace(string(r.Output))
	if text == "" && r.Err != nil {
		text = r.Err.Error()
	}
	command, i := a.PassOf(), -1
	if command != "" {
		i = slices.IndexFunc(f.list, func(of *failed) bool { return of.command == command })
	}
	if again = i >= 0; !again {
		i = len(f.list)
		f.list = append(f.list, &failed{command: command, name: a.Name, target: a.Target})
	}
	of = f.list[i]
	for _, part := range a.CodeFor() {
		if !slices.Contains(of.parts, part) {
			of.parts = append(of.parts, part)
		}
	}
	if news = !slices.Contains(of.texts, text); news {
		of.texts = append(of.texts, text)
	} else {
		of.folded = true
	}
	return of, again, news
}

// title returns the name of the command with its failed parts: "src/a.cu (host, sm_80)".
func (of *failed) title() string {
	if len(of.parts) == 0 {
		return Name(of.name)
	}
	slices.SortFunc(of.parts, func(a, b string) int { // host, sm_90, sm_100
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return Name(of.name + " (" + strings.Join(of.parts, ", ") + ")")
}

// closing lists the failures at the end of a long log. It returns "" if there is none, or only one
// that the log shows in full.
func (f *failures) closing(p *Progress) string {
	if len(f.list) == 0 || len(f.list) == 1 && !f.list[0].folded {
		return ""
	}
	width := 0
	for _, of := range f.list {
		width = max(width, textWidth(of.title()))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", p.ink(red, "failed"))
	for _, of := range f.list {
		line := "  " + of.title()
		if of.target != "" {
			line += strings.Repeat(" ", width-textWidth(of.title())) + "  " + p.ink(dim, Name(of.target))
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
