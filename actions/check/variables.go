package check

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

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
