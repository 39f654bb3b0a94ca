package execute

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// keeping is a store that has the content of some files.
type keeping struct {
	cache.Store
	has map[string]string // by path
}

func (k keeping) Put(context.Context, *cache.Record, func(cache.Output) string) error { return nil }

func (k keeping) Restore(_ context.Context, o cache.Output, name string) error {
	text, ok := k.has[o.Path]
	if !ok {
		return fs.ErrNotExist
	}
	return os.WriteFile(name, []byte(text), 0o666)
}

// A file between passes exists while an action may read it. It is restored from the store, or built
// again once, by the first action that needs it.
func TestIntermediates(t *testing.T) {
	l := newLab(t, "")
	l.graph = &graph.Graph{}
	sh := func(script string, a graph.Action) *graph.Action {
		a.Kind, a.Tools, a.Argv = graph.CICC, []string{"cc"}, append([]string{"sh", "-c", script}, append(a.Outputs, a.Inputs...)...)
		return l.graph.Add(&a)
	}
	pass := sh(`echo >>count; echo text >"$0"`, graph.Action{Intermediate: true, Transient: true, Outputs: []string{"parts/a.ii"}})
	cicc := sh(`exit 1`, graph.Action{Intermediate: true, Outputs: []string{"parts/a.ptx"}})
	var users []*graph.Action
	for _, name := range []string{"x", "y"} {
		a := sh("", graph.Action{Inputs: []string{"parts/a.ii", "parts/a.ptx"}, Outputs: []string{name}})
		a.Argv = []string{"cc", "parts/a.ii"}
		users = append(users, a)
	}
	if err := l.graph.Seal(); err != nil {
		t.Fatal(err)
	}
	c := l.lateRunner().Config
	c.IntermediateStore = keeping{has: map[string]string{"parts/a.ptx": "ptx"}}
	c.Begun = c.Begun.Add(-time.Minute)
	r := New(c)
	r.setPasses([]cache.Output{{Path: pass.Outputs[0], Unkept: true}, {Path: cicc.Outputs[0]}})
	exists := func(file string) bool {
		_, err := os.Stat(filepath.Join(l.root, file))
		return err == nil
	}
	var all sync.WaitGroup
	for _, a := range users {
		all.Go(func() {
			if err := r.materialize(t.Context(), a, a.Argv); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made, _ := os.ReadFile(filepath.Join(l.root, "count")); string(made) != "\n" || !exists("parts/a.ii") || exists("parts/a.ptx") {
		t.Errorf("made %q times, the text is there: %v, PTX that no command reads: %v", made, exists("parts/a.ii"), exists("parts/a.ptx"))
	}
	if p := r.intermediates; !p.isRead("parts/a.ii") || p.isRead("parts/a.ptx") {
		t.Error("the text is read, the PTX is not")
	}
	if err := r.CopyIntermediate(t.Context(), "parts/a.ptx", filepath.Join(l.root, "keep/a.ptx")); err != nil {
		t.Errorf("copying what the store has: %v", err)
	}
	r.intermediates.release(users[0])
	if !exists("parts/a.ii") {
		t.Error("one may still read the text, and it is gone")
	}
	r.intermediates.release(users[1])
	if exists("parts/a.ii") || exists("parts/a.ptx") {
		t.Error("nobody reads them any more, and they are there")
	}
}
