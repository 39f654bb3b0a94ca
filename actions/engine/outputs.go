package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// kbuild knows in two ways what it has written into a build tree. The database has the outputs of
// all actions that ran, with their digests. A list beside it has the outputs of the last plan, with
// their targets; it is written before anything is built. The two show which outputs no action
// writes any more. A build removes these before it begins: compilers could find a stale header or
// library before another one, and a stale module would ship. `kbuild clean` removes all that the two
// know.
//
// There is a list for each manifest that builds in the tree, and one for the files of --keep. The
// outputs of one manifest are not leftovers of another.

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
	keptList   = listPrefix + "keep" // see keep.go
	listMagic  = "kbuild outputs 1 "
)

func (l outputList) encode() []byte {
	text, _ := json.Marshal(l) // strings have no error
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

// treeFiles holds the paths that kbuild has written in a build tree, or was about to write. The lists
// also have the files that a damaged database has lost.
type treeFiles struct {
	root, dir string            // of the project and the tree
	real      string            // dir without links
	folders   map[string]string // folders without links
	files     map[string]*written
}

// written is a file in treeFiles.
type written struct {
	outputs []cache.Output // of records; they may name the file by other paths
	listed  bool           // in the list of the manifest, with this label
	label   string
	foreign bool // in the list of another manifest that exists
}

// writtenInto reads what kbuild has written into a build tree. The keys of its files are relative to
// the tree. own is the file name of a manifest's list, or "".
func writtenInto(root, dir, own string) *treeFiles {
	x := &treeFiles{root: root, dir: dir, real: resolved(dir), folders: map[string]string{}, files: map[string]*written{}}
	if db, err := tree.Open(database(filepath.Join(dir, ".kbuild"))); err == nil {
		defer db.Close()
		for rec := range db.All() {
			for _, o := range rec.Outputs {
				if w := x.at(o.Path); w != nil {
					w.outputs = append(w.outputs, o)
				}
			}
		}
	}
	lists, _ := filepath.Glob(filepath.Join(dir, ".kbuild", listPrefix+"*"))
	for _, name := range lists {
		list, ok := readOutputList(name)
		mine := filepath.Base(name) == own
		if !ok || own != "" && !mine && !cache.Exists(filepath.Join(x.real, ".kbuild", list.Manifest)) {
			continue
		}
		for o, label := range list.Outputs {
			if w := x.at(o); w != nil && mine {
				w.listed, w.label = true, label
			} else if w != nil {
				w.foreign = true
			}
		}
	}
	return x
}

// name returns the path of an output relative to the tree, or "" if it is not in the tree. The
// command line that wrote it may have named the tree by another path.
func (x *treeFiles) name(output string) string {
	name := cache.Absolute(x.root, output)
	if rel, ok := strings.CutPrefix(name, x.dir+"/"); ok && filepath.IsLocal(rel) {
		return filepath.Clean(rel)
	}
	folder, file := filepath.Split(name)
	if x.folders[folder] == "" {
		x.folders[folder] = resolved(folder)
	}
	rel, err := filepath.Rel(x.real, filepath.Join(x.folders[folder], file))
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return rel
}

// at returns the file of an output, or nil if the output is not in the tree.
func (x *treeFiles) at(output string) *written {
	name := x.name(output)
	if name == "" || name == ".kbuild" || strings.HasPrefix(name, ".kbuild/") {
		return nil
	}
	if x.files[name] == nil {
		x.files[name] = &written{}
	}
	return x.files[name]
}

// sweep removes outputs that no action writes any more, before want is built. It writes the list of
// the outputs that the tree will have.
func (p *Project) sweep(r *schedulerRun, want []graph.ActionID) error {
	state := resolved(p.w.StateDir()) // the same tree through a link has the same lists
	l := outputList{Manifest: filepath.Join(resolved(p.Root), p.File), Outputs: map[string]string{}}
	if rel, err := filepath.Rel(state, l.Manifest); err == nil {
		l.Manifest = rel
	}
	dir := p.Graph.BuildDir + "/"
	for _, a := range p.Graph.Actions {
		for _, o := range a.Outputs {
			if !a.Intermediate && strings.HasPrefix(o, dir) && !strings.HasPrefix(o, dir+".kbuild/") {
				l.Outputs[o] = a.Target
			}
		}
	}
	sum := sha256.Sum256([]byte(l.Manifest))
	name := filepath.Join(state, fmt.Sprintf("%s%x", listPrefix, sum[:6]))
	text := l.encode()
	p.listFile, p.listDigest = name, sha256.Sum256(text)
	old, err := regular.Read(name)
	if err == nil && bytes.Equal(old, text) {
		return nil
	}
	x := writtenInto(p.Root, filepath.Clean(cache.Absolute(p.Root, p.Graph.BuildDir)), filepath.Base(name))
	known := map[string]string{} // the labels of outputs
	for name, w := range x.files {
		if !w.foreign && (w.listed || len(w.outputs) > 0) {
			known[path.Join(p.Graph.BuildDir, name)] = w.label
		}
	}
	now, later := p.leftovers(known, l.Outputs, want)
	if p.w.DryRun {
		now = slices.DeleteFunc(now, func(o string) bool { return !cache.Exists(cache.Absolute(p.Root, o)) })
		r.tellLeftovers(manifest.Note, "would remove", now, "that nothing makes any more")
		return nil
	}
	removed, left, err := r.tree.removeLeftovers(now, x)
	r.tellLeftovers(manifest.Note, "removed", removed, "that nothing makes any more")
	r.tellLeftovers(manifest.Warning, "left", left, "that nothing makes any more, because its content may not be what kbuild wrote")
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

// leftovers returns the known outputs that the plan does not write. If want does not bring an
// output's target up to date, the output is removed later: a module goes with its manifest, which
// names it. If dynamic outputs are unknown, outputs of targets that the plan lacks wait, too.
func (p *Project) leftovers(known, planned map[string]string, want []graph.ActionID) (now []string, later map[string]string) {
	in := map[graph.ActionID]bool{}
	for _, id := range p.Graph.Closure(want) {
		in[id] = true
	}
	fresh, all := map[string]bool{}, true // the targets that are up to date if want is
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
	settled := len(p.Pending) == 0
	later = map[string]string{}
	for o, label := range known {
		if _, ok := planned[o]; ok {
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

func (r *schedulerRun) tellLeftovers(severity manifest.Severity, did string, files []string, which string) {
	if len(files) > 0 {
		r.Diagnose(manifest.Diagnostic{Severity: severity, Summary: fmt.Sprintf("%s %s %s: %s", did, graph.Count(len(files), "file"), which, Few(files))})
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

// removeLeftovers removes outputs that no action writes any more, and the folders that are empty
// then. It keeps a file whose content is not in the database, and returns it in left: the user may
// have written it. In both cases the database forgets the output, under every name that it has
// there. Links are not followed out of the build tree.
func (t *Tree) removeLeftovers(outputs []string, x *treeFiles) (removed, left []string, err error) {
	if len(outputs) == 0 {
		return nil, nil, nil
	}
	r := t.Runner
	tree, err := os.OpenRoot(cache.Absolute(r.Root, r.Graph.BuildDir))
	if err != nil {
		return nil, nil, fmt.Errorf("opening the build tree: %w", err)
	}
	defer tree.Close()
	var gone []string
	for _, file := range outputs {
		rel := strings.TrimPrefix(file, r.Graph.BuildDir+"/")
		w := x.files[rel]
		info, err := tree.Lstat(rel)
		switch {
		// it has become a folder, or its folder a file
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), err == nil && info.IsDir():
		case err != nil || !info.Mode().IsRegular() || !isOneOf(cache.Absolute(r.Root, file), info.Size(), w.outputs):
			left = append(left, file)
		default:
			if err := tree.Remove(rel); err != nil {
				return removed, left, fmt.Errorf("removing %s, which nothing makes any more: %w", file, err)
			}
			r.Forget(file)
			removed, gone = append(removed, file), append(gone, rel)
		}
		for _, o := range w.outputs {
			if err := t.db.Remove(o.Path); err != nil {
				return removed, left, err
			}
		}
	}
	removeEmptyFolders(tree, foldersAbove(gone))
	return removed, left, nil
}

// isOneOf reports whether a file of the given size has the content of one of outputs.
func isOneOf(file string, size int64, outputs []cache.Output) bool {
	sized := func(o cache.Output) bool { return o.Size == size }
	if !slices.ContainsFunc(outputs, sized) {
		return false
	}
	d, err := cache.DigestFile(file)
	return err == nil && slices.ContainsFunc(outputs, func(o cache.Output) bool { return sized(o) && o.Digest == d })
}

// foldersAbove returns the folders above files of a tree.
func foldersAbove(files []string) map[string]bool {
	above := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(f); d != "." && d != "/" && !above[d]; d = path.Dir(d) {
			above[d] = true
		}
	}
	return above
}

// removeEmptyFolders removes those of some folders of a tree that are empty.
func removeEmptyFolders(tree *os.Root, folders map[string]bool) {
	for _, d := range slices.Backward(slices.Sorted(maps.Keys(folders))) { // content before its folder
		if info, err := tree.Lstat(d); err == nil && info.IsDir() {
			tree.Remove(d) // fails for a folder that is not empty
		}
	}
}

// Clean removes what kbuild has written into a build tree: the outputs that the database and the
// lists beside it name, the files of --keep, the folder .kbuild, and the folders that are empty
// then. It keeps and reports all other files, since kbuild cannot know whether they can be built
// again. It does not follow links out of the tree.

// Cleaned reports what Clean did to a build tree, or would do in a dry run.
type Cleaned struct {
	Dir string
	// files that kbuild did not write, and folders that it does not know, with a slash
	Others []string
}

// Clean removes what kbuild has written into the build tree of the project, and into the trees of
// profiles in it. The cache stays.
func (w *Workspace) Clean() (cleaned []Cleaned, err error) {
	p, err := w.Load()
	if err != nil {
		return nil, err
	}
	dir := filepath.Clean(cache.Absolute(p.Root, p.BuildDir))
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil, nil
	}
	if !isFolder(filepath.Join(dir, ".kbuild")) {
		return nil, usagef("%s was not made by kbuild (it has no .kbuild folder); remove it yourself", dir)
	}
	profiles := profileTrees(p, dir)
	for _, tree := range append(profiles, dir) {
		others, err := w.clean(p.Root, tree, profiles)
		if err != nil {
			return cleaned, err
		}
		cleaned = append(cleaned, Cleaned{tree, others})
	}
	return cleaned, nil
}

// isFolder reports whether name is a folder, and not a link to one.
func isFolder(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// profileTrees returns the build trees of profiles of this project: build/P in build.
func profileTrees(p *manifest.Project, dir string) (trees []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		tree := filepath.Join(dir, e.Name())
		if e.Name() != ".kbuild" && isFolder(filepath.Join(tree, ".kbuild")) && len(writtenInto(p.Root, tree, "").files) > 0 {
			trees = append(trees, tree)
		}
	}
	return trees
}

// clean cleans one build tree. It skips the trees of profiles in it, which are cleaned by
// themselves.
func (w *Workspace) clean(root, dir string, profiles []string) (others []string, err error) {
	state := filepath.Join(dir, ".kbuild")
	if !w.DryRun {
		t, err := w.lockAny(state, false)
		if err != nil || t == nil {
			return nil, err
		}
		defer t.Close()
	}
	tree, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	known := writtenInto(root, dir, "").files
	folders := foldersAbove(slices.Concat(slices.Collect(maps.Keys(known)), treeFolders))
	var files []string
	err = fs.WalkDir(tree.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || name == "." || e.IsDir() && folders[name]:
			return nil
		case name == ".kbuild", slices.Contains(profiles, filepath.Join(dir, name)):
			return fs.SkipDir
		case known[name] != nil && !e.IsDir():
			files = append(files, name)
		case e.IsDir():
			others = append(others, name+"/")
			return fs.SkipDir
		default:
			others = append(others, name)
		}
		return nil
	})
	if err != nil || w.DryRun {
		return others, err
	}
	for _, f := range files {
		if err := tree.Remove(f); err != nil {
			return nil, err
		}
	}
	removeEmptyFolders(tree, folders)
	return others, removeState(dir, state)
}

// treeFolders lists the folders that kbuild creates in every build tree.
var treeFolders = []string{"bin/", "gen/", "lib/", "modules/", "obj/", keepDir + "/"}

// checkBuildDir returns an error if the project or a source of it is in the build tree.
func checkBuildDir(p *manifest.Project) error {
	dir := resolved(cache.Absolute(p.Root, p.BuildDir))
	holds := func(file string) bool {
		name := resolved(cache.Absolute(p.Root, file))
		return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	}
	refuse := func(what string) error {
		return usagef("the build tree %s would hold %s; give it a folder of its own, such as --build-dir build", dir, what)
	}
	if holds(p.Root) {
		return refuse("the project, " + p.Root)
	}
	for _, f := range p.Files {
		if holds(f) {
			return refuse("the manifest " + f)
		}
	}
	looked := map[string]bool{} // folders of sources that were checked
	for _, t := range p.Targets {
		for _, s := range t.Sources {
			folder := path.Dir(s.Path)
			if s.Generated != "" || looked[folder] {
				continue
			}
			if looked[folder] = true; holds(folder) {
				return refuse(fmt.Sprintf("the source %s (%s:%d)", s.Path, s.Pos.File, s.Pos.Line))
			}
		}
	}
	return nil
}

// resolved returns a path without symbolic links, as far as it exists.
func resolved(name string) string {
	name = filepath.Clean(name)
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	if dir := filepath.Dir(name); dir != name {
		return filepath.Join(resolved(dir), filepath.Base(name))
	}
	return name
}
