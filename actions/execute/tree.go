package execute

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

// buildTree is the files of the project and of its build tree, with the actions that write them. It
// forgets what is remembered about a file that is written.
//
// If few of very many actions are affected, Graph has only those and the passes that they need.
// Outer then has all actions.
type buildTree struct {
	Config

	passes sync.Map // of cache.Output by path: those of the passes that are up to date or have run
}

func (t *buildTree) abs(p string) string { return cache.Absolute(t.Root, p) }

// Maker returns the action that writes a file, or nil.
func (t *buildTree) Maker(file string) *graph.Action {
	if id, ok := t.Graph.Producer(file); ok {
		return t.Graph.Actions[id]
	}
	if t.Outer != nil {
		if id, ok := t.Outer.Producer(file); ok {
			return t.Outer.Action(id)
		}
	}
	return nil
}

// IsOutput reports whether an action writes a file.
func (t *buildTree) IsOutput(file string) bool { return t.Maker(file) != nil }

// IsIntermediate reports whether a compiler pass of graph writes a file for other actions.
func (t *buildTree) IsIntermediate(file string) bool {
	id, made := t.Graph.Producer(file)
	return made && t.Graph.Actions[id].Intermediate
}

// needs reports whether a needs b, directly or through others.
func (t *buildTree) needs(a, b *graph.Action) bool {
	if t.Outer == nil {
		return t.Graph.Needs(a.ID, b.ID)
	}
	from, ok := t.Outer.Producer(a.Outputs[0])
	to, ok2 := t.Outer.Producer(b.Outputs[0])
	return ok && ok2 && t.Outer.Needs(from, to)
}

// actions returns the actions of the complete graph.
func (t *buildTree) actions() iter.Seq[*graph.Action] {
	if t.Outer == nil {
		return slices.Values(t.Graph.Actions)
	}
	return func(yield func(*graph.Action) bool) {
		for id := range t.Outer.Len() {
			if !yield(t.Outer.Action(graph.ActionID(id))) {
				return
			}
		}
	}
}

// setPasses stores the outputs of a pass that is up to date or has run.
func (t *buildTree) setPasses(outputs []cache.Output) {
	for _, o := range outputs {
		t.passes.Store(o.Path, o)
	}
}

// pass returns the output of a pass that is up to date or has run.
func (t *buildTree) pass(file string) (cache.Output, bool) {
	v, ok := t.passes.Load(file)
	o, _ := v.(cache.Output)
	return o, ok
}

// Digest returns the digest of a file. A file between passes need not exist.
func (t *buildTree) Digest(file string) (cache.Digest, error) {
	if o, ok := t.pass(file); ok {
		return o.Digest, nil
	}
	return t.Files.Digest(file)
}

// size returns the number of bytes of a file; 0 if it is unknown.
func (t *buildTree) size(file string) int64 {
	if o, ok := t.pass(file); ok {
		return o.Size
	}
	if info, err := os.Stat(t.abs(file)); err == nil {
		return info.Size()
	}
	return 0
}

// Forget drops what is remembered about a file that this or another process has written or removed.
func (t *buildTree) Forget(file string) {
	t.Files.Forget(file)
	t.Listing.Forget(filepath.Dir(t.abs(file)))
}

// has reports whether an output exists with the recorded content.
func (t *buildTree) has(o cache.Output) bool {
	info, err := os.Lstat(t.abs(o.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.Size ||
		(info.Mode()&0o100 != 0) != o.Exec {
		return false
	}
	d, err := t.Files.Digest(o.Path)
	return err == nil && d == o.Digest
}

// place moves a finished file to its name, unless the file there is equal already.
func (t *buildTree) place(temp string, o cache.Output) error {
	if t.has(o) {
		return os.Remove(temp)
	}
	final := t.abs(o.Path)
	err := move(temp, final)
	if err == nil {
		t.Forget(o.Path)
		return nil
	}
	if info, missing := os.Lstat(final); missing == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; it is where kbuild writes a file: remove it", o.Path)
	}
	return fmt.Errorf("moving %s into place: %w", o.Path, err)
}

// move renames a file, and creates the folder if it is missing.
func move(from, to string) error {
	err := regular.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		err = regular.Rename(from, to)
	}
	return err
}

