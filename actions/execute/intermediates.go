package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

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

func newIntermediates(t *buildTree) *intermediates {
	return &intermediates{buildTree: t, present: map[string]bool{}, runs: 1}
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
