package graph

import "testing"

// A sealed graph has no cycle and one writer of each file.
func TestSeal(t *testing.T) {
	for _, test := range []struct {
		name    string
		actions []*Action
		want    string
	}{
		{"order", []*Action{{Name: "a", Outputs: []string{"a"}}, {Name: "b", Inputs: []string{"a"}, Outputs: []string{"b"}}}, ""},
		{"cycle", []*Action{{Name: "a", OrderOnly: []string{"b"}, Outputs: []string{"a"}}, {Name: "b", Inputs: []string{"a"}, Outputs: []string{"b"}}},
			"BUG: action 0 (a) stands before action 1 (b), which it needs"},
		{"twice", []*Action{{Target: "library.a", Outputs: []string{"a", "x"}}, {Target: "library.b", Outputs: []string{"x"}}},
			"x is written twice: by library.a and by library.b"},
	} {
		g := &Graph{}
		for _, a := range test.actions {
			g.Add(a)
		}
		got := ""
		if err := g.Seal(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
