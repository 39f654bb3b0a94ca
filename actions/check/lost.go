// Package check finds what a command that ended well did not do: device code that a compiler or a
// linker dropped, and variables that a link has several times. Exit statuses and messages show none
// of it, and programs that lack code fail when they run.
package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Compilers and linkers can drop device code and exit with status 0. A link ignores objects of
// clang's other offload driver, and clang 21 no longer puts PTX into objects. So kbuild checks the
// output of an unsplit command for the code that it should have (Driver.Ships). A file of an
// unknown format is not an error.

// LostCode returns an error if the first output of a, which is in a file, lacks code that it should
// have.
func LostCode(root string, a *graph.Action, file string) error {
	made, err := fatbin.ReadFile(file)
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
	case a.Kind.Info().LinksHost():
		return lostByLink(root, a, lacks)
	case made.Members != nil: // an object without members has no kernels
		return fmt.Errorf("the compiler left out code that %s ships: %s has none for %s. "+
			"Drop it, or report this compiler (%s)",
			a.Target, a.Outputs[0], spellCodes(lacks), a.Argv[0])
	}
	return nil
}

// lostByLink returns an error if inputs of a link have code for an architecture that the output has
// no code for. --gc-sections may drop code without a kernel from bundles, but no code of the new
// driver.
func lostByLink(root string, a *graph.Action, lacks []gencode.Code) error {
	collects := strings.Contains(strings.Join(a.Argv, " "), "gc-sections")
	var from []string
	newDriver := false
	for _, in := range a.Inputs {
		f, err := fatbin.ReadFile(cache.Absolute(root, in))
		if err != nil {
			continue
		}
		i := slices.IndexFunc(f.Members, func(m fatbin.Member) bool {
			// an archive's member with final code is linked only if another object names it
			linked := m.Relocatable || f.Kind == fatbin.Object
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
		why = "; it was made by clang's new offload driver (--offload-new-driver), and a link of " +
			"the old one ignores it"
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

// Unlinked reports which module does not link for which GPU. If nvlink names the missing
// symbols, it adds what to do.
func Unlinked(a *graph.Action, printed string, err error) error {
	var missing []string
	for _, f := range vendors.Explain(a, printed) {
		if f.Kind == toolchain.Undefined {
			missing = append(missing, modules.Readable(f.Names[0]))
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	arch := strings.Join(a.Archs, ", ")
	if missing == nil {
		return fmt.Errorf("%s does not link for %s: %w", a.Target, arch, err)
	}
	return fmt.Errorf("%s does not link for %s: nothing defines %s; add the module that does to its "+
		"deps (%s), or name it in late_bound if the program brings it when it links at run time",
		a.Target, arch, strings.Join(missing, ", "), a.Pos)
}
