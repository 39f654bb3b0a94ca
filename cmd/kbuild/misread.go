package main

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
	"github.com/kbuild-dev/kbuild/actions/run"
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
func (c *cli) verdictsFile(p *manifest.Project) string { return c.state(p, "misread") }

// verdicts are those that stand. A damaged file, and one of a kbuild before there were verdicts, holds none.
func (c *cli) verdicts(p *manifest.Project, tools string) []verdict {
	text, err := regular.Read(c.verdictsFile(p))
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
func (c *cli) explained(p *manifest.Project, v verdict) string {
	return fmt.Sprintf("%s failed, and as one command it did not: %s (until kbuild or the toolkit is another, or %s is removed)", v.Pass, v.Said, c.verdictsFile(p))
}

// toolIdentity is what verdicts depend on besides kbuild.
func toolIdentity(f plan.Facts) string {
	return probe.Identity(f, run.KeyEnviron(run.Environ(os.Environ(), nil)))
}

// distrust has the planner and the runner know the verdicts, those that this process found included: were they not, it might find one
// again and again.
func (s *session) distrust(steps *probe.Steps) {
	c := s.cli
	if c.distrusted == nil {
		c.distrusted = map[string]string{}
	}
	for _, v := range c.verdicts(s.project, toolIdentity(s.facts)) {
		c.distrusted[v.Question] = c.explained(s.project, v)
	}
	for question, why := range c.distrusted {
		steps.Misread(question, why)
	}
}

// noteMisread adds what a run found to the verdicts, and gives the compiler that was misread, "" if none was or none that this process
// did not know of.
func (s *session) noteMisread(found []build.Misreading) (tool string, err error) {
	c, id := s.cli, toolIdentity(s.facts)
	all := c.verdicts(s.project, id)
	for _, m := range found {
		if _, known := c.distrusted[m.Question]; known {
			continue
		}
		v := verdict{programDigest(), id, m}
		c.distrusted[m.Question] = c.explained(s.project, v)
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
	return tool, writeFile(c.verdictsFile(s.project), text)
}

// distrustedQuestions are the questions of all verdicts.
func (c *cli) distrustedQuestions() map[string]bool {
	set := map[string]bool{}
	for question := range c.distrusted {
		set[question] = true
	}
	return set
}

// tellDistrusted says what runs as one command because it was misread: those actions may all be up to date.
func (c *cli) tellDistrusted() {
	for _, why := range slices.Sorted(maps.Values(c.distrusted)) {
		fmt.Fprintf(c.out, "taken apart wrongly: %s\n", why)
	}
}

// verdictText is the file of verdicts as a snapshot keeps it: if it goes, a plan must be made. One that comes was written by a build.
func (s *session) verdictText() (file string, text []byte, ok bool) {
	file = s.cli.verdictsFile(s.project)
	text, err := regular.Read(file)
	return file, text, !errors.Is(err, fs.ErrNotExist)
}

// mostTurns is how often a command builds again because a compiler was taken apart wrongly. Each turn finds a question that this
// process did not know of, so that it ends by itself; this is for what nobody thought of.
const mostTurns = 32

// untilRead builds, and once more with a compiler as one command where it was taken apart wrongly.
func (c *cli) untilRead(build func() (misread string, err error)) error {
	c.enter()
	for turn := 1; ; turn++ {
		misread, err := build()
		if misread == "" || turn == mostTurns {
			return err
		}
		c.say("kbuild: warning: kbuild took %[1]s apart wrongly; building again with %[1]s as one command (please report this; `kbuild why` says more)", misread)
	}
}
