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

// verdict states that kbuild misparses the dry run of a compiler for some flags, which are part of
// the dry run's key. It belongs to the build tree. It is valid as long as the toolkits and this
// program stay the same. Another kbuild may parse the dry run correctly, and another toolkit may
// print it as earlier ones did.
type verdict struct {
	Kbuild string `json:"kbuild"` // the digest of the program
	Tools  string `json:"tools"`  // probe.Identity
	execute.Misparse
}

// misparsesText is the name of the text with the verdicts in the build tree's database. After the
// tree is cleaned, compilers are split again.
const misparsesText = "misparsed"

// verdicts returns the valid verdicts of a build tree.
func verdicts(p *manifest.Project, tools string) (all []verdict) {
	db, err := tree.Open(database(State(p, "")))
	if err != nil {
		return nil // the build reports why when it opens it
	}
	defer db.Close()
	if json.Unmarshal(db.Text(misparsesText), &all) != nil {
		return nil
	}
	self := programDigest()
	return slices.DeleteFunc(all, func(v verdict) bool { return self == "" || v.Kbuild != self || v.Tools != tools })
}

// programDigest returns the digest of this program, or "" if the program cannot be read.
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

// explained describes how a verdict was found, and how long it is valid.
func explained(v verdict) string {
	return fmt.Sprintf("%s failed, and as one command it did not: %s (until kbuild or the toolkit changes, or the build tree is cleaned)", v.Pass, v.Said)
}

// toolFingerprint returns the fingerprint that verdicts depend on besides kbuild.
func toolFingerprint(f plan.Facts) string {
	_, keyEnv := environ()
	return probe.Fingerprint(f, keyEnv)
}

// distrust collects the verdicts for the planner and the runner, with those that this process
// found. Otherwise the process might find the same verdict again and again.
func (p *Project) distrust(steps *probe.Steps) {
	w := p.w
	if w.distrusted == nil {
		w.distrusted = map[string]string{}
	}
	for _, v := range verdicts(p.Project, toolFingerprint(p.Facts)) {
		w.distrusted[v.Question] = explained(v)
	}
	for question, why := range w.distrusted {
		steps.Misparsed(question, why)
	}
}

// noteMisparses adds what a run found to the verdicts, and returns the misparsed compiler. It
// returns "" if the run found none that is new to this process.
func (p *Project) noteMisparses(db *tree.DB, found []execute.Misparse) (tool string, err error) {
	w, id := p.w, toolFingerprint(p.Facts)
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

// distrustedQuestions returns the dry runs of all verdicts.
func (w *Workspace) distrustedQuestions() map[string]bool {
	set := map[string]bool{}
	for question := range w.distrusted {
		set[question] = true
	}
	return set
}

// Misparsed returns the explanations of all verdicts, sorted. The actions that run unsplit because
// of a verdict may all be up to date.
func (w *Workspace) Misparsed() []string { return slices.Sorted(maps.Values(w.distrusted)) }
