package execute

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// If a pass fails and the unsplit compiler succeeds, the dry run was misparsed, unless a signal
// ended the pass or memory was short. A compiler that runs unsplit already is not tested again.
func TestConfirmSplitFailure(t *testing.T) {
	const question = "hip\n-###\n"
	for name, c := range map[string]struct {
		err     error
		printed string
		plain   string
		known   map[string]bool
		want    int
	}{
		"misparsed":       {err: errors.New("the compiler wrote no dependency file"), plain: "true", want: 1},
		"known":           {err: errors.New("the compiler wrote no dependency file"), plain: "true", known: map[string]bool{question: true}},
		"another known":   {err: errors.New("exit status 1"), plain: "true", known: map[string]bool{"hip\n": true}, want: 1},
		"killed":          {err: &ended{"killed", true}, plain: "true"},
		"ended":           {err: &ended{"ended by signal segmentation fault", false}, plain: "true"},
		"of the source":   {err: errors.New("exit status 1"), printed: "a.hip:1:1: error: no\n", plain: "true"},
		"nothing helps":   {err: errors.New("exit status 1"), plain: "false"},
		"plain is killed": {err: errors.New("exit status 1"), plain: "./killed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o777), os.WriteFile(filepath.Join(dir, "killed"), []byte("#!/bin/sh\nkill -9 $$\n"), 0o777)); err != nil {
				t.Fatal(err)
			}
			m := New(Config{Graph: &graph.Graph{}, Root: dir, State: dir, Env: os.Environ(), Unsplit: c.known})
			a := &graph.Action{Kind: graph.Preprocess, Name: "a.hip", Archs: []string{"gfx906"}, Work: graph.Work{Driver: &graph.Driver{Argv: []string{c.plain}, DryRunKey: question}}}
			res := sched.Result{Status: sched.Failed, Argv: []string{"clang++"}, Err: c.err, Output: []byte(c.printed)}
			for range 2 {
				m.splitFailures.confirm(t.Context(), a, res)
			}
			found := m.SplitFailures()
			if len(found) != c.want {
				t.Fatalf("misparsed: %+v", found)
			}
			if c.want > 0 && (found[0].Question != question || found[0].Pass != "preprocess a.hip (gfx906)" || found[0].Said != c.err.Error()) {
				t.Errorf("misparsed: %+v", found[0])
			}
		})
	}
}
