package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

// Code that a command dropped is an error, unless nothing proves that it should be there. The
// outputs are real objects.
func TestLostCode(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"newdriver21.o", "hiprdc15.o", "hipwhole15.o", "libhip.a", "libboth.so", "plain.o", "gfx90a.co", "whole.o", "offwhole19.o", "spirv21.o"} {
		text, err := os.ReadFile("../fatbin/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "odd.o"), []byte("of a form that nobody knows"), 0o666); err != nil {
		t.Fatal(err)
	}
	amd := []string{"gfx906", "gfx90a:xnack-"}
	for _, tt := range []struct {
		name, made string
		kind       graph.Kind
		ships      []string
		inputs     []string
		argv       []string
		want       string // in the error; "" for none
	}{
		{"a link has all", "libboth.so", graph.SharedLink, amd, []string{"hiprdc15.o"}, nil, ""},
		{"of bundles", "plain.o", graph.HostLink, amd, []string{"plain.o", "hiprdc15.o"}, nil, "has none for gfx906, gfx90a:xnack-, which is in hiprdc15.o"},
		{"of the new driver", "plain.o", graph.HostLink, amd, []string{"newdriver21.o"}, nil, "made by clang's new offload driver"},
		{"of one architecture", "gfx90a.co", graph.HostLink, amd, []string{"hiprdc15.o"}, nil, "has none for gfx906, which is in hiprdc15.o"},
		{"of an archive", "plain.o", graph.HostLink, amd, []string{"libhip.a"}, nil, "in libhip.a"},
		{"of final code", "plain.o", graph.HostLink, amd, []string{"hipwhole15.o"}, nil, "in hipwhole15.o"},
		{"inputs have none", "plain.o", graph.HostLink, amd, []string{"plain.o", "odd.o", "missing.o"}, nil, ""},
		{"the linker collects", "plain.o", graph.HostLink, amd, []string{"hiprdc15.o"}, []string{"-Wl,--gc-sections"}, ""},
		{"it collects, of the new driver", "plain.o", graph.HostLink, amd, []string{"newdriver21.o"}, []string{"-Wl,--gc-sections"}, "new offload driver"},
		{"an unknown form", "odd.o", graph.HostLink, amd, []string{"hiprdc15.o"}, nil, ""},
		{"a compile has all", "newdriver21.o", graph.Compile, amd, nil, nil, ""},
		{"a compile without an architecture", "hiprdc15.o", graph.Compile, []string{"gfx906", "gfx1030"}, nil, nil, "hiprdc15.o has none for gfx1030"},
		{"a compile without PTX", "whole.o", graph.Compile, []string{"sm_80", "compute_90"}, nil, nil, "left out code that library.l ships: whole.o has none for compute_90"},
		{"a source without kernels", "plain.o", graph.Compile, []string{"sm_80", "compute_80"}, nil, nil, ""},
		{"a compile for a link with LTO", "offwhole19.o", graph.Compile, []string{"sm_80", "sm_90"}, nil, nil, ""},
		{"one without an architecture", "offwhole19.o", graph.Compile, []string{"sm_80", "sm_86"}, nil, nil, "offwhole19.o has none for sm_86"},
		{"a link by clang's wrapper", "whole.o", graph.HostLink, []string{"sm_80", "sm_90"}, []string{"offwhole19.o"}, []string{"--offload-link"}, "has none for sm_90, which is in offwhole19.o"},
		{"SPIR-V and generic processors", "spirv21.o", graph.Compile, []string{"amdgcnspirv", "gfx11-generic", "gfx906"}, nil, nil, ""},
		{"a processor that a generic one stands for", "spirv21.o", graph.Compile, []string{"gfx1100"}, nil, nil, "spirv21.o has none for gfx1100"},
		{"nothing is asked", "plain.o", graph.HostLink, nil, []string{"hiprdc15.o"}, nil, ""},
	} {
		a := &graph.Action{Kind: tt.kind, Target: "library.l", Work: graph.Work{Driver: &graph.Driver{Ships: tt.ships}}, Inputs: tt.inputs, Outputs: []string{tt.made}, Argv: append([]string{"clang++"}, tt.argv...)}
		err := LostCode(root, a, filepath.Join(root, tt.made))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
