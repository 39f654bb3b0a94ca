package compdb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

func TestCommands(t *testing.T) {
	cuda := t.TempDir()
	os.Mkdir(filepath.Join(cuda, "include"), 0o777)
	os.WriteFile(filepath.Join(cuda, "include/cuda.h"), nil, 0o666)
	g := &graph.Graph{}
	g.Add(&graph.Action{Kind: graph.HostCompile, Argv: []string{"g++", "-MD", "-MF", "x.d", "-c", "x.cpp"}, Inputs: []string{"x.cpp"}, Outputs: []string{"x.o"}})
	g.Add(&graph.Action{Kind: graph.Compile, Tools: []string{"nvcc"}, Inputs: []string{"a.cu"}, Outputs: []string{"a.o"},
		Argv: []string{"nvcc", "-gencode", "arch=compute_80,code=sm_80", "-Xptxas", "-v", "-Xcompiler", "-Wall", "-Iinc", "-c", "a.cu"}})
	g.Add(&graph.Action{Kind: graph.HostLink, Inputs: []string{"x.o", "a.o"}, Outputs: []string{"app"}})
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range Commands(g, []graph.ActionID{2}, "/p", cuda) {
		got = append(got, c.File+": "+strings.Join(c.Arguments, " "))
	}
	want := []string{"x.cpp: g++ -c x.cpp", "a.cu: clang++ -x cuda --cuda-path=" + cuda + " -nocudalib -Wno-unknown-cuda-version -D__CUDACC_RDC__ -Wall -Iinc --cuda-gpu-arch=sm_80 -c a.cu"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
