package graph

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// TestKinds finds a kind that is not in the table, or not in every column of it.
func TestKinds(t *testing.T) {
	for _, kind := range declaredKinds(t) {
		info := kind.Info()
		painted := paints[info.Lane].fill != ""
		switch {
		case info.Lane == "":
			t.Errorf("%s is not in the table of kinds", kind)
		case !painted:
			t.Errorf("%s is in lane %q, which has no colour", kind, info.Lane)
		case kind == drawSource || kind == drawPrebuilt:
		case info.Cost == 0 || info.Memory == 0 && !info.InProcess:
			t.Errorf("%s: cost %s, memory %d", kind, info.Cost, info.Memory)
		case !slices.ContainsFunc(Kinds(), func(k KindInfo) bool { return k.Kind == kind }):
			t.Errorf("%s is not in Kinds", kind)
		}
	}
	if n, want := len(kindByName), len(declaredKinds(t)); n != want || len(kinds) != want {
		t.Errorf("%d rows of %d kinds; %d are declared", len(kinds), n, want)
	}
}

// declaredKinds are the constants of type Kind.
func declaredKinds(t *testing.T) (all []Kind) {
	f, err := parser.ParseFile(token.NewFileSet(), "kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Kind" {
			for _, v := range spec.Values {
				name, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, Kind(name))
			}
		}
		return true
	})
	return all
}

// TestLooks: no two kinds look alike in a drawing.
func TestLooks(t *testing.T) {
	seen := map[paint]Kind{}
	for _, k := range kinds {
		p := look{kind: k.Kind}.paint()
		if other := seen[p]; other != "" {
			t.Errorf("%s looks like %s: %+v", k.Kind, other, p)
		}
		seen[p] = k.Kind
	}
}
