package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What kbuild has written into a build tree is known twice. The database has the outputs of all
// actions that ran, with their digests; a list beside it has those of the last plan, with the
// targets that make them. It is written before anything is built. From the two follows what nothing
// makes any more, which a build removes before it begins: a stale header or library would be found
// before another one, and a stale module would ship.
//
// There is a list for each manifest that builds in the tree: what one of them makes is no leftover
// of another.

// outputList are the outputs of a plan, and those of earlier plans whose turn to be removed has not
// come.
type outputList struct {
	Manifest string            `json:"manifest"` // relative to the folder of the list
	Outputs  map[string]string `json:"outputs"`  // the label of the target that makes each; "" where it is not known
}

// The name of a list ends with a part of the digest of Manifest; its text begins with the magic and
// the digest of the rest.
const (
	listPrefix = "outputs-"
	listMagic  = "kbuild outputs 1 "
)

// encode gives json one string at a time: its buffers are used again for as long as the build runs,
// and keep the size of the largest text.
func (l outputList) encode() []byte {
	quoted := func(s string) []byte {
		text, _ := json.Marshal(s) // of a string there is no error
		return text
	}
	text := fmt.Appendf(nil, `{"manifest":%s,"outputs":{`, quoted(l.Manifest))
	for i, output := range slices.Sorted(maps.Keys(l.Outputs)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%s:%s", quoted(output), quoted(l.Outputs[output]))
	}
	text = append(text, "}}"...)
	return append(fmt.Appendf(nil, "%s%x\n", listMagic, sha256.Sum256(text)), text...)
}

// readOutputList reads a list. A damaged one is none.
func readOutputList(name string) (l outputList, ok bool) {
	b, err := regular.Read(name)
	if err != nil {
		return l, false
	}
	head, text, _ := bytes.Cut(b, []byte("\n"))
	if string(head) != fmt.Sprintf("%s%x", listMagic, sha256.Sum256(text)) {
		return l, false
	}
	return l, json.Unmarshal(text, &l) == nil
}

// outputLists are the lists of the build tree with its files in state, by the name of their file.
func outputLists(state string) map[string]outputList {
	lists := map[string]outputList{}
	names, _ := fs.Glob(os.DirFS(state), listPrefix+"????????????")
	for _, name := range names {
		name = filepath.Join(state, name)
		if l, ok := readOutputList(name); ok {
			lists[name] = l
		}
	}
	return lists
}

// planned is the list of what the plan makes, and the name of its file.
func (p *Project) planned() (name string, l outputList) {
	state := resolved(State(p.Project, "")) // the same tree through a link has the same lists
	l = outputList{Manifest: filepath.Join(resolved(p.Root), p.File), Outputs: map[string]string{}}
	if rel, err := filepath.Rel(state, l.Manifest); err == nil {
		l.Manifest = rel
	}
	for _, a := range p.Graph.Actions {
		for _, o := range a.Outputs {
			if !a.Intermediate && p.ships(o) {
				l.Outputs[o] = a.Target
			}
		}
	}
	sum := sha256.Sum256([]byte(l.Manifest))
	return filepath.Join(state, fmt.Sprintf("%s%x", listPrefix, sum[:6])), l
}

// ships reports a file in the build tree that is not below the folder for kbuild's own. The
// database may know others: of a tree that was moved.
func (p *Project) ships(output string) bool {
	return strings.HasPrefix(output, p.Graph.BuildDir+"/") && !strings.HasPrefix(output, p.Graph.BuildDir+"/.kbuild/")
}

// sweep removes what nothing makes any more, before want is built, and writes the list of what the
// tree will hold.
func (p *Project) sweep(t *Tree, want []graph.ActionID, say func(manifest.Diagnostic)) error {
	name, l := p.planned()
	text := l.encode()
	p.listFile, p.listDigest = name, sha256.Sum256(text)
	old, err := regular.Read(name)
	if err == nil && bytes.Equal(old, text) {
		return nil
	}
	called := p.namesOfTree(filepath.Dir(filepath.Dir(name)))
	written := map[string][]cache.Output{}
	for rec := range t.db.All() {
		for _, o := range rec.Outputs {
			written[called(o.Path)] = append(written[called(o.Path)], o)
		}
	}
	now, later := p.leftovers(knownOutputs(name, written, called), l.Outputs, want)
	if p.w.DryRun {
		sayLeftovers(say, manifest.Note, "would remove", existing(p.Root, now), "that nothing makes any more")
		return nil
	}
	removed, left, err := t.removeLeftovers(now, written)
	sayLeftovers(say, manifest.Note, "removed", removed, "that nothing makes any more")
	sayLeftovers(say, manifest.Warning, "left", left, "that nothing makes any more, because its content may not be what kbuild wrote")
	if err != nil {
		return err
	}
	maps.Copy(l.Outputs, later)
	text = l.encode()
	if p.listDigest = sha256.Sum256(text); bytes.Equal(old, text) {
		return nil
	}
	return regular.Replace(name, text)
}

