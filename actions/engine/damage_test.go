package engine

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// What is left of a damaged database is right, and what is lost is found out again: an edit is
// noticed, all else comes out of the tree or the cache, and nobody is told.
func TestDamagedDatabase(t *testing.T) {
	p := rebuilt(t)
	p.build()
	name := database(p.path("build/.kbuild"))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"empty": nil, "of another program": []byte("notes\n"), "without a head": whole[64:]}
	for i := range 5 {
		cut := len(whole)*i/5 + 40
		damaged[fmt.Sprint("cut at ", cut)] = whole[:cut]
	}
	for at := range whole { // the name stands in records, in what was observed and in the plan
		if bytes.HasPrefix(whole[at:], []byte("a.cpp")) {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1
			damaged[fmt.Sprint("flipped at ", at)] = flipped
		}
	}
	damaged["without its last byte"] = whole[:len(whole)-1]
	for i, what := range slices.Sorted(maps.Keys(damaged)) {
		t.Run(what, func(t *testing.T) {
			p.t = t
			if err := os.WriteFile(name, damaged[what], 0o666); err != nil {
				t.Fatal(err)
			}
			p.write("k/a.cpp", fmt.Sprintf("int edited%d;\n", i))
			f := p.build()
			if f.err != nil || f.sum.Ran != 3 || f.sum.Failed > 0 || len(f.printed)+len(f.warned) > 0 {
				t.Errorf("%s: %+v, it says %q %q", f, f.sum, f.printed, f.warned)
			}
			if f = p.build(); f.err != nil || f.sum.UpToDate != f.sum.Actions { // it may look at all, where the view was lost with the rest
				t.Errorf("the next build: %s", f)
			}
			f = p.build()
			for range 1000 { // a view is stored when the clock of the file system has moved on
				if f.way == "view" {
					break
				}
				f = p.build()
			}
			p.expect("in the end", f, "view:")
		})
	}
}

// A folder in its place is nothing that kbuild made: the build says so and gives the tree back, and
// clean makes way for a first one.
func TestFolderForADatabase(t *testing.T) {
	p := rebuilt(t)
	p.build()
	name := database(p.path("build/.kbuild"))
	p.remove("build/.kbuild/tree.db")
	p.write("build/.kbuild/tree.db/notes", "")
	for range 2 {
		if f := p.build(); f.err == nil || !strings.Contains(f.err.Error(), name) || f.looked != nil {
			t.Errorf("%s", f)
		}
	}
	if _, err := p.newWorkspace(&ui{}).Clean(); err != nil {
		t.Error(err)
	}
	if f := p.build(); f.err != nil || f.sum.Cached != f.sum.Actions {
		t.Errorf("after clean: %s: %+v", f, f.sum)
	}
}
