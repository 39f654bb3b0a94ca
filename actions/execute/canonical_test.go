package execute

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// The digest of a preprocessed text covers the files that the assembler includes. The file of a
// text is kept if a command reads it, as is that of its canonical form, which does not depend on
// lines.
func TestCanonicalTexts(t *testing.T) {
	a := &graph.Action{Kind: graph.Preprocess, Transient: true, Outputs: []string{"a.ii", "a.canon"},
		Work: graph.Work{Pass: &graph.CompilerPass{CanonicalForms: []graph.CanonicalForm{{Raw: "a.ii", Canon: "a.canon"}}}}}
	canonical := func(text string, read string) (canonicalTexts, scratch) {
		t.Helper()
		dir := scratch{dir: t.TempDir()}
		if err := dir.makeFolders(a); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.output(0, "a.ii"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "data"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		r := New(Config{Graph: &graph.Graph{}, Root: root, Files: cache.NewFiles(root, nil), Listing: cache.NewListing(root)})
		r.intermediates.read = map[string]bool{read: true}
		m, err := r.canonical.of(a, dir)
		if err != nil {
			t.Fatal(err)
		}
		return m, dir
	}
	exists := func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	}
	one, dir := canonical("# 1 \"a.cu\"\nint a;\n", "a.canon")
	if exists(filepath.Join(dir.dir, "a.ii")) || !exists(dir.output(1, "a.canon")) {
		t.Error("the text is there, which nobody reads, or its canonical form is not")
	}
	other, _ := canonical("# 7 \"a.cu\"\n\n\nint a;\n", "")
	if one.outputs["a.ii"].Digest == other.outputs["a.ii"].Digest || one.outputs["a.canon"].Digest != other.outputs["a.canon"].Digest {
		t.Error("lines are in the digest of the text alone")
	}
}