// clear removes the outputs of an in-place command, so that it cannot succeed by leaving an old
// one.
func (t *buildTree) clear(a *graph.Action) error {
	files := a.Outputs
	if a.Kind.Info().Project && a.Depfile != "" {
		files = append(files[:len(files):len(files)], a.Depfile)
	}
	for _, o := range files {
		if err := os.MkdirAll(filepath.Dir(t.abs(o)), 0o777); err != nil {
			return fmt.Errorf("making the folder of %s: %w", o, err)
		}
		if err := os.Remove(t.abs(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the old %s: %w", o, err)
		}
		t.Forget(o)
	}
	return t.empty(a.Work.Collect, true)
}

// empty removes the folder of a command with dynamic outputs, with the files of an earlier run. If
// again is set, it creates the folder again.
func (t *buildTree) empty(c *graph.Collect, again bool) error {
	if c == nil {
		return nil
	}
	root := t.abs(c.Dir)
	filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			t.Forget(c.Dir + filepath.ToSlash(strings.TrimPrefix(name, root)))
		}
		return nil
	})
	err := os.RemoveAll(root)
	if err == nil && again {
		err = os.MkdirAll(root, 0o777)
	}
	t.Listing.Forget(root)
	if err != nil {
		return fmt.Errorf("emptying the folder %s: %w", c.Dir, err)
	}
	return nil
}

// drop forgets what is remembered about the outputs of a failed action. It removes those of an
// in-place command, which may be incomplete.
func (t *buildTree) drop(a *graph.Action) {
	for _, o := range a.Outputs {
		if a.InPlace {
			os.Remove(t.abs(o))
		}
		t.Forget(o)
	}
}

// intermediates manages the files between the passes of a compiler: the outputs of actions with
// Intermediate. A build tree holds none of them. A record of a pass is enough to decide about the
// actions behind it, so a pass that is up to date needs no file. An action that must run gets the
// files that it reads from the cache. A file that no cache keeps comes from another run of its
// pass: preprocessed text is large and quickly built. A file is removed when the last action that
// may read it has ended.
type intermediates struct {
	*buildTree

	mu      sync.Mutex
	present map[string]bool // files that are in the build tree now
	runs    int             // how often each action ends: see Runner.ExpectReruns
	users   map[string]int  // number of actions that may still read a file; see release
	read    map[string]bool // files that the command of some action reads; see isRead
	// of *sync.Mutex, by graph.ActionID: locked while the files of an action are restored or rebuilt
	making sync.Map
}

// readBy returns the intermediate files that a may read.
func (p *intermediates) readBy(a *graph.Action) (files []string) {
	for _, in := range a.Reads() {
		if p.IsIntermediate(in) {
			files = append(files, in)
		}
	}
	return files
}

// release records that a reads no more files, and removes the files that have no other readers.
func (p *intermediates) release(a *graph.Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == nil {
		p.users = map[string]int{}
		for _, b := range p.Graph.Actions {
			for _, in := range p.readBy(b) {
				p.users[in] += p.runs
			}
		}
	}
	for _, in := range a.Reads() {
		if n, ok := p.users[in]; ok {
			p.users[in] = n - 1
			if n == 1 && p.present[in] {
				os.Remove(p.abs(in))
				delete(p.present, in)
			}
		}
	}
}

// isRead reports whether the command of some action reads a file. A build that runs nothing never
// looks into the commands.
func (p *intermediates) isRead(file string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read == nil {
		p.read = map[string]bool{}
		for _, b := range p.Graph.Actions {
			if files := p.readBy(b); len(files) > 0 {
				reads := commandReads(b, b.Argv)
				for _, in := range files {
					p.read[in] = p.read[in] || reads.has(in)
				}
			}
		}
	}
	return p.read[file]
}

