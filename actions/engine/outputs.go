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

// kbuild knows in two ways what it has written into a build tree. The database has the outputs of
// all actions that ran, with their digests. A list beside it has the outputs of the last plan, with
// their targets; it is written before anything is built. The two show which outputs no action
// writes any more. A build removes these before it begins: compilers could find a stale header or
// library before another one, and a stale module would ship.
//
// There is a list for each manifest that builds in the tree. The outputs of one manifest are not
// leftovers of another.

// outputList lists the outputs of a plan, and those of earlier plans that are still to be removed.
type outputList struct {
	Manifest string `json:"manifest"` // relative to the folder of the list
	// the label of the target that builds each; "" if it is not known
	Outputs map[string]string `json:"outputs"`
}

// The name of a list ends with a part of the digest of Manifest. Its text begins with the magic and
// the digest of the rest.
const (
	listPrefix = "outputs-"
	listMagic  = "kbuild outputs 1 "
)

// encode marshals one string at a time. The buffers of json are reused as long as the build runs,
// and keep the size of the largest text.
func (l outputList) encode() []byte {
	quoted := func(s string) []byte {
		text, _ := json.Marshal(s) // a string has no error
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

// readOutputList reads a list. ok is false if the list is missing or damaged.
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

// outputLists returns the lists of the build tree with its files in state, by the name of their
// file.
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

// planned returns the list of the plan's outputs, and the name of its file.
func (p *Project) planned() (name string, l outputList) {
	state := resolved(p.w.StateDir()) // the same tree through a link has the same lists
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

// ships reports whether an output is in the build tree and not below kbuild's own folder. The
// database of a tree that was moved may have other outputs.
func (p *Project) ships(output string) bool {
	return strings.HasPrefix(output, p.Graph.BuildDir+"/") && !strings.HasPrefix(output, p.Graph.BuildDir+"/.kbuild/")
}

// sweep removes outputs that no action writes any more, before want is built. It writes the list of
// the outputs that the tree will have.
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
		now = slices.DeleteFunc(now, func(o string) bool { return !exists(cache.Absolute(p.Root, o)) })
		sayLeftovers(say, manifest.Note, "would remove", now, "that nothing makes any more")
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

// namesOfTree returns a function that maps an output in the build tree to its present name. Another
// command line may have named the tree by another path. real is the folder of the tree without
// links. Other outputs keep their names.
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

// knownOutputs returns the outputs in the database or in the list of a file, by their present names
// and with the label of their target. It leaves out those in the list of another manifest.
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

// leftovers returns the known outputs that the plan does not write. If want does not bring an
// output's target up to date, the output is removed later: a module goes with its manifest, which
// names it. If dynamic outputs are unknown, outputs of targets that the plan lacks wait, too.
func (p *Project) leftovers(known, planned map[string]string, want []graph.ActionID) (now []string, later map[string]string) {
	fresh, all := p.freshened(want)
	settled := len(p.Pending) == 0
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

// freshened returns which targets are up to date if want is, and whether all of them are.
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
			if p.Graph.Actions[id].Work.Manifest != nil && t.Kind == string(manifest.Module) {
				is = in[id]
			}
		}
		fresh[t.Label], all = is, all && is
	}
	return fresh, all
}

func sayLeftovers(say func(manifest.Diagnostic), severity manifest.Severity, did string, files []string, which string) {
	if len(files) > 0 {
		say(manifest.Diagnostic{Severity: severity, Summary: fmt.Sprintf("%s %s %s: %s", did, graph.Count(len(files), "file"), which, Few(files))})
	}
}

// Few joins the first names of a list, with the number of the others.
func Few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
