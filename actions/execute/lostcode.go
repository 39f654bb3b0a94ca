package execute

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Compilers and linkers leave device code out with exit status 0: a link passes over objects of
// clang's other offload driver, clang 21 stopped to put PTX into objects. So what a command that
// kbuild did not take apart has made is looked at (Action.Ships). A file of a form that kbuild does
// not know proves nothing.

// lostCode reports code that the output of a should have, and does not.
func lostCode(root string, a *graph.Action, dir scratch) error {
	if a.Driver().Ships == nil {
		return nil
	}
	name := dir.output(0, a.Outputs[0])
	if a.InPlace {
		name = cache.Absolute(root, a.Outputs[0])
	}
	made, err := fatbin.ReadFile(name)
	if err != nil {
		return nil
	}
	var ships []gencode.Code
	for _, s := range a.Driver().Ships {
		c, err := gencode.Parse(s)
		if err != nil {
			panic("BUG: an output with " + s)
		}
		ships = append(ships, c)
	}
	lacks := made.Lacks(ships)
	switch {
	case len(lacks) == 0:
	case a.Kind.Info().Lane == graph.LaneLink:
		return lostByLink(root, a, lacks)
	case made.Members != nil: // an object without any has no kernels
		return fmt.Errorf("the compiler left out code that %s ships: %s has none for %s. Drop it, or report this compiler (%s)",
			a.Target, a.Outputs[0], spellCodes(lacks), a.Argv[0])
	}
	return nil
}

// lostByLink reports inputs of a link with code for an architecture that the output has none for.
// What --gc-sections drops of bundles is code without a kernel; of the new driver's code it drops
// none.
func lostByLink(root string, a *graph.Action, lacks []gencode.Code) error {
	collects := slices.ContainsFunc(a.Argv, func(arg string) bool { return strings.Contains(arg, "gc-sections") })
	var from []string
	newDriver := false
	for _, in := range a.Inputs {
		f, err := fatbin.ReadFile(cache.Absolute(root, in))
		if err != nil {
			continue
		}
		i := slices.IndexFunc(f.Members, func(m fatbin.Member) bool {
			linked := m.Relocatable || f.Kind == fatbin.Object // an archive's member with final code is linked if something names it
			return linked && (m.NewDriver || !collects) && slices.ContainsFunc(lacks, m.Has)
		})
		if i >= 0 {
			from = append(from, in)
			newDriver = newDriver || f.Members[i].NewDriver
		}
	}
	if from == nil {
		return nil
	}
	why := ""
	if newDriver && !slices.Contains(a.Argv, "--offload-link") {
		why = "; it was made by clang's new offload driver (--offload-new-driver), and a link of the old one ignores it"
	}
	return fmt.Errorf("the link lost device code: %s has none for %s, which is in %s%s",
		path.Base(a.Outputs[0]), spellCodes(lacks), strings.Join(from, ", "), why)
}

func spellCodes(codes []gencode.Code) string {
	var s []string
	for _, c := range codes {
		s = append(s, c.String())
	}
	return strings.Join(s, ", ")
}
