package hostcode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// Behind a link ".." leads elsewhere than the name says, and behind what does not exist nowhere. In
// names of headers, of files that are asked for and of those that the assembler takes in it means
// what it means to the system.
func TestClimbs(t *testing.T) {
	t.Parallel()
	const value = "#define V "
	link := func(p *e2e.Project, to, name string) {
		os.Remove(filepath.Join(p.Dir, name))
		if err := os.Symlink(to, filepath.Join(p.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, text string
		edits      []func(p *e2e.Project)
	}{
		{"a header", "#include \"link/../v.h\"\nint f() { return V; }\n", nil},
		{"is asked for", "#if __has_include(\"link/../only.h\")\nint f() { return 1; }\n#endif\n", nil},
		{"is taken in", "asm(\".data\\n.incbin \\\"inc/link/../v.h\\\"\\n.text\");\n", nil},
		{"a folder comes", "#include <deep/../w.h>\nint f() { return V; }\n", []func(*e2e.Project){func(p *e2e.Project) {
			if err := os.Mkdir(filepath.Join(p.Dir, "inc/deep"), 0o777); err != nil {
				t.Fatal(err)
			}
		}}},
		{"a header comes", "#include <link/../x.h>\nint f() { return V; }\n", []func(*e2e.Project){func(p *e2e.Project) {
			link(p, "../other/deep", "inc/link")
		}, func(p *e2e.Project) { p.Write("other/x.h", value+"9\n") }}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := e2e.New(t)
			p.Write("kernels.hcl", "library \"w\" {\n  sources  = [\"a.cpp\"]\n  includes = [\"inc\", \"late\"]\n}\n")
			p.Write("a.cpp", c.text)
			for _, dir := range []string{"inc/near", "other/deep", "late/deep", "late/link"} {
				if err := os.MkdirAll(filepath.Join(p.Dir, dir), 0o777); err != nil {
					t.Fatal(err)
				}
				p.Write(dir+"/q.h", "")
			}
			for name, n := range map[string]string{"inc/v.h": "1", "other/v.h": "2", "inc/only.h": "1", "inc/w.h": "3", "late/w.h": "4", "late/x.h": "5"} {
				p.Write(name, value+n+"\n")
			}
			link(&p, "near", "inc/link")
			p.Run("kbuild")
			edits := c.edits
			if edits == nil {
				edits = []func(*e2e.Project){
					func(p *e2e.Project) { link(p, "../other/deep", "inc/link") },
					func(p *e2e.Project) { p.Write("other/v.h", value+"7\n") },
					func(p *e2e.Project) { p.Write("other/only.h", "") },
				}
			}
			for i, edit := range edits {
				edit(&p)
				p.Run("kbuild")
				clean := p.Checkout(t, "clean")
				clean.Run("kbuild")
				if string(p.Read("build/lib/libw.a")) != string(clean.Read("build/lib/libw.a")) {
					t.Errorf("after edit %d the library is another than that of a clean build", i)
				}
			}
		})
	}
}
