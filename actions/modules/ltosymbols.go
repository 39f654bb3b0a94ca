package modules

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// drivers are functions that PTX declares and the driver defines.
var drivers = []string{"vprintf", "malloc", "free", "__assertfail"}

// LTOSymbols reads what LTO-IR brings to a link, and wants of it, off the PTX that the compiler made beside it. That PTX is
// optimised: what only dead code of the file asks for is not wanted, as it is not when the LTO-IR is linked.
func LTOSymbols(text []byte) (*modinfo.LTOSymbols, error) {
	p, err := readPTX(text)
	if err != nil {
		return nil, err
	}
	var kernels, functions, variables, undefined, defined []string
	for _, k := range p.kernels() {
		kernels = append(kernels, k.Name)
	}
	for _, s := range p.symbols {
		switch {
		case s.external:
			undefined = append(undefined, s.name)
		case s.undefined || !s.visible:
			continue
		case s.function:
			functions = append(functions, s.name)
		default:
			variables = append(variables, s.name)
		}
		if !s.external {
			defined = append(defined, s.name)
		}
	}
	undefined = slices.DeleteFunc(undefined, func(name string) bool { return slices.Contains(defined, name) || slices.Contains(drivers, name) })
	return &modinfo.LTOSymbols{Kernels: symbols(kernels), Functions: symbols(functions), Variables: symbols(variables), Undefined: symbols(undefined)}, nil
}

// symbols are names in order, each once.
func symbols(names []string) []modinfo.Symbol {
	slices.SortFunc(names, strings.Compare)
	out := []modinfo.Symbol{}
	for _, name := range slices.Compact(names) {
		out = append(out, modinfo.Symbol{Name: name, Demangled: Demangled(name)})
	}
	return out
}
