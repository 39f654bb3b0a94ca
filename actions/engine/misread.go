package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/build"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// A verdict says that kbuild takes a compiler apart wrongly for some flags, which are in the question that the compiler was asked. It is
// of the build tree, and stands as long as the toolkits and this program are what they were: another kbuild may have learned, and another
// toolkit may be as the earlier ones.
type verdict struct {
	Kbuild string `json:"kbuild"` // the digest of the program
	Tools  string `json:"tools"`  // probe.Identity
	build.Misreading
}

// verdictsFile is where a build tree keeps them. Whoever removes it has the compiler taken apart again.
func (w *Workspace) verdictsFile(p *manifest.Project) string { return State(p, "misread") }

// verdicts are those that stand. A damaged file, and one of a kbuild before there were verdicts, holds none.
func (w *Workspace) verdicts(p *manifest.Project, tools string) []verdict {
	text, err := regular.Read(w.verdictsFile(p))
	var all []verdict
	if err != nil || json.Unmarshal(text, &all) != nil {
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
func (w *Workspace) explained(p *manifest.Project, v verdict) string {
	return fmt.Sprintf("%s failed, and as one command it did not: %s (until kbuild or the toolkit is another, or %s is removed)", v.Pass, v.Said, w.verdictsFile(p))
}

// toolIdentity is what verdicts depend on besides kbuild.
func toolIdentity(f plan.Facts) string {
	_, keyEnv := environ()
	return probe.Identity(f, keyEnv)
}

// distrust has the planner and the runner know the verdicts, those that this process found included: were they not, it might find one
// again and again.
func (p *Project) distrust(steps *probe.Steps) {
	w := p.w
	if w.distrusted == nil {
		w.distrusted = map[string]string{}
	}
	for _, v := range w.verdicts(p.Project, toolIdentity(p.Facts)) {
		w.distrusted[v.Question] = w.explained(p.Project, v)
	}
	for question, why := range w.distrusted {
		steps.Misread(question, why)
	}
}

// noteMisread adds what a run found to the verdicts, and gives the compiler that was misread, "" if none was or none that this process
// did not know of.
func (p *Project) noteMisread(found []build.Misreading) (tool string, err error) {
	w, id := p.w, toolIdentity(p.Facts)
	all := w.verdicts(p.Project, id)
	for _, m := range found {
		if _, known := w.distrusted[m.Question]; known {
			continue
		}
		v := verdict{programDigest(), id, m}
		w.distrusted[m.Question] = w.explained(p.Project, v)
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
	return tool, regular.Replace(w.verdictsFile(p.Project), text)
}

// distrustedQuestions are the questions of all verdicts.
func (w *Workspace) distrustedQuestions() map[string]bool {
	set := map[string]bool{}
	for question := range w.distrusted {
		set[question] = true
	}
	return set
}

// Misparsed says what runs as one command because it was misparsed: those actions may all be up to date.
func (w *Workspace) Misparsed() []string { return slices.Sorted(maps.Values(w.distrusted)) }

// MisparsedBy is the same for a project that is not planned.
func (w *Workspace) MisparsedBy(p *manifest.Project, f plan.Facts) (out []string) {
	for _, v := range w.verdicts(p, toolIdentity(f)) {
		out = append(out, w.explained(p, v))
	}
	return out
}

// verdictText is the file of verdicts as a snapshot keeps it: if it goes, a plan must be made. One that comes was written by a build.
func (p *Project) verdictText() (file string, text []byte, ok bool) {
	file = p.w.verdictsFile(p.Project)
	text, err := regular.Read(file)
	return file, text, !errors.Is(err, fs.ErrNotExist)
}
