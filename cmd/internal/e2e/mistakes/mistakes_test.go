// Package mistakes makes mistakes on purpose with the real compilers, and wants kbuild to name what
// a person needs to mend them. Each file of testdata is one: lines "want: TEXT" above the project
// are what must be said, "not: TEXT" what must not, "args: ARGS" are for kbuild.
package mistakes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

func TestMistakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no mistakes", err)
	}
	list := tooltest.Toolkits(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "-rdc") { // its twin is of LTO
				tooltest.Broad(t)
			}
			t.Parallel()
			make(t, name, list[0])
			if newest := list[len(list)-1]; newest != list[0] && tooltest.All() {
				make(t, name, newest)
			}
		})
	}
}

// make makes one mistake with a toolkit.
func make(t *testing.T, name string, tk tooltest.Toolkit) {
	t.Helper()
	ar, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	var wants, nots, args []string
	for line := range strings.Lines(string(ar.Comment)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "want: "); ok {
			wants = append(wants, text)
		} else if text, ok := strings.CutPrefix(line, "not: "); ok {
			nots = append(nots, text)
		} else if text, ok := strings.CutPrefix(line, "args: "); ok {
			args = strings.Fields(text)
		}
	}
	p := e2e.Unpack(t, name)
	p.Use(tk)
	printed, status := p.Status(nil, append([]string{"kbuild"}, args...)...)
	if status == 0 {
		t.Errorf("%s: it ends well:\n%s", tk.Release, printed)
	}
	for _, want := range wants {
		if !strings.Contains(printed, want) {
			t.Errorf("%s: it does not say %q:\n%s", tk.Release, want, printed)
		}
	}
	for _, not := range nots {
		if strings.Contains(printed, not) {
			t.Errorf("%s: it says %q:\n%s", tk.Release, not, printed)
		}
	}
}
