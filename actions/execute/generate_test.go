package execute

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

func TestGeneratedFiles(t *testing.T) {
	root := t.TempDir()
	write := func(name string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all := &graph.Graph{BuildDir: "build"}
	block := all.Add(&graph.Action{Kind: graph.Generate, Name: "tables", Target: "generate.tables", Outputs: []string{"build/gen/tables/t.h"}})
	user := all.Add(&graph.Action{Kind: graph.HostCompile, Name: "a.cpp", Target: "library.a", Inputs: []string{"a.cpp"}, Outputs: []string{"a.o"}})
	needs := all.Add(&graph.Action{Kind: graph.HostCompile, Name: "b.cpp", OrderOnly: block.Outputs, Outputs: []string{"b.o"}})
	if err := all.Seal(); err != nil {
		t.Fatal(err)
	}
	g := New(Config{Graph: all, Root: root, Files: cache.NewFiles(root, nil), Listing: cache.NewListing(root)}).generated
	for _, c := range []struct {
		action *graph.Action
		file   string
		want   string // that the error says
	}{
		{user, "a.h", ""},
		{needs, "build/gen/tables/t.h", ""},
		{user, "build/gen/tables/t.h", "generate.tables makes"},
		{user, "build/gen/tables/other.h", `add "other.h" to the outputs of generate.tables`},
		{user, "build/gen/gone/x.h", "which no generate block makes: remove it"},
	} {
		err := g.undeclared(c.action, []cache.FileDigest{{Path: c.file}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s reads %s: %v, want %q", c.action.Name, c.file, err, c.want)
		}
	}
	write("build/gen/tables/old.h")
	before := g.beside(block)
	write("build/gen/tables/t.h")
	if err := g.take(block, before, ""); err != nil {
		t.Errorf("it wrote its output: %v", err)
	}
	write("build/gen/tables/more/x.h")
	if err := g.take(block, before, ""); err == nil || !strings.Contains(err.Error(), "wrote build/gen/tables/more/x.h,") {
		t.Errorf("it wrote more: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "build/gen/tables/more")); err == nil {
		t.Error("what it wrote besides is there")
	}
}
