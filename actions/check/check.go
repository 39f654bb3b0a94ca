// Package check finds what a command that ended well did not do: device code that a compiler or a
// linker dropped, and variables that a link has several times. Exit statuses and messages show none
// of it, and programs that lack code fail when they run.
package check

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
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

// In mode whole, nvcc compiles `extern __constant__ int c[4];` as a definition. Each file then has
// a variable c of its own, and the kernels of one file do not see what another file copies to c.
// The compiler warns (#20044-D, which -w hides), the linkers report nothing, and the program is
// wrong.
//
// The stub that cicc writes for host code registers every variable with the runtime, and marks
// those that were declared extern. kbuild refuses a link if a file uses such a variable and another
// file of the link defines or uses it too. A use may be in PTX or in host code. A declaration
// without a use is harmless, and so are static variables of one name. The stub is unknown if nvcc
// ran unsplit, or if no cache has it any more. Then only the compiler's warning remains.

// OwnVariables is the error of a link in which several files each have a variable of their own.
type OwnVariables struct {
	says    []string // a sentence for each group of files
	targets []string // the targets of the files, as messages name them
}

func (e *OwnVariables) Error() string {
	return strings.Join(e.says, "; ") + `: mode = "whole" makes a variable of each extern declaration`
}

// Help returns what to do.
func (e *OwnVariables) Help() []string {
	return []string{`only a device link makes one variable of them: set mode = "rdc" or "lto" on ` +
		strings.Join(e.targets, ", ")}
}

// registersRE matches the registration of a variable in a stub: its name on the device, and 1 if it
// was declared extern.
var registersRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`__cudaRegister(?:Managed)?Variable\(\w+, __shadow_var\((\w+),[^;]*?\), ([01]), `)
})

// cudaObject is an object that nvcc's passes built, with the cicc commands for it.
type cudaObject struct {
	file string
	host *graph.Action // the command whose stub the host code includes
	ptx  []string      // one for each architecture
}

// Build answers the queries of the check about a build.
type Build interface {
	// Maker returns the action that writes a file, or nil.
	Maker(file string) *graph.Action
	// PassOutput returns the content of an output of a pass, or nil if no store has it. It may write
	// to the file temp.
	PassOutput(ctx context.Context, output, temp string) []byte
}

// variableCheck checks the variables of all files in a link of host code.
type variableCheck struct {
	Build
	root, temp string
}

// Variables returns an error if several files of a link each have a variable of their own.
// temp is a file that it may write.
func Variables(ctx context.Context, b Build, root string, a *graph.Action, temp string) error {
	c := variableCheck{b, root, temp}
	objects := c.cudaObjects(a)
	isWhole := func(o *cudaObject) bool { return o.host.Mode == "whole" }
	if len(objects) < 2 || !slices.ContainsFunc(objects, isWhole) {
		return nil
	}
	declarers, definers := map[string][]*cudaObject{}, map[string][]*cudaObject{}
	for _, o := range objects {
		for _, m := range registersRE().FindAllSubmatch(c.PassOutput(ctx, o.host.Pass().Stub, c.temp), -1) {
			switch name := string(m[1]); {
			case string(m[2]) == "0":
				definers[name] = append(definers[name], o)
			case isWhole(o):
				declarers[name] = append(declarers[name], o)
			}
		}
	}
	e := &OwnVariables{}
	names := map[string][]string{} // variables by the files that have them
	for _, name := range slices.Sorted(maps.Keys(declarers)) {
		users := slices.DeleteFunc(declarers[name], func(o *cudaObject) bool {
			return !c.uses(ctx, o, name)
		})
		if len(users) == 0 {
			continue
		}
		var files, targets []string
		for _, o := range slices.Concat(users, definers[name]) {
			files = append(files, o.host.Name)
			targets = append(targets, fmt.Sprintf("%s (%s)", o.host.Target, o.host.Pos))
		}
		if len(files) > 1 {
			by := strings.Join(files, " and ")
			names[by] = append(names[by], modules.Demangled(name))
			e.targets = append(e.targets, targets...)
		}
	}
	for _, by := range slices.Sorted(maps.Keys(names)) {
		e.says = append(e.says, by+" each have their own "+strings.Join(names[by], ", "))
	}
	if e.says == nil {
		return nil
	}
	slices.Sort(e.targets)
	e.targets = slices.Compact(e.targets)
	return e
}

// cudaObjects returns the CUDA objects of a link, also those in archives.
func (c variableCheck) cudaObjects(link *graph.Action) (objects []*cudaObject) {
	seen := map[string]bool{}
	var follow func(file string, o *cudaObject)
	follow = func(file string, o *cudaObject) {
		a := c.Maker(file)
		if a == nil || seen[file] || a.Kind.Info().LinksHost() || a.Kind.Info().Generates {
			return
		}
		seen[file] = true
		switch stub := a.Pass().Stub; {
		case !a.Intermediate:
			o = &cudaObject{file: file}
		case a.Kind != graph.CICC:
		case file == stub || file == toolchain.Canonical(stub):
			o.host = a
		default:
			o.ptx = append(o.ptx, file)
		}
		for _, in := range a.Inputs {
			follow(in, o)
		}
		if !a.Intermediate && o.host != nil {
			objects = append(objects, o)
		}
	}
	for _, in := range link.Inputs {
		follow(in, &cudaObject{file: in})
	}
	return objects
}

// uses reports whether code of an object refers to a variable by its name on the device.
func (c variableCheck) uses(ctx context.Context, o *cudaObject, name string) bool {
	mention := regexp.MustCompile(`(?:^|[^\w$%.])` + regexp.QuoteMeta(name) + `(?:[^\w$]|$)`)
	for _, ptx := range o.ptx {
		// debug information names all variables
		code, _, _ := strings.Cut(string(c.PassOutput(ctx, ptx, c.temp)), "\n\t.section")
		if len(mention.FindAllStringIndex(code, 2)) > 1 { // more than its declaration
			return true
		}
	}
	object, err := regular.Read(cache.Absolute(c.root, o.file))
	demangled := modules.Demangled(name)
	return err == nil && fatbin.HostUses(object, func(symbol string) bool {
		return modules.Demangled(symbol) == demangled
	})
}
