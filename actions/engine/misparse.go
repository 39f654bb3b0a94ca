package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A verdict says that kbuild takes a compiler apart wrongly for some flags, which are in the
// question that the compiler was asked. It is of the build tree, and stands as long as the toolkits
// and this program are what they were: another kbuild may have learned, and another toolkit may be
// as the earlier ones.
type verdict struct {
	Kbuild string `json:"kbuild"` // the digest of the program
	Tools  string `json:"tools"`  // probe.Identity
	execute.Misparse
}

// misparsesText is the text of the build tree's database that holds them. Whoever cleans the tree
// has the compiler taken apart again.
const misparsesText = "misparsed"

// verdicts are those of a build tree that stand.
func verdicts(p *manifest.Project, tools string) (all []verdict) {
	db, err := tree.Open(database(State(p, "")))
	if err != nil {
		return nil // who opens it to build says why
	}
	defer db.Close()
	if json.Unmarshal(db.Text(misparsesText), &all) != nil {
		return nil
	}
	self := programDigest()
	return slices.DeleteFunc(all, func(v verdict) bool { return self == "" || v.Kbuild != self || v.Tools != tools })
}

// programDigest is this program's content; "" if it cannot be read.
func programDigest() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	d, err := cache.DigestFile(exe)
	if err != nil {
		return ""
	}
	return d.String()
}

// explained says what a verdict was found by, and how to be rid of it.
func explained(v verdict) string {
	return fmt.Sprintf("%s failed, and as one command it did not: %s (until kbuild or the toolkit changes, or the build tree is cleaned)", v.Pass, v.Said)
}

// toolIdentity is what verdicts depend on besides kbuild.
func toolIdentity(f plan.Facts) string {
	_, keyEnv := environ()
	return probe.Identity(f, keyEnv)
}

// distrust has the planner and the runner know the verdicts, those that this process found
// included: were they not, it might find one again and again.
func (p *Project) distrust(steps *probe.Steps) {
	w := p.w
	if w.distrusted == nil {
		w.distrusted = map[string]string{}
	}
	for _, v := range verdicts(p.Project, toolIdentity(p.Facts)) {
		w.distrusted[v.Question] = explained(v)
	}
	for question, why := range w.distrusted {
		steps.Misparsed(question, why)
	}
}

// noteMisparses adds what a run found to the verdicts, and gives the compiler that was misparsed,
// "" if none was or none that this process did not know of.
func (p *Project) noteMisparses(db *tree.DB, found []execute.Misparse) (tool string, err error) {
	w, id := p.w, toolIdentity(p.Facts)
	all := verdicts(p.Project, id)
	for _, m := range found {
		if _, known := w.distrusted[m.Question]; known {
			continue
		}
		v := verdict{programDigest(), id, m}
		w.distrusted[m.Question] = explained(v)
		all = append(all, v)
		name, _, _ := strings.Cut(m.Question, "\n")
		tool = map[string]string{"nvcc": "nvcc", "hip": "hipcc", "clang": "clang"}[name]
	}
	if tool == "" {
		return "", nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return tool, err
	}
	return tool, db.SetText(misparsesText, text)
}

// distrustedQuestions are the questions of all verdicts.
func (w *Workspace) distrustedQuestions() map[string]bool {
	set := map[string]bool{}
	for question := range w.distrusted {
		set[question] = true
	}
	return set
}

// Misparsed says what runs as one command because it was misparsed: those actions may all be up to
// date.
func (w *Workspace) Misparsed() []string { return slices.Sorted(maps.Values(w.distrusted)) }
