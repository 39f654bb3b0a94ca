package discover

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// What is not as it was, of all that a record may have discovered.
func TestChanges(t *testing.T) {
	tree := project(t, "same.h", "other.h", "lines", "second/a.h", "first/x")
	digest := func(file string) cache.Digest {
		d, err := tree.Digest(file)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := &graph.Action{Argv: []string{"nvcc", "-DARCHS=80,86"}, Work: graph.Work{Pass: &graph.CompilerPass{DiagnosticInputs: []string{"lines"}}}}
	of := func(value string) cache.Digest { return sha256.Sum256([]byte(value)) }
	tree.Build.(*testBuild).intermediate = "pass.ii"
	d := New(Config{Tree: tree})
	for want, rec := range map[string]cache.Record{
		"":                 {Discovered: []cache.FileDigest{{Path: "same.h", Digest: digest("same.h")}, {Path: "-DARCHS", Digest: of("80,86")}, {Path: weakName(0), Digest: digest("lines")}}, Absent: []string{"gone.h", "first/"}},
		"other.h changed":  {Discovered: []cache.FileDigest{{Path: "other.h", Digest: of("before")}}},
		"gone.h is gone":   {Discovered: []cache.FileDigest{{Path: "gone.h", Digest: of("before")}}},
		"ARCHS changed":    {Discovered: []cache.FileDigest{{Path: "-DARCHS", Digest: of("80")}}},
		"lines changed":    {Discovered: []cache.FileDigest{{Path: weakName(0), Digest: of("before")}}},
		"pass.ii is gone":  {Discovered: []cache.FileDigest{{Path: "pass.ii"}}},
		"nobody knows":     {Discovered: []cache.FileDigest{never("nobody knows")}},
		"first/x is new":   {Absent: []string{"first/x/"}},
		"second/a.h is":    {Absent: []string{"second/a.h"}},
		"first/a.h is new": {Discovered: []cache.FileDigest{{Path: "second/a.h", Digest: digest("second/a.h")}}, Search: []string{"first\nsecond"}},
	} {
		if strings.HasPrefix(want, "first/a.h") {
			writeFile(t, filepath.Join(tree.Root, "first/a.h"), "comes")
			tree.Listing.Forget(filepath.Join(tree.Root, "first"))
		}
		got := slices.Collect(d.Changes(a, &rec))
		if d.IsValid(a, &rec) != (want == "") || want == "" && got != nil || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("changes %q, want %q", got, want)
		}
		os.Remove(filepath.Join(tree.Root, "first/a.h"))
		tree.Listing.Forget(filepath.Join(tree.Root, "first"))
	}
}

// The arguments of a command name files that no dependency file has; what another action writes is
// none of them.
func TestNamed(t *testing.T) {
	tree := project(t, "api.map", "made.map", "a.o", "opts")
	tree.Build.(*testBuild).output = "made.map"
	d := New(Config{Tree: tree})
	a := &graph.Action{Kind: graph.HostLink, Tools: []string{"cxx"}, Inputs: []string{"a.o"},
		Argv: []string{"g++", "a.o", "-Wl,--version-script=api.map", "-Wl,--version-script=made.map", "@opts", "@later", "-ccbin", "opts"}}
	if got := d.Named(a); !slices.Equal(got, []string{"api.map", "opts"}) {
		t.Errorf("it names %q", got)
	}
	if got := d.watchArguments(a); !slices.Contains(got, "later") || slices.Contains(got, "opts") {
		t.Errorf("its arguments would name %q", got)
	}
}