// namesOfTree gives what an output in the build tree, whose folder without links is real, is called
// now: another command line may have named the tree by another path. Other outputs keep their
// names.
func (p *Project) namesOfTree(real string) func(output string) string {
	folders := map[string]string{}
	return func(output string) string {
		if strings.HasPrefix(output, p.Graph.BuildDir+"/") {
			return output
		}
		dir, file := filepath.Split(cache.Absolute(p.Root, output))
		if _, ok := folders[dir]; !ok {
			folders[dir] = resolved(dir)
		}
		rel, err := filepath.Rel(real, filepath.Join(folders[dir], file))
		if err != nil || !filepath.IsLocal(rel) {
			return output
		}
		return path.Join(p.Graph.BuildDir, filepath.ToSlash(rel))
	}
}

// knownOutputs are those that the database or the list of a file knows of, by what they are called
// now and with the label of their target, without those that are in the list of another manifest.
func knownOutputs(file string, written map[string][]cache.Output, called func(string) string) map[string]string {
	known := map[string]string{}
	for o := range written {
		known[o] = ""
	}
	lists := outputLists(filepath.Dir(file))
	for o, label := range lists[file].Outputs {
		known[called(o)] = label
	}
	delete(lists, file)
	for _, other := range lists {
		if exists(filepath.Join(filepath.Dir(file), other.Manifest)) {
			for o := range other.Outputs {
				delete(known, called(o))
			}
		}
	}
	return known
}

// leftovers are those among known outputs that the plan does not make. What a target has made that
// is not brought up to date now has to wait: a module goes with its manifest, which names it. So
// has all of targets that the plan does not have yet, since their files are not chosen.
func (p *Project) leftovers(known, planned map[string]string, want []graph.ActionID) (now []string, later map[string]string) {
	fresh, all := p.freshened(want)
	settled := len(p.Unsettled) == 0
	later = map[string]string{}
	for o, label := range known {
		if _, ok := planned[o]; ok || !p.ships(o) {
			continue
		}
		if is, there := fresh[label]; label == "" && all && settled || label != "" && (is || !there && settled) {
			now = append(now, o)
		} else {
			later[o] = label
		}
	}
	slices.Sort(now)
	return now, later
}

// freshened tells which targets are brought up to date if want is, and whether all of them are.
func (p *Project) freshened(want []graph.ActionID) (fresh map[string]bool, all bool) {
	in := map[graph.ActionID]bool{}
	for _, id := range p.Graph.Closure(want) {
		in[id] = true
	}
	fresh, all = map[string]bool{}, true
	for _, t := range p.Graph.Targets {
		if t.Kind == "group" {
			continue
		}
		is := t.Unbuilt == ""
		for _, o := range t.Outputs {
			if id, made := p.Graph.Producer(o); made {
				is = is && in[id]
			}
		}
		for _, id := range t.Actions { // kbuild precompile does not embed
			if p.Graph.Actions[id].Kind == graph.Manifest && t.Kind == string(manifest.Module) {
				is = in[id]
			}
		}
		fresh[t.Label], all = is, all && is
	}
	return fresh, all
}

func existing(root string, files []string) (there []string) {
	for _, f := range files {
		if exists(cache.Absolute(root, f)) {
			there = append(there, f)
		}
	}
	return there
}

func sayLeftovers(say func(manifest.Diagnostic), severity manifest.Severity, did string, files []string, which string) {
	if len(files) > 0 {
		say(manifest.Diagnostic{Severity: severity, Summary: fmt.Sprintf("%s %s %s: %s", did, graph.Count(len(files), "file"), which, Few(files))})
	}
}

// Few names the first of many.
func Few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
