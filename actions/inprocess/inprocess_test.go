package inprocess

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// This package does exactly the kinds that run in process by the table of kinds.
func TestStepsOfKinds(t *testing.T) {
	for _, k := range graph.Kinds() {
		if _, ok := kinds[k.Kind]; ok != k.InProcess {
			t.Errorf("%s is done in this process: %v in the table, %v in this package", k.Kind, k.InProcess, ok)
		}
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		action graph.Action
		want   []string // that the outputs hold
		key    string   // names of fields
	}{
		{graph.Action{Kind: graph.Copy, Inputs: []string{"text"}}, []string{"plain text"}, "method"},
		{graph.Action{Kind: graph.Slice, Inputs: []string{"text"}, Archs: []string{"sm_80"}}, []string{"plain text"}, "arch method"}, // not understood: all of it
		{graph.Action{Kind: graph.Embed, Argv: []string{"embed", "code", "v", "a.cu", "sm_80", "cubin", "text"}},
			[]string{`.incbin \"text\"`, "extern const struct kbuild_artifact code[2]"}, "method header"},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "text"), []byte("plain text"), 0o666); err != nil {
			t.Fatal(err)
		}
		for i := range c.want {
			c.action.Outputs = append(c.action.Outputs, strings.Repeat("o", i+1))
		}
		w := Work{Action: &c.action, Root: root}
		for _, o := range c.action.Outputs {
			w.Files = append(w.Files, filepath.Join(root, o))
		}
		if err := Run(w); err != nil {
			t.Errorf("%s: %v", c.action.Kind, err)
		}
		for i, want := range c.want {
			if text, err := os.ReadFile(w.Files[i]); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s wrote %q, want %q", c.action.Kind, text, want)
			}
		}
		key := &cache.Text{}
		WriteKey(key, &c.action)
		var names []string
		for _, f := range key.Fields {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != c.key {
			t.Errorf("%s has the key fields %q, want %q", c.action.Kind, got, c.key)
		}
	}
}
