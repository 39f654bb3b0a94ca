package graph

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
)

// jsonSchema changes only if readers of the old form would misread the new one. New fields do not
// change it.
const jsonSchema = 1

type jsonGraph struct {
	Schema    int          `json:"schema"`
	Collapsed bool         `json:"collapsed"`
	BuildDir  string       `json:"build_dir"`
	Default   []string     `json:"default"`
	Targets   []jsonTarget `json:"targets"`
	Actions   []jsonAction `json:"actions"`
	Groups    []jsonGroup  `json:"groups,omitempty"`
	Edges     []jsonEdge   `json:"edges"`
}

type jsonTarget struct {
	Label   string     `json:"label"`
	Kind    string     `json:"kind"`
	Outputs []string   `json:"outputs"`
	Deps    []string   `json:"deps"`
	Actions []ActionID `json:"actions"`
	Pos     Pos        `json:"pos"`
}

type jsonAction struct {
	ID        ActionID `json:"id"`
	Kind      Kind     `json:"kind"`
	Target    string   `json:"target"`
	Name      string   `json:"name"`
	Archs     []string `json:"archs"`
	Mode      string   `json:"mode"`
	LTO       bool     `json:"lto"`
	Inputs    []string `json:"inputs"`
	OrderOnly []string `json:"order_only"`
	Outputs   []string `json:"outputs"`
	Pos       Pos      `json:"pos"`
	Whole     string   `json:"whole,omitempty"`
}

type jsonGroup struct {
	ID      string     `json:"id"`
	Kind    Kind       `json:"kind"`
	Target  string     `json:"target"`
	Count   int        `json:"count"`
	Archs   []string   `json:"archs"`
	Modes   []string   `json:"modes"`
	Actions []ActionID `json:"actions"`
}

type jsonEdge struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Files     []string `json:"files"`
	OrderOnly bool     `json:"order_only"`
	LTO       bool     `json:"lto"`
}

// WriteJSON writes the graph as one JSON object, schema 1:
//
//	schema     1
//	collapsed  whether edges join groups instead of actions
//	build_dir  the build tree, relative to the project root or absolute
//	default    labels that are built if the user names none
//	targets    [{label, kind, outputs, deps (labels), actions (ids), pos}]
//	actions    [{id, kind, target (label), name, archs, mode, lto, inputs, order_only, outputs, pos,
//	           whole}], in a valid order of execution; lto marks device links that optimise; whole,
//	           if present, is the reason why a compiler command is unsplit
//	groups     only if collapsed: [{id "gN", kind, target, count, archs, modes, actions (ids)}];
//	           target is "" if several targets share the group
//	edges      [{from, to, files, order_only, lto}]: from and to are "aN" for action N, "gN" for a
//	           group, or, as from, "file:PATH" for a library that no action writes; lto marks edges
//	           that bring LTO-IR to a device link that optimises it
//
// pos is {file, line, column}. Lists are [] when empty, never null. Command lines are in `kbuild
// plan --json`.
func (g *Graph) WriteJSON(w io.Writer, opts DrawOptions) error {
	d := g.draw(opts)
	out := jsonGraph{Schema: jsonSchema, Collapsed: d.collapsed, BuildDir: g.BuildDir, Default: list(g.Default),
		Targets: []jsonTarget{}, Actions: []jsonAction{}, Edges: []jsonEdge{}}
	drawn := map[ActionID]bool{}
	for _, id := range d.actions {
		a := g.Actions[id]
		drawn[id] = true
		out.Actions = append(out.Actions, jsonAction{ID: id, Kind: a.Kind, Target: a.Target, Name: a.Name, Archs: list(a.Archs), Mode: a.Mode,
			LTO: a.Link().LTO, Inputs: list(a.Inputs), OrderOnly: list(a.OrderOnly), Outputs: list(a.Outputs), Pos: a.Pos, Whole: a.Driver().UnsplitReason})
	}
	for _, t := range g.Targets {
		ids := slices.DeleteFunc(slices.Clone(t.Actions), func(id ActionID) bool { return !drawn[id] })
		if len(opts.Want) == 0 || len(ids) > 0 {
			out.Targets = append(out.Targets, jsonTarget{Label: t.Label, Kind: t.Kind, Outputs: list(t.Outputs), Deps: list(t.Deps), Actions: list(ids), Pos: t.Pos})
		}
	}
	for _, n := range d.all() {
		if d.collapsed && len(n.actions) > 0 {
			out.Groups = append(out.Groups, jsonGroup{n.id, n.kind, n.target, len(n.actions), list(n.archs), list(n.modes), n.actions})
		}
	}
	slices.SortFunc(out.Groups, func(a, b jsonGroup) int { return cmp.Compare(a.Actions[0], b.Actions[0]) })
	for _, e := range d.edges {
		if e.from.kind != drawSource {
			from := e.from.id
			if e.from.file != "" {
				from = "file:" + e.from.file
			}
			out.Edges = append(out.Edges, jsonEdge{from, e.to.id, e.files, e.orderOnly, e.lto})
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// list keeps null out of the JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
