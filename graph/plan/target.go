package plan

import (
	"slices"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// target is a manifest target and what the planner derived for it.
type target struct {
	toolchain.Target
	deps []*target // in order of declaration
	node *graph.Target

	unbuilt string  // why it cannot be built; "" if it can
	lacks   *target // the dependency that cannot be built; nil if t itself is the cause

	// Object of its own device link (shared library, executable, closed static library).
	dlink   string
	headers []string // order-only: files that its consumers may include
	include []string // include folders of its consumers
	embeds  []string // objects of embedded modules

	written *manifest.Target // as in the manifest: see vendors.Translate

	round  int   // number of the last walk that visited it
	behind int   // number of the last walk that skipped its dependencies
	last   *bool // cached result of isLast; nil if not computed yet
}

// isHost reports whether s is a source that the host compiler can optimise: assembler is not.
func isHost(s manifest.Source) bool { return s.Language == "c" || s.Language == "c++" }

// hostLTO returns how the host sources of t are optimised across files, "" if they are not. It
// returns "" if t has no host sources.
func hostLTO(t *target) string {
	if slices.ContainsFunc(t.Sources, isHost) {
		return t.HostLTO
	}
	return ""
}

// shipsCUDA reports whether t has a CUDA source.
func (t *target) shipsCUDA() bool {
	return slices.ContainsFunc(t.Sources, func(s manifest.Source) bool { return s.Language == "cuda" })
}