// setPresent records that files are in the build tree.
func (p *intermediates) setPresent(files ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range files {
		p.present[f] = true
	}
}

// materialize restores or rebuilds the intermediate files that the command argv of a reads.
func (r *Runner) materialize(ctx context.Context, a *graph.Action, argv []string) error {
	reads := commandReads(a, argv)
	for _, in := range r.intermediates.readBy(a) {
		if reads.has(in) {
			if err := r.materializeFile(ctx, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// materializeFile restores one file from the cache, or runs its pass again.
func (r *Runner) materializeFile(ctx context.Context, file string) error {
	p, a := r.intermediates, r.Maker(file)
	lock, _ := p.making.LoadOrStore(a.ID, new(sync.Mutex))
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	p.mu.Lock()
	present := p.present[file]
	p.mu.Unlock()
	// Unkept does not decide: a store may have received the content since, or may get it from a
	// remote cache.
	if present || kept(a, file) && p.IntermediateStore != nil && p.fetch(ctx, file) == nil {
		return nil
	}
	for _, o := range a.Outputs {
		p.isRead(o)
		p.mu.Lock()
		p.read[o] = true // now a command reads it
		p.mu.Unlock()
	}

	key, err := r.keys.of(a)
	if err != nil {
		return err
	}
	if res := r.build(ctx, a, key, nil); res.Status == sched.Failed {
		return fmt.Errorf("making %s again (%s): %w\n%s",
			a.Outputs[0], strings.Join(a.Argv, " "), res.Err, res.Output)
	}
	return nil
}

// kept reports whether the store keeps the content of an output of a.
func kept(a *graph.Action, output string) bool {
	return !a.Transient || output == a.Pass().FilesOutput || output == a.Pass().DepfileOutput
}

// fetch restores a file from the store.
func (p *intermediates) fetch(ctx context.Context, file string) error {
	o, _ := p.pass(file)
	name := p.abs(o.Path)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	if err := p.IntermediateStore.Restore(ctx, o, name); err != nil {
		return err
	}
	p.setPresent(o.Path)
	return nil
}

// publish moves the outputs of a pass to where they are read.
func (p *intermediates) publish(a *graph.Action, rec *cache.Record, dir scratch) error {
	var moved []string
	for i := range rec.Outputs {
		o := &rec.Outputs[i]
		o.Unkept = !kept(a, o.Path) || p.IntermediateStore == nil
		err := move(dir.output(i, o.Path), p.abs(o.Path))
		if errors.Is(err, fs.ErrNotExist) && a.Transient {
			continue // no command reads it
		}
		if err != nil {
			return fmt.Errorf("moving %s into place: %w", o.Path, err)
		}
		moved = append(moved, o.Path)
	}
	p.setPasses(rec.Outputs)
	p.setPresent(moved...)
	return nil
}

// CopyIntermediate writes the output of a pass to the file name. The last run must have found the
// pass up to date or run it. The content comes from the cache, or from another run of the pass.
func (r *Runner) CopyIntermediate(ctx context.Context, output, name string) error {
	if _, ok := r.pass(output); !ok {
		return fmt.Errorf("%s was not built", output)
	}
	if err := r.materializeFile(ctx, output); err != nil {
		return err
	}
	tmp := name + ".new"
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), regular.Copy(r.abs(output), tmp))
	if err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// PassOutput implements check.Build.
func (r *Runner) PassOutput(ctx context.Context, output, temp string) []byte {
	rec := r.Records.Last(r.Maker(output).Outputs[0])
	if rec == nil || r.IntermediateStore == nil {
		return nil
	}
	i := slices.IndexFunc(rec.Outputs, func(o cache.Output) bool { return o.Path == output })
	if i < 0 || r.IntermediateStore.Restore(ctx, rec.Outputs[i], temp) != nil {
		return nil
	}
	defer os.Remove(temp)
	text, _ := os.ReadFile(temp)
	return text
}

// scratch is the place that an action writes to before its outputs move into place. Its names are
// the same in every run, since a compiler may record the name of its output.
//
// As a rule it is a folder: nvcc names its temporary files after the source. A compile of host code
// or an archive writes a single file, so it gets a name in a folder that all share. There are very
// many of these, and creating and removing a folder would be most of kbuild's cost for one. ext4
// does not reuse an inode for a minute or more after it was freed. It inspects every such inode
// before it allocates another, so every removed file slows down all later actions. For the same
// reason dependency files stay until the end of the build.
type scratch struct {
	dir string // absolute
	// dir as commands name it: relative to the root if possible, so that no absolute path gets into
	// an output
	rel  string
	name string // a name in dir, if other actions use dir too
	tmp  string // TMPDIR of commands: a short name of dir

	traced bool            // commands run under strace
	local  <-chan struct{} // not nil: commands run remotely, and locally too once it is closed
}

// scratches manages the folder of all temporary files of a build.
type scratches struct {
	*buildTree
	dir string

	once   sync.Once
	err    error
	short  string       // a short name of dir, see run.ShortTemp; "" if it has none
	shorts atomic.Int64 // counts the folders in dir that have short names
}

// place creates the scratch of a.
func (t *scratches) place(a *graph.Action) (scratch, error) {
	if err := t.open(); err != nil {
		return scratch{}, err
	}
	name := flatName(t.Graph.BuildDir, a.Outputs[0])
	if oneFile(a) {
		return scratch{dir: t.dir, rel: t.relative(t.dir), name: name, tmp: cmp.Or(t.short, t.dir)}, nil
	}
	dir := filepath.Join(t.dir, name)
	s := scratch{dir: dir, rel: t.relative(dir), tmp: dir}
	if err := os.RemoveAll(dir); err != nil {
		return s, fmt.Errorf("clearing %s: %w", dir, err)
	}
	if !a.Kind.InProcess() {
		s.tmp = t.shortName(dir)
	}
	return s, s.makeFolders(a)
}

// oneFile reports whether a writes only one file, besides a dependency file.
func oneFile(a *graph.Action) bool {
	return a.Kind.Info().SingleFile && len(a.Outputs) == 1 &&
		len(a.Pass().Staged) == 0 && !a.Intermediate && !a.InPlace
}

// open creates the folder, once.
func (t *scratches) open() error {
	t.once.Do(func() {
		if err := os.MkdirAll(t.dir, 0o777); err != nil {
			t.err = fmt.Errorf("making a temporary folder: %w", err)
			return
		}
		if t.short = t.dir; !strings.HasPrefix(t.dir, "/proc/self/fd/") {
			t.short = run.ShortTemp(t.dir)
		}
	})
	return t.err
}

// shortName returns a short absolute name of a folder for temporary files. nvlink 11.8 with -dlto
// ends with "elfLink internal error" if TMPDIR has 54 characters or more and it has anything to
// remove.
func (t *scratches) shortName(dir string) string {
	if t.short == "" {
		return dir
	}
	name := strconv.FormatInt(t.shorts.Add(1), 10)
	if os.Symlink(filepath.Base(dir), filepath.Join(filepath.Dir(dir), name)) != nil {
		return dir
	}
	return t.short + "/" + name
}

// file returns the temporary name of an output that is restored from the cache.
func (t *scratches) file(output string) string {
	return filepath.Join(t.dir, flatName(t.Graph.BuildDir, output))
}

func (t *scratches) relative(dir string) string {
	if rel, err := filepath.Rel(t.Root, dir); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return dir
}

// flatten maps the name of an output to a name without folders. LLVM's tools derive the name of a
// temporary file from that of the output. They replace each % in it by a random digit, in folders
// as well, so no name that a command writes has one. That is why the escape character is ~.
var flatten = strings.NewReplacer("~", "~7E", "+", "~2B", "%", "~25", "/", "+")

// flatName returns a name in the folder of temporary files, unique for each output.
func flatName(buildDir, output string) string {
	name := flatten.Replace(strings.TrimPrefix(output, buildDir+"/"))
	if len(name) > 200 { // a name may have 255
		name = fmt.Sprintf("%x%s", sha256.Sum256([]byte(output)), name[len(name)-136:])
	}
	return name
}

// makeFolders creates the folders that a command writes to.
func (s scratch) makeFolders(a *graph.Action) error {
	for i := range max(1, len(a.Outputs)) {
		if err := os.MkdirAll(filepath.Dir(s.output(i, "x")), 0o777); err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	return nil
}

// again returns the scratch of a second command of the same action.
func (s scratch) again() scratch {
	again := s
	again.dir, again.rel, again.name = s.file("again"), s.relative().file("again"), ""
	again.tmp += "/again"
	return again
}

// cwd returns the working directory of a's command.
func (s scratch) cwd(root string, a *graph.Action) string {
	if a.Pass().EmptyCwd {
		return s.file("apart")
	}
	return root
}

// relative returns s with its files as commands name them.
func (s scratch) relative() scratch {
	s.dir = s.rel
	return s
}

// output returns the file that output i is written to. Each output after the first has a folder of
// its own, since base names may be equal.
func (s scratch) output(i int, output string) string {
	switch {
	case s.name != "":
		return s.dir + "/" + s.name
	case i == 0:
		return filepath.Join(s.dir, baseName(output))
	}
	return filepath.Join(s.dir, strconv.Itoa(i), baseName(output))
}

// named returns the file that the output of a with a name is written to.
func (s scratch) named(a *graph.Action, output string) string {
	return s.output(slices.Index(a.Outputs, output), output)
}

// baseName returns the name of an output in a folder of its own. It is the base name of the output,
// which compilers record, unless that has a %.
func baseName(output string) string { return strings.ReplaceAll(filepath.Base(output), "%", "~25") }

// file returns the name of another file that a command reads or writes. No output has a name with
// "++".
func (s scratch) file(name string) string {
	if s.name != "" {
		return s.dir + "/" + s.name + "++" + name
	}
	return s.dir + "/" + name
}

// removeFrom removes kbuild's own folders from the output of a's command.
func (s scratch) removeFrom(printed, root, buildDir string, a *graph.Action) string {
	printed = strings.ReplaceAll(printed, s.tmp+"/", "")
	if a.Pass().EmptyCwd {
		printed = strings.ReplaceAll(printed, root+"/", "")
	}
	if s.name != "" {
		printed = strings.ReplaceAll(printed, s.relative().output(0, ""), path.Base(a.Outputs[0]))
	} else {
		printed = strings.ReplaceAll(printed, s.rel+"/", "")
	}
	if a.Kind.Info().Linker == graph.LinkerNVLink {
		slices := path.Join(buildDir, graph.SlicesDir, a.Archs[0]) + "/"
		printed = strings.ReplaceAll(printed, slices, buildDir+"/")
	}
	return printed
}

// depfile returns the file that the compiler writes its dependencies to.
func (s scratch) depfile() string { return s.file("kbuild.d") }

// traceFile returns the file for the stdout of a command, such as a linker's --verbose output.
func (s scratch) traceFile() string { return s.file("ld.trace") }

// straceFile is the name of the file in which strace lists the system calls of a command.
const straceFile = "strace"

// remove removes the files that are left. If a writes one file, only the dependency file is left
// after a success, and that stays.
func (s scratch) remove(failed bool) {
	switch {
	case s.name == "":
		os.RemoveAll(s.dir)
		if s.tmp != s.dir {
			os.Remove(filepath.Join(filepath.Dir(s.dir), filepath.Base(s.tmp)))
		}
	case failed:
		os.Remove(s.output(0, ""))
		os.Remove(s.depfile())
	}
}
