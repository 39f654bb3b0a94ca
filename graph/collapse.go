package graph

import "fmt"

// groupKey says which actions one node of a collapsed drawing stands for.
type groupKey struct {
	target string
	kind   Kind
}

// groupOf is the node for all actions of a's kind in a's target.
func groupOf(a *Action, groups map[groupKey]*drawNode) *drawNode {
	key := groupKey{a.Target, a.Kind}
	n := groups[key]
	if n == nil {
		n = &drawNode{id: fmt.Sprintf("g%d", len(groups)), kind: a.Kind, target: a.Target, title: a.Name}
		groups[key] = n
	}
	return n
}

// size is the number of actions that a node stands for, "×37", or "" for one.
func (n *drawNode) size() string {
	if len(n.actions) < 2 {
		return ""
	}
	return fmt.Sprintf("×%d", len(n.actions))
}
