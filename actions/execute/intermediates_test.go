package execute

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// keeping is a store that has the content of some files.
type keeping struct {
	cache.Store
	has map[string]string // by path
}

func (k keeping) Restore(_ context.Context, o cache.Output, name string) error {
	text, ok := k.has[o.Path]
	if !ok {
		return fs.ErrNotExist
	}
	return os.WriteFile(name, []byte(text), 0o666)
}

// A file between passes is there while somebody may read it: brought from the store, or made again
// once, whoever asks at the same time.
func TestIntermediates(t *testing.T) {
	root := t.TempDir()
	g := &graph.Graph{}
	pass := g.Add(&graph.Action{Intermediate: true, Transient: true, Argv: []string{"cpp"}, Outputs: []string{"parts/a.ii"}})
	cicc := g.Add(&graph.Action{Intermediate: true, Argv: []string{"cicc"}, Outputs: []string{"parts/a.ptx"}})
	var users []*graph.Action
	for _, name := range []string{"x", "y"} {
		users = append(users, g.Add(&graph.Action{Inputs: []string{"parts/a.ii", "parts/a.ptx"}, Argv: []string{"cc", "parts/a.ii"}, Outputs: []string{name}}))
	}
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	made := 0
	var p *intermediates
	p = newIntermediates(makers{graph: g}, root, keeping{has: map[string]string{"parts/a.ptx": "ptx"}}, func(_ context.Context, a *graph.Action) error {
		made++
		p.markPresent(a.Outputs...)
		return errors.Join(os.MkdirAll(filepath.Join(root, "parts"), 0o777), os.WriteFile(filepath.Join(root, a.Outputs[0]), []byte("text"), 0o666))
	})
	p.setOutputs([]cache.Output{{Path: pass.Outputs[0], Unkept: true}, {Path: cicc.Outputs[0]}})
	exists := func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil
	}
	var all sync.WaitGroup
	for _, a := range users {
		all.Go(func() {
			if err := p.materialize(t.Context(), a, a.Argv); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 1 || !exists("parts/a.ii") || exists("parts/a.ptx") {
		t.Errorf("made %d times, the text is there: %v, PTX that no command reads: %v", made, exists("parts/a.ii"), exists("parts/a.ptx"))
	}
	if !p.isRead("parts/a.ii") || p.isRead("parts/a.ptx") {
		t.Error("the text is read, the PTX is not")
	}
	if err := p.copy(t.Context(), "parts/a.ptx", filepath.Join(root, "keep/a.ptx")); err != nil || made != 1 {
		t.Errorf("copying what the store has: %v, made %d times", err, made)
	}
	p.release(users[0])
	if !exists("parts/a.ii") {
		t.Error("one may still read the text, and it is gone")
	}
	p.release(users[1])
	if exists("parts/a.ii") || exists("parts/a.ptx") {
		t.Error("nobody reads them any more, and they are there")
	}
}
