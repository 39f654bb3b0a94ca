package engine

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

// What a target that is gone has made is removed once, and that is told once. What others have put
// into the tree stays, under those names too.
func TestLeftovers(t *testing.T) {
	p := rebuilt(t)
	p.build()
	p.write("build/bin/notes", "")
	p.write("build/gen/g/g.h", "edited by hand\n")
	before := p.files()
	manifest, err := os.ReadFile(p.path("kernels.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(manifest), `executable "solo"`)
	head, rest, _ := strings.Cut(text, `generate "g"`)
	p.write("kernels.hcl", head+rest[strings.Index(rest, "library"):])

	f := p.build()
	p.expect("without the targets", f, "plan:")
	want := []string{"removed 2 files that nothing makes any more: build/bin/solo, build/obj/executable.solo/solo.cpp.o",
		"left 1 file that nothing makes any more, because its content may not be what kbuild wrote: build/gen/g/g.h"}
	if !slices.Equal(f.warned, want) {
		t.Errorf("it says %q, want %q", f.warned, want)
	}
	after := slices.DeleteFunc(before, func(name string) bool { return strings.Contains(name, "solo") })
	if got := p.files(); !slices.Equal(got, after) {
		t.Errorf("the tree holds %q, want %q", got, after)
	}

	p.write("build/bin/solo", "somebody else's\n")
	p.write("kernels.hcl", head+rest[strings.Index(rest, "library"):]+"executable \"late\" {\n  sources = [\"late.cpp\"]\n}\n")
	p.write("late.cpp", "int main() {}\n")
	for _, way := range []string{"plan: ran bin/late obj/executable.late/late.cpp.o", "view:"} {
		if f = p.build(); len(f.warned) > 0 || !cache.Exists(p.path("build/bin/solo")) {
			t.Errorf("later it says %q, and the tree holds %q", f.warned, p.files())
		}
		p.expect("later", f, way)
	}
	p.write("kernels.hcl", string(manifest))
	p.expect("with the targets", p.build(), "plan: cached bin/solo gen/g/g.h obj/executable.solo/solo.cpp.o")
}

// Clean removes what was written, and nothing else; with DryRun it tells only.
func TestClean(t *testing.T) {
	p := rebuilt(t)
	p.write("build/early", "")
	built := p.build()
	p.write("build/bin/notes", "")
	p.write("build/obj/executable.solo/solo.cpp.o.notes", "")
	if err := os.Mkdir(p.path("build/empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	all := p.files()
	others := []string{"bin/notes", "early", "empty/", "obj/executable.solo/solo.cpp.o.notes"}
	for _, dry := range []bool{true, false} {
		p.workspace = func(w *Workspace) { w.DryRun = dry }
		cleaned, err := p.newWorkspace(&ui{}).Clean()
		if err != nil || len(cleaned) != 1 || cleaned[0].Dir != p.path("build") || !slices.Equal(cleaned[0].Others, others) {
			t.Errorf("it cleans %+v, %v", cleaned, err)
		}
		if dry && (!slices.Equal(p.files(), all) || !cache.Exists(p.path("build/.kbuild/tree.db"))) {
			t.Errorf("a dry run leaves %q of %q", p.files(), all)
		}
	}
	others = slices.DeleteFunc(others, func(name string) bool { return name == "empty/" })
	if got := p.files(); !slices.Equal(got, others) || cache.Exists(p.path("build/.kbuild")) || !cache.Exists(p.path("build/empty")) {
		t.Errorf("the tree holds %q, want %q", got, others)
	}
	for _, name := range []string{"kernels.hcl", "table", "app.cpp", "k/a.cpp", "inc/a.h"} {
		if !cache.Exists(p.path(name)) {
			t.Errorf("%s is gone", name)
		}
	}
	if f := p.build(); f.err != nil || f.sum.Cached != built.sum.Ran {
		t.Errorf("the next build: %s: %+v", f, f.sum)
	}
}
