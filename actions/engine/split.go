package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// splitFailure states that kbuild misparses the dry run of a compiler for some flags, which are
// part of the dry run's key. It belongs to the build tree. It is valid as long as the toolkits and
// this program stay the same. Another kbuild may parse the dry run correctly, and another toolkit
// may print it as earlier ones did.
type splitFailure struct {
	Kbuild string `json:"kbuild"` // the digest of the program
	Tools  string `json:"tools"`  // vendors.Installed.Fingerprint
	execute.SplitFailure
}

// splitFailuresText returns the text of the file with the split failures of the build tree, or "".
// After the tree is cleaned, compilers are split again.
func (w *Workspace) splitFailuresText() string {
	text, _ := regular.Read(filepath.Join(w.StateDir(), splitFailuresFile))
	return string(text)
}

const splitFailuresFile = "misparsed"

// storedSplitFailures returns the valid split failures of the build tree.
func (w *Workspace) storedSplitFailures(tools string) (valid []splitFailure) {
	text := w.splitFailuresText()
	if text == "" || json.Unmarshal([]byte(text), &valid) != nil {
		return nil
	}
	self := programDigest()
	return slices.DeleteFunc(valid, func(f splitFailure) bool {
		return self == "" || f.Kbuild != self || f.Tools != tools
	})
}

// programDigest returns the digest of this program, or "" if the program cannot be read.
func programDigest() string {
	if exe, err := os.Executable(); err == nil {
		if d, err := cache.DigestFile(exe); err == nil {
			return d.String()
		}
	}
	return ""
}

// String describes how a split failure was found, and how long it is valid.
func (f splitFailure) String() string {
	return fmt.Sprintf("%s failed, and as one command it did not: %s (until kbuild or the toolkit changes, or the build tree is cleaned)", f.Pass, f.Said)
}

// useSplitFailures passes the split failures to the planner: those of the tree, and those that this
// build found. Otherwise the build might find the same one again and again.
func (b *build) useSplitFailures(p *Project) {
	p.SplitFailures = map[string]string{}
	for _, f := range b.storedSplitFailures(p.Facts.Fingerprint(b.keyEnv())) {
		p.SplitFailures[f.Question] = f.String()
	}
	maps.Copy(p.SplitFailures, b.splitFailures)
	for question, why := range p.SplitFailures {
		p.steps.NoteSplitFailure(question, why)
	}
}

// noteSplitFailures stores the split failures that a run found. The outcome is that the build must
// plan again if one of them is new to this build.
func (b *build) noteSplitFailures(p *Project, t *Tree) (out outcome, err error) {
	id := p.Facts.Fingerprint(b.keyEnv())
	var found []splitFailure
	for _, m := range t.runner.SplitFailures() {
		if _, known := p.SplitFailures[m.Question]; known {
			continue
		}
		f := splitFailure{programDigest(), id, m}
		b.splitFailures[m.Question] = f.String()
		found = append(found, f)
		name, _, _ := strings.Cut(m.Question, "\n")
		out = outcome{splitFailed, p.Facts.Driver(name).Program}
	}
	if len(found) == 0 {
		return out, nil
	}
	text, err := json.Marshal(append(b.storedSplitFailures(id), found...))
	if err != nil {
		return out, err
	}
	return out, regular.Replace(filepath.Join(t.state, splitFailuresFile), text)
}

// Fallbacks returns lines about actions that run a compiler unsplit though the user did not ask for
// that, one for each reason. It slows down every later build, so each build reports it at the end.
func (p *Project) Fallbacks(ids []graph.ActionID) (lines []string) {
	type reason struct{ driver, why string }
	counts, first := map[reason]map[string]int{}, map[reason]*graph.Action{} // by what the actions do
	var order []reason
	for _, id := range ids {
		a := p.Graph.Actions[id]
		d := a.Work.Driver
		if d == nil || !d.Fallback {
			continue
		}
		by := p.Facts.Driver(a.Tools...)
		r := reason{by.Of + ": " + by.Program, d.UnsplitReason}
		if counts[r] == nil {
			counts[r], first[r], order = map[string]int{}, a, append(order, r)
		}
		switch info := a.Kind.Info(); {
		case info.LinksDevice():
			counts[r]["device link"]++
		case info.LinksHost():
			counts[r]["link"]++
		default:
			counts[r]["compile"]++
		}
	}
	for _, r := range order {
		var what []string
		for _, does := range slices.Sorted(maps.Keys(counts[r])) {
			what = append(what, graph.Count(counts[r][does], does))
		}
		lines = append(lines, fmt.Sprintf("%s runs as one command for %s: %s; see kbuild why %s", r.driver, strings.Join(what, " and "),
			strings.ReplaceAll(r.why, "\n", " "), first[r].Target))
	}
	return lines
}
