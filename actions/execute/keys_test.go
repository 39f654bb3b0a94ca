package execute

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

var update = flag.Bool("update", false, "rewrite the wanted keys")

// TestKeys plans projects with what toolkits have answered, and holds the fields of each key
// against those of before. A change here makes every cache of every user miss: it needs a reason.
// testdata/keys has the projects, the answers of each toolkit (PROJECT-VERSION.json, recorded by
// TestRecordFacts in cmd/kbuild) and the wanted keys.
func TestKeys(t *testing.T) {
	recorded, err := filepath.Glob("testdata/keys/*.json")
	if err != nil || len(recorded) == 0 {
		t.Fatalf("no answers: %v", err)
	}
	for _, file := range recorded {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			got := keysOf(t, planned(t, name))
			want := strings.TrimSuffix(file, ".json") + ".keys"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("keys differ (-want +got; -update rewrites):\n%s", diff)
			}
		})
	}
}

// planned is the plan of a project by recorded facts.
func planned(t *testing.T, name string) *graph.Graph {
	t.Helper()
	kind, _, _ := strings.Cut(name, "-")
	ar, err := txtar.ParseFile(filepath.Join("testdata/keys", kind+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range ar.Files {
		file := filepath.Join(dir, f.Name)
		os.MkdirAll(filepath.Dir(file), 0o777)
		if err := os.WriteFile(file, f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata/keys", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var facts plan.Facts
	if err := json.Unmarshal(text, &facts); err != nil {
		t.Fatal(err)
	}
	p, diags := manifest.Load(manifest.Options{Dir: dir})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	made := plan.New(p, facts, plan.Options{})
	if made.Graph == nil || len(made.Questions) > 0 {
		t.Fatalf("no plan: %+v\nnot answered: %q", made.Diagnostics, made.Questions)
	}
	return made.Graph
}

// keysOf prints the fields of each key in the order of the traversal, arguments in one line, and
// after them what no key has and decides all the same what is run.
func keysOf(t *testing.T, g *graph.Graph) string {
	r := New(Config{Graph: g, Root: "/project", State: "/project/" + g.BuildDir + "/.kbuild", Tools: map[string]string{}})
	var b strings.Builder
	for _, a := range g.Actions {
		fmt.Fprintf(&b, "%s %s %s\n", a.Target, a.Kind, a.Outputs[0])
		var args []string
		var key actionKey
		for _, in := range a.Inputs {
			key.inputs = append(key.inputs, cache.FileDigest{Path: in})
		}
		for _, f := range r.keys.fields(a, key) {
			switch {
			case f.Name == "arg":
				args = append(args, f.Value)
			case f.Name == "kind":
			case strings.HasPrefix(f.Name, "input "), strings.HasPrefix(f.Name, "tool "):
				fmt.Fprintf(&b, "  %s\n", f.Name)
			default:
				fmt.Fprintf(&b, "  %s: %s\n", f.Name, strings.ReplaceAll(f.Value, "\n", "\n    "))
			}
		}
		fmt.Fprintf(&b, "  args: %s\n", strings.Join(args, " "))
		for _, line := range unkeyed(a) {
			fmt.Fprintf(&b, "  - %s\n", line)
		}
	}
	return b.String()
}

// unkeyed is what an action has besides its key, and what makes a key of other outputs.
func unkeyed(a *graph.Action) (lines []string) {
	list := func(name string, of []string) {
		if len(of) > 0 {
			lines = append(lines, name+": "+strings.Join(of, " "))
		}
	}
	is := func(name string, of bool) {
		if of {
			lines = append(lines, name)
		}
	}
	list("archs", a.Archs)
	list("after", a.OrderOnly)
	list("search", a.SearchDirs)
	list("depfile", slices.DeleteFunc([]string{a.Depfile}, func(s string) bool { return s == "" }))
	list("read for messages", a.Pass().DiagnosticInputs)
	list("for messages", a.Pass().DiagnosticArgv)
	list("mentions", a.Pass().UnkeyedPaths)
	for _, argv := range a.Pass().DepfileArgvs {
		list("depfile by", argv)
	}
	list("text by", a.Pass().TextArgv)
	list("macros", a.Pass().Macros)
	list("ships", a.Driver().Ships)
	if a.Work.Keep != nil {
		list("kept", a.Work.Keep.Files)
	}
	if a.Kind == graph.Join {
		list("driver", a.Driver().Argv)
	}
	list("host references", slices.DeleteFunc([]string{a.Link().HostRefs}, func(s string) bool { return s == "" }))
	for _, s := range a.Pass().CanonicalForms {
		lines = append(lines, fmt.Sprintf("canonical: %s of %s, without #if 0 %v", s.Canon, s.Raw, s.DropFalse))
	}
	for _, s := range a.Pass().Staged {
		lines = append(lines, fmt.Sprintf("staged: %s from %s", s.Name, s.From))
	}
	if a.Work.Link != nil {
		lines = append(lines, fmt.Sprintf("link: lto %v, untold %q", a.Link().LTO, a.Link().UnknownOptions))
	}
	list("as one command", slices.DeleteFunc([]string{a.Driver().UnsplitReason}, func(s string) bool { return s == "" }))
	is("part", a.Intermediate)
	is("transient", a.Transient)
	is("gate", a.Pass().Gate)
	is("figures", a.Pass().ResourceUsage)
	is("in place", a.InPlace)
	is("in an empty folder", a.Pass().EmptyCwd)
	return lines
}
