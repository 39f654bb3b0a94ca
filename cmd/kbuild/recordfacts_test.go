package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// TestRecordFacts asks the toolkit of this machine all that the planner wants to know of it for one
// of the projects in actions/execute/testdata/keys, and writes it there, for TestKeys.
// KBUILD_RECORD is its name, PROJECT-VERSION:
//
//	KBUILD_RECORD=cuda-11.8 go test ./cmd/kbuild -run RecordFacts
func TestRecordFacts(t *testing.T) {
	name := os.Getenv("KBUILD_RECORD")
	if name == "" {
		t.Skip("KBUILD_RECORD is not set")
	}
	_, path, _ := strings.Cut(os.Getenv("PATH"), ":") // without the tools that pretend
	t.Setenv("PATH", path)
	const folder = "../../actions/execute/testdata/keys"
	kind, _, _ := strings.Cut(name, "-")
	ar, err := txtar.ParseFile(filepath.Join(folder, kind+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	facts := func(*plan.Facts) {}
	for _, f := range ar.Files {
		if f.Name == "facts.json" {
			facts = func(all *plan.Facts) {
				if err := json.Unmarshal(f.Data, all); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		file := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.MarshalIndent(recordFacts(t, dir, facts), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o666); err != nil {
		t.Fatal(err)
	}
}

// recordFacts asks as a build does. given are facts that stand in the project.
func recordFacts(t *testing.T, dir string, given func(*plan.Facts)) plan.Facts {
	c := &cli{Dir: dir, NoCache: true, err: os.Stderr}
	w := c.workspace()
	p, err := w.Load()
	if err != nil {
		t.Fatal(err)
	}
	facts, _, err := probe.Collect(t.Context(), w.Request(p))
	if err != nil {
		t.Fatal(err)
	}
	given(&facts)
	env := run.Environ(os.Environ(), nil)
	steps := probe.OpenSteps(filepath.Join(dir, "memo"), facts, env, nil)
	for facts.DryRuns = steps.Runs; ; {
		made := plan.New(p, facts, plan.Options{})
		if len(made.Questions) == 0 {
			for _, problem := range made.Diagnostics {
				t.Logf("%+v", problem)
			}
			return facts
		}
		if err := steps.Query(t.Context(), made.Questions); err != nil {
			t.Fatal(err)
		}
	}
}
