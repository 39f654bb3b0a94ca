package manifest

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// exotic is what the manifests of this repository have little of.
const exotic = `
a=1 # one
bcd   =  2// two
e = {a=1,b : -2}
f = [for x in [1,2] : x-1 if !(x>-1)]
g="${ {a=1}["a"] }-${b}%{if true}x%{else}y%{endif}"
h {
i = foo ( [
1, 2] , "x" ...)
  j=<<-EOT
    text ${ a . b } {
    EOT
k "l" { m = n::o(1) }
 }
p = a [0] . b [ * ].c
q = a?-b:- c

  # last`

// TestLayout compares the layout with that of hclwrite, for the manifests of this repository with
// more, less and other space than they have.
func TestLayout(t *testing.T) {
	texts := []string{exotic, "", "a=1", "\n\n"}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".hcl" {
			text, err := os.ReadFile(name)
			texts = append(texts, string(text))
			return err
		}
		return err
	})
	if err != nil || len(texts) < 50 {
		t.Fatalf("%d manifests: %v", len(texts), err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for _, text := range texts {
		for range 10 {
			if _, diags := hclsyntax.ParseConfig([]byte(text), "", hcl.InitialPos); !diags.HasErrors() {
				compared++
				want, got := hclwrite.Format([]byte(text)), layout([]byte(text))
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Fatalf("%s\n(-hclwrite +layout)\n%s", text, diff)
				}
			}
			for range 1 + len(text)/50 { // a space that goes, or becomes two, or a new line
				at := random.IntN(len(text) + 1)
				if i := strings.IndexByte(text[at:], ' '); i >= 0 {
					at += i
					text = text[:at] + []string{"", "  ", "\n"}[random.IntN(3)] + text[at+1:]
				}
			}
		}
	}
	t.Logf("%d texts compared", compared)
}
