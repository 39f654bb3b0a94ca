package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

var update = flag.Bool("update", false, "rewrite the wanted plans")

// TestPlan plans every testdata/plan/*.txtar: the files of a project, an optional facts.json over
// the usual facts, and the wanted plan, which -update rewrites.
func TestPlan(t *testing.T) {
	files, err := filepath.Glob("testdata/plan/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testPlan(t, file) })
	}
}

func testPlan(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	facts := usualFacts()
	var want string
	for _, f := range ar.Files {
		switch f.Name {
		case "want":
			want = string(f.Data)
		case "facts.json":
			if err := json.Unmarshal(f.Data, &facts); err != nil {
				t.Fatal(err)
			}
			if facts.CUDA.Missing != "" {
				facts.CUDA.Toolkit = nil
			}
		default:
			name := filepath.Join(dir, f.Name)
			os.MkdirAll(filepath.Dir(name), 0o777)
			if err := os.WriteFile(name, f.Data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := render(t, dir, facts)
	if *update {
		writeWant(t, file, ar, got)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan differs (-want +got; -update rewrites):\n%s", diff)
	}
}

func writeWant(t *testing.T, file string, ar *txtar.Archive, got string) {
	found := false
	for i := range ar.Files {
		if ar.Files[i].Name == "want" {
			ar.Files[i].Data, found = []byte(got), true
		}
	}
	if !found {
		ar.Files = append(ar.Files, txtar.File{Name: "want", Data: []byte(got)})
	}
	if err := os.WriteFile(file, txtar.Format(ar), 0o666); err != nil {
		t.Fatal(err)
	}
}

// render plans twice, since equal input must give equal bytes, and writes actions and diagnostics
// as text.
func render(t *testing.T, dir string, facts plan.Facts) string {
	var texts [2]string
	for i := range texts {
		p, diags := manifest.Load(manifest.Options{Dir: dir})
		if diags.HasErrors() {
			var b strings.Builder
			diags.Write(&b, false)
			t.Fatalf("the manifest is wrong:\n%s", b.String())
		}
		var b strings.Builder
		made := plan.New(p, facts, plan.Options{})
		g := made.Graph
		for _, d := range made.Diagnostics {
			fmt.Fprintf(&b, "%s: %s:%d: %s\n  %s\n", d.Severity, d.Pos.File, d.Pos.Line, d.Summary, d.Detail)
			if also := d.Also; also.Pos.Line > 0 {
				fmt.Fprintf(&b, "  %s:%d: %s\n", also.Pos.File, also.Pos.Line, also.Say)
			}
		}
		if g != nil {
			fmt.Fprintf(&b, "default: %s\n", strings.Join(g.Default, " "))
			for _, a := range g.Actions {
				fmt.Fprintf(&b, "\n%s %s %s\n  %s\n", a.Target, a.Kind, a.Name, strings.Join(a.Argv, " "))
				fmt.Fprintf(&b, "  in: %s\n  out: %s\n", strings.Join(a.Inputs, " "), strings.Join(a.Outputs, " "))
				if len(a.OrderOnly) > 0 {
					fmt.Fprintf(&b, "  after: %s\n", strings.Join(a.OrderOnly, " "))
				}
				if a.Work.Link != nil && len(a.Link().NonLTO) > 0 {
					fmt.Fprintf(&b, "  not LTO: %s\n", strings.Join(a.Link().NonLTO, " "))
				}
			}
		}
		texts[i] = b.String()
	}
	if texts[0] != texts[1] {
		t.Errorf("two plans of one project differ:\n%s", cmp.Diff(texts[0], texts[1]))
	}
	return texts[0]
}

func usualFacts() plan.Facts {
	var archs []gencode.Code
	for _, s := range []string{"sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"} {
		c, _ := gencode.Parse(s)
		archs = append(archs, c)
	}
	return plan.Facts{
		Installed: vendors.Installed{CUDA: nvcc.Toolchain{Host: cuda.Host{Toolkit: &cuda.Toolkit{NVCC: toolchain.Tool{Path: "nvcc"}, HostCXX: toolchain.Tool{Path: "g++-11"}, Version: "11.8", Archs: archs}}}},
		CXX:       toolchain.Tool{Path: "g++"}, CC: toolchain.Tool{Path: "gcc"}, AR: toolchain.Tool{Path: "ar"},
	}
}
