package engine

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/tree"
	"github.com/kbuild-dev/kbuild/graph"
)

const mib = 1 << 20

// recorded is an action that the database knows, or not: peak is -1 then.
type recorded struct {
	graph.Action
	peak int64
	want int64
}

func checkPeaks(t *testing.T, list ...recorded) {
	t.Helper()
	j, err := tree.Open(filepath.Join(t.TempDir(), "tree.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	g := &graph.Graph{}
	for i := range list {
		out := fmt.Sprint("out", i)
		list[i].Outputs = []string{out}
		g.Add(&list[i].Action)
		if list[i].peak < 0 {
			continue
		}
		if err := j.Append(&cache.Record{Outputs: []cache.Output{{Path: out}}, MaxRSS: list[i].peak}); err != nil {
			t.Fatal(err)
		}
	}
	tree := &Tree{db: j, Runner: execute.New(execute.Config{Graph: g})}
	for i, r := range list {
		if got := tree.Memory(g.Actions[i]); got != r.want {
			t.Errorf("%s %d, recorded %d MiB, hint %d MiB: %d MiB expected, want %d", r.Kind, i, r.peak/mib, r.Memory/mib, got/mib, r.want/mib)
		}
	}
}

func TestPeakOfOneAction(t *testing.T) {
	lto := &graph.Link{LTO: true}
	checkPeaks(t,
		recorded{graph.Action{Kind: graph.CICC}, 100 * mib, 100 * mib},
		recorded{graph.Action{Kind: graph.CICC, Memory: 300 * mib}, 100 * mib, 300 * mib},
		recorded{graph.Action{Kind: graph.CICC, Memory: 300 * mib}, 900 * mib, 900 * mib},
		recorded{graph.Action{Kind: graph.CICC, Memory: 300 * mib}, -1, 300 * mib},
		recorded{graph.Action{Kind: graph.CICC}, -1, 512 * mib},
		recorded{graph.Action{Kind: graph.CICC}, 0, 512 * mib}, // too small to be seen
		recorded{graph.Action{Kind: graph.Preprocess, Memory: 4096 * mib}, 0, 128 * mib},
		recorded{graph.Action{Kind: graph.NVLink, Work: graph.Work{Link: lto}}, -1, 3072 * mib},
		recorded{graph.Action{Kind: graph.DeviceLink, Work: graph.Work{Link: lto}}, -1, 3072 * mib},
		recorded{graph.Action{Kind: graph.NVLink, Work: graph.Work{Link: &graph.Link{}}}, -1, 1024 * mib},
		recorded{graph.Action{Kind: graph.Generate, Memory: 2 * mib}, -1, 2 * mib},
		recorded{graph.Action{Kind: graph.Join, Memory: 4096 * mib}, -1, 0},
		recorded{graph.Action{Kind: graph.Embed, Memory: 4096 * mib, Argv: []string{"as"}}, -1, 0},
	)
}
