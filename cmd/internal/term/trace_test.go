package term

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

type traceDoc struct {
	Unit   string `json:"displayTimeUnit"`
	Events []struct {
		Name  string         `json:"name"`
		Phase string         `json:"ph"`
		TS    *int64         `json:"ts"`
		Dur   *int64         `json:"dur"`
		PID   *int           `json:"pid"`
		TID   *int           `json:"tid"`
		Args  map[string]any `json:"args"`
	} `json:"traceEvents"`
}

func readTrace(t *testing.T, file string) traceDoc {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc traceDoc
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestTraceSchema holds a trace to what the viewers need: every event has a phase, a time, a
// process and a thread; slices have durations and never overlap in one thread; every thread has a
// name.
func TestTraceSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	synctest.Test(t, func(t *testing.T) {
		tr := NewTrace(file)
		drama(Tee{tr})
		if err := tr.Finish(); err != nil {
			t.Fatal(err)
		}
	})
	doc := readTrace(t, file)
	named := map[int]bool{}
	ends := map[int]int64{}
	slices := 0
	for _, e := range doc.Events {
		if e.TS == nil || e.PID == nil || e.TID == nil || e.Name == "" {
			t.Errorf("incomplete event %+v", e)
			continue
		}
		switch e.Phase {
		case "M":
			named[*e.TID] = named[*e.TID] || e.Name == "thread_name"
		case "X":
			slices++
			if e.Dur == nil || *e.TS < ends[*e.TID] || !named[*e.TID] {
				t.Errorf("slice %+v: no duration, overlap, or a thread without a name", e)
				continue
			}
			ends[*e.TID] = *e.TS + *e.Dur
			for _, key := range []string{"target", "archs", "status", "cpu_ms", "max_rss", "argv"} {
				if e.Args[key] == nil {
					t.Errorf("slice %s has no %s", e.Name, key)
				}
			}
		case "C", "i":
		default:
			t.Errorf("unknown phase %q", e.Phase)
		}
	}
	if slices != 2 || ends[1] != 1_500_000 || ends[2] != 2_500_000 {
		t.Errorf("%d slices, threads end at %v µs", slices, ends)
	}
}

func TestTraceOfAnInterruptedRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(file, []byte("the old trace"), 0o666); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tr := NewTrace(file)
		tr.Start(3)
		tr.Started(action(0, graph.Compile, "src/a.cu"))
		tr.Started(action(1, graph.Compile, "src/b.cu"))
		time.Sleep(time.Second)
		tr.Finished(action(0, graph.Compile, "src/a.cu"), sched.Result{Status: sched.Ran}, 1, 3)
		tr.Started(action(2, graph.Compile, "src/c.cu"))
		time.Sleep(time.Second)
		if err := tr.Finish(); err != nil {
			t.Fatal(err)
		}
	})
	status := map[string]any{}
	last := map[string]any{}
	slot := map[string]int{}
	for _, e := range readTrace(t, file).Events {
		switch e.Phase {
		case "X":
			status[e.Name], slot[e.Name] = e.Args["status"], *e.TID
		case "C":
			last = e.Args
		}
	}
	if status["compile src/a.cu"] != "ran" || status["compile src/b.cu"] != "interrupted" || status["compile src/c.cu"] != "interrupted" {
		t.Errorf("status: %v", status)
	}
	if slot["compile src/c.cu"] != slot["compile src/a.cu"] || last["processes"] != 0.0 {
		t.Errorf("slots %v; the counter ends at %v", slot, last)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("files left behind: %v", left)
	}
}

func TestTraceThatCannotBeWritten(t *testing.T) {
	if err := NewTrace(filepath.Join(t.TempDir(), "missing", "trace.json")).Finish(); err == nil {
		t.Error("no error for a folder that does not exist")
	}
}
