package manifest

import "testing"

func TestPublicHeaders(t *testing.T) {
	p := load(t, `
package {
  name        = "solvers"
  version     = "1.4.0"
  description = "Solvers."
}
generate "tables" {
  command = ["python3", "tools/tables.py", self.outputs[0]]
  outputs = ["solver/tables.h"]
}
library "here" {
  sources        = ["src/a.cu"]
  includes       = ["."]
  public_headers = ["include/solver.h"]
}
library "nested" {
  sources        = ["src/a.cu"]
  includes       = ["src", "src/solver", "."]
  public_headers = ["src/solver/cg.cu", "src/util.c", "bench/main.cpp"]
}
library "apart" {
  sources        = ["src/a.cu"]
  type           = "shared"
  soversion      = 2
  deps           = [generate.tables]
  public_headers = concat(["include/solver.h"], generate.tables.outputs)
}
`, Options{})
	expect(t, "package", *p.Package, Package{Name: "solvers", Version: "1.4.0", Description: "Solvers.", Pos: p.Package.Pos})
	got := map[string][]string{}
	for _, target := range p.Targets {
		for _, h := range target.PublicHeaders {
			got[target.Name] = append(got[target.Name], h.As)
		}
	}
	expect(t, "headers", got, map[string][]string{
		"here": {"include/solver.h"}, "nested": {"cg.cu", "util.c", "bench/main.cpp"}, "apart": {"solver.h", "solver/tables.h"}})
	expect(t, "soversion", p.Targets[len(p.Targets)-1].SOVersion, "2")
}
