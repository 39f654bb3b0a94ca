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
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// splitFailure states that kbuild misparses the dry run of a compiler for some flags, which are
// part of the dry run's key. It belongs to the build tree. It is valid as long as the toolkits and
// this program stay the same. Another kbuild may parse the dry run correctly, and another toolkit
// may print it as earlier ones did.
type splitFailure struct {
	Kbuild string `json:"kbuild"` // the digest of the program
	Tools  string `json:"tools"`  // probe.Fingerprint
	execute.SplitFailure
}

// splitFailuresText is the name of the text with the split failures in the build tree's database.
// After the tree is cleaned, compilers are split again.
const splitFailuresText = "misparsed"

// readSplitFailures returns the valid split failures in a database.
func readSplitFailures(db *tree.DB, tools string) (valid []splitFailure) {
	text := db.Text(splitFailuresText)
	if text == nil || json.Unmarshal(text, &valid) != nil {
		return nil
	}
	self := programDigest()
	return slices.DeleteFunc(valid, func(f splitFailure) bool {
		return self == "" || f.Kbuild != self || f.Tools != tools
	})
}

// storedSplitFailures returns the valid split failures of the build tree. t is nil if the tree is
// not locked. If the database cannot be opened, the build reports why.
func (w *Workspace) storedSplitFailures(t *Tree, tools string) []splitFailure {
	if t != nil {
		if t.openDatabase() != nil {
			return nil
		}
		return readSplitFailures(t.db, tools)
	}
	db, err := tree.Open(database(w.StateDir()))
	if err != nil {
		return nil
	}
	defer db.Close()
	return readSplitFailures(db, tools)
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
// build found. Otherwise the build might find the same one again and again. t is nil if the tree is
// not locked.
func (b *build) useSplitFailures(p *Project, t *Tree) {
	p.SplitFailures = map[string]string{}
	for _, f := range b.storedSplitFailures(t, probe.Fingerprint(p.Facts, b.keyEnv())) {
		p.SplitFailures[f.Question] = f.String()
	}
	maps.Copy(p.SplitFailures, b.splitFailures)
	for question, why := range p.SplitFailures {
		p.steps.Misparsed(question, why)
	}
}

// noteSplitFailures stores the split failures that a run found. The outcome is that the build must
// plan again if one of them is new to this build.
func (b *build) noteSplitFailures(p *Project, t *Tree) (out outcome, err error) {
	id := probe.Fingerprint(p.Facts, b.keyEnv())
	var found []splitFailure
	for _, m := range t.runner.SplitFailures() {
		if _, known := p.SplitFailures[m.Question]; known {
			continue
		}
		f := splitFailure{programDigest(), id, m}
		b.splitFailures[m.Question] = f.String()
		found = append(found, f)
		name, _, _ := strings.Cut(m.Question, "\n")
		out = outcome{splitFailed, vendors.Program(name)}
	}
	if len(found) == 0 {
		return outcome{}, nil
	}
	text, err := json.Marshal(append(readSplitFailures(t.db, id), found...))
	if err != nil {
		return out, err
	}
	return out, t.db.SetText(splitFailuresText, text)
}
