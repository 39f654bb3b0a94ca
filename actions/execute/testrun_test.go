package execute

import (
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

// The key of a test that needs a GPU has the variables that select GPUs. It has no folders of
// libraries.
func TestKeyOfTests(t *testing.T) {
	key := func(run graph.TestRun, gpuEnv ...string) (fields []string, env []string) {
		g := &graph.Graph{BuildDir: "build"}
		g.Add(&graph.Action{Kind: graph.Test, Argv: []string{"build/bin/check"}, Outputs: []string{"build/test/a.log"}, Work: graph.Work{Test: &run}})
		r := New(Config{Graph: g, Root: "/project", State: "/project/build/.kbuild", Env: []string{"LD_LIBRARY_PATH=/mine"}, GPUEnv: gpuEnv})
		for _, f := range r.keys.fields(g.Actions[0], actionKey{}) {
			fields = append(fields, f.Name+" "+f.Value)
		}
		return fields, r.environ(g.Actions[0], "/tmp/x")
	}
	plain, env := key(graph.TestRun{}, "CUDA_VISIBLE_DEVICES=1")
	if slices.Contains(env, "CUDA_VISIBLE_DEVICES=1") || strings.Contains(strings.Join(plain, "\n"), "VISIBLE") {
		t.Errorf("it needs no GPU, and has %q, %q", plain, env)
	}
	gpu, env := key(graph.TestRun{GPU: true}, "CUDA_VISIBLE_DEVICES=1")
	if !slices.Contains(env, "CUDA_VISIBLE_DEVICES=1") || !slices.Contains(gpu, "env CUDA_VISIBLE_DEVICES=1") {
		t.Errorf("it needs a GPU, and has %q, %q", gpu, env)
	}
	led, env := key(graph.TestRun{LibDirs: []string{"third/lib", "/opt/toolkit/lib"}})
	if want := "LD_LIBRARY_PATH=/project/third/lib:/opt/toolkit/lib:/mine"; !slices.Contains(env, want) || slices.Contains(env, "LD_LIBRARY_PATH=/mine") {
		t.Errorf("the environment is %q, and lacks %s", env, want)
	}
	if !slices.Equal(led, plain) {
		t.Errorf("the key has folders: %q", led)
	}
}
