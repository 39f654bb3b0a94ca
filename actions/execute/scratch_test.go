package execute

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// Two outputs never share a name.
func TestFlatName(t *testing.T) {
	long := strings.Repeat("folder/", 60)
	outputs := []string{"build/a/b+c.o", "build/a+b/c.o", "build/a%2Bb/c.o", "build/a/b/c.o", "build/x/" + long + "c.o", "build/y/" + long + "c.o", "elsewhere/c.o"}
	seen := map[string]string{}
	for _, o := range outputs {
		name := flatName("build", o)
		if strings.ContainsAny(name, "/%") || len(name) > 240 {
			t.Errorf("%s: %q", o, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both %q", o, other, name)
		}
		seen[name] = o
	}
}

// Concurrent actions write different files, in a shared folder or in their own.
func TestScratch(t *testing.T) {
	tree := &buildTree{Config: Config{Root: "/p", Graph: &graph.Graph{BuildDir: "build"}}}
	all := &scratches{buildTree: tree, dir: t.TempDir()}
	t.Setenv("TMPDIR", "/tmp") // which a short name fits into
	short := ""
	t.Cleanup(func() {
		os.RemoveAll(all.dir) // as a user may do it
		run.RemoveTemp(all.dir, all.short)
		if _, err := os.Lstat(short); short == "" || !os.IsNotExist(err) {
			t.Errorf("the short name %q stays: %v", short, err)
		}
	})
	actions := []*graph.Action{
		{Kind: graph.HostCompile, Outputs: []string{"build/a.o"}},
		{Kind: graph.HostCompile, Outputs: []string{"build/x/a.o"}},
		{Kind: graph.Archive, Outputs: []string{"build/a.o.kbuild.d"}}, // the dependency file of the first, by name
		{Kind: graph.Compile, Outputs: []string{"build/y/a.o"}},
		{Kind: graph.Compile, Outputs: []string{"build/100%s/a%b.o"}}, // a % is a digit to LLVM's tools
		{Kind: graph.HostLink, Outputs: []string{"build/bin/a.o", "build/bin/b/a.o"}},
	}
	seen := map[string]int{}
	for n, a := range actions {
		s, err := all.place(a)
		if err != nil {
			t.Fatal(err)
		}
		short = filepath.Dir(all.short)
		files := []string{s.file("args.rsp"), s.depfile()}
		for i, o := range a.Outputs {
			files = append(files, s.output(i, o))
		}
		for _, f := range files {
			if strings.Contains(f, "%") {
				t.Errorf("%s has a %%", f)
			}
			if other, ok := seen[f]; ok {
				t.Errorf("%s is written by %d and %d", f, other, n)
			}
			seen[f] = n
		}
	}
}
