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

// A source with a mistake fails in several passes: that of the host, and one for each architecture
// that was at work already. All say the same, and the person has one mistake to mend. So a failed
// command is shown once, when its first pass fails; another pass adds what is new in what it says,
// and the list at the end has the passes that failed.

// failures are the commands that failed, in order.
type failures struct {
	list    []*failed
	reasons map[*graph.Driver]string // why the first pass of a command ran: that one reads the user's files
}

// failed is a command, or an action of kbuild's own.
type failed struct {
	command *graph.Driver // nil where the action is the command
	name    string
	target  string
	parts   []string // "host", "sm_80"
	texts   []string // what was said
	folded  bool     // by several passes
}

// ran notes why a pass ran.
func (f *failures) ran(a *graph.Action, reason string) {
	d := a.Work.Driver
	if d == nil || d.Argv == nil || reason == "" {
		return
	}
	if f.reasons == nil {
		f.reasons = map[*graph.Driver]string{}
	}
	if _, ok := f.reasons[d]; !ok {
		f.reasons[d] = reason
	}
}

// add notes a failure. again is true if another pass of the command failed before, news if it did
// not say this.
func (f *failures) add(a *graph.Action, r sched.Result) (of *failed, again, news bool) {
	text := strings.TrimSpace(string(r.Output))
	if text == "" && r.Err != nil {
		text = r.Err.Error()
	}
	d := a.Work.Driver
	if d != nil && d.Argv == nil {
		d = nil
	}
	i := -1
	if d != nil {
		i = slices.IndexFunc(f.list, func(of *failed) bool { return of.command == d })
	}
	if again = i >= 0; !again {
		i = len(f.list)
		f.list = append(f.list, &failed{command: d, name: a.Name, target: a.Target})
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

// title names the command: "src/a.cu (host, sm_80)".
func (of *failed) title() string {
	if len(of.parts) == 0 {
		return oneLine(of.name)
	}
	slices.SortFunc(of.parts, func(a, b string) int { // host, sm_90, sm_100
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return oneLine(of.name + " (" + strings.Join(of.parts, ", ") + ")")
}

// closing lists what failed, for who looks at the end of a long log; "" if it is there already.
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
			line += strings.Repeat(" ", width-textWidth(of.title())) + "  " + p.ink(dim, oneLine(of.target))
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
