package plan_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// TestCheckedPTX plans modules and objects with PTX that nvcc 13 has ptxas check: nothing but the
// check reads what cicc wrote, and what is shipped is what the check lets pass. Of LTO-IR nvcc
// checks nothing, also where kbuild has PTX made beside it.
func TestCheckedPTX(t *testing.T) {
	for _, tt := range []struct{ name, block, recorded, want string }{
		{"ptx", `module "m" {
			sources = ["a.cu"]
			code    = ["compute_90"]
			emit    = ["ptx"]
			mode    = "whole"
		}`, "13.5-ptx-check", "cicc: compute_90.canon.ii -> compute_90.unchecked.ptx; ptxas: compute_90.unchecked.ptx -> compute_90.ptx; copy: compute_90.ptx -> m.compute_90.ptx"},
		{"fatbin", `module "m" {
			sources = ["a.cu"]
			code    = ["sm_80", "compute_90"]
			emit    = ["fatbin"]
			mode    = "whole"
		}`, "13.5-fatbin-check", "cicc: compute_80.canon.ii -> compute_80.ptx; cicc: compute_90.canon.ii -> compute_90.unchecked.ptx; " +
			"ptxas: compute_90.unchecked.ptx -> compute_90.ptx; ptxas: compute_80.ptx -> sm_80.cubin; fatbinary: sm_80.cubin compute_90.ptx -> m.fatbin"},
		{"object", `library "m" {
			sources = ["a.cu"]
			code    = ["sm_80", "compute_90"]
			mode    = "rdc"
		}`, "13.5-dc-check", "cicc: compute_80.canon.ii -> compute_80.stub.c compute_80.ptx compute_80.stub.canon.c; " +
			"cicc: compute_90.canon.ii -> compute_90.stub.c compute_90.unchecked.ptx compute_90.stub.canon.c; " +
			"ptxas: compute_90.unchecked.ptx -> compute_90.ptx; ptxas: compute_80.ptx -> sm_80.cubin; fatbinary: sm_80.cubin compute_90.ptx -> fatbin"},
		{"ltoir", `module "m" {
			sources = ["a.cu"]
			code    = ["lto_90"]
			emit    = ["ltoir"]
			mode    = "lto"
		}`, "13.5-fatbin-lto", "cicc: compute_90.canon.ii -> compute_90.unchecked.ptx compute_90.ltoir; " +
			"copy: compute_90.ltoir -> m.lto_90.ltoir; copy: compute_90.unchecked.ptx -> m.lto_90.ptx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(deviceActions(answered(t, tt.block, tt.recorded)), "; "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// answered plans a project twice: the second time with a recorded answer to what the first asked.
func answered(t *testing.T, block, recorded string) *graph.Graph {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kernels.hcl"), []byte(block), 0o666); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "a.cu"), nil, 0o666)
	p, diags := manifest.Load(manifest.Options{Dir: dir})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	text, err := os.ReadFile("../toolchain/nvcc/testdata/" + recorded + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	facts := usualFacts()
	facts.CUDA.Programs, facts.CUDA.FatbinC = map[string]string{}, map[string]string{"rdc": "placeholder"}
	for _, tool := range nvcc.Programs {
		facts.CUDA.Programs[tool] = tool
	}
	facts.DryRuns = map[string]toolchain.DryRun{}
	for _, q := range plan.New(p, facts, plan.Options{}).Questions {
		facts.DryRuns[q.Key()] = toolchain.DryRun{Text: string(text)}
	}
	made := plan.New(p, facts, plan.Options{})
	if made.Graph == nil {
		t.Fatalf("no plan: %v", made.Diagnostics)
	}
	return made.Graph
}

// deviceActions are the passes behind the preprocessor that make device code, by the base names of
// their files.
func deviceActions(g *graph.Graph) (list []string) {
	names := func(files []string) string {
		var names []string
		for _, f := range files {
			names = append(names, path.Base(f))
		}
		return strings.Join(names, " ")
	}
	for _, a := range g.Actions {
		switch a.Kind {
		case graph.CICC, graph.PTXAS, graph.Fatbinary, graph.Copy:
			list = append(list, string(a.Kind)+": "+names(a.Inputs)+" -> "+names(a.Outputs))
		case graph.Compile, graph.ModuleEmit:
			list = append(list, "whole: "+a.Driver().UnsplitReason)
		}
	}
	return list
}
