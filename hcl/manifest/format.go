package manifest

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format gives src in the canonical layout: indentation and aligned equal signs, comments and
// everything else untouched. A file that does not parse comes back as diagnostics, never half done.
func Format(src []byte, file string) ([]byte, Diagnostics) {
	l := &loader{project: &Project{sources: map[string][]byte{file: src}}, said: map[said]bool{}}
	if !l.checkText(file, src) {
		return nil, l.diags
	}
	_, diags := hclsyntax.ParseConfig(src, file, hcl.InitialPos)
	if diags.HasErrors() {
		l.addHCL(diags)
		l.curtail()
		return nil, l.diags
	}
	return hclwrite.Format(src), nil
}
