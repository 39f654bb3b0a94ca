package modules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// drivers are functions that PTX declares and the driver defines.
var drivers = []string{"vprintf", "malloc", "free", "__assertfail"}

// LTOSymbols returns the symbols that LTO-IR defines and refers to, from the PTX that the compiler
// wrote with it. That PTX is optimized: references from dead code are absent, as they are when the
// LTO-IR is linked.
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

// symbols sorts names and removes duplicates.
func symbols(names []string) []modinfo.Symbol {
	slices.SortFunc(names, strings.Compare)
	out := []modinfo.Symbol{}
	for _, name := range slices.Compact(names) {
		out = append(out, modinfo.Symbol{Name: name, Demangled: Demangled(name)})
	}
	return out
}

// References returns PTX that refers to every function that LTO-IR defines and others may call: a
// kernel stores their addresses. A link with LTO drops code that no kernel reaches, and its
// references. Without this kernel a module of callbacks would link even with undefined symbols.
//
// text is the PTX that the compiler wrote with the LTO-IR; it has full prototypes. The kernel is
// not visible, so one link may take several such files; no C function has its name. The first line
// is a comment, since nvlink 12.4 does not find .version there (11.8 does).
//
// late are functions that nothing in the link defines, since the program provides them when it
// links at run time. Each one that text declares gets a weak body. They are named as in the source,
// or mangled.
func References(text []byte, late []string) ([]byte, error) {
	p, err := readPTX(text)
	if err != nil {
		return nil, err
	}
	functions := slices.DeleteFunc(slices.Clone(p.symbols), func(s ptxSymbol) bool { return !s.function || s.external || s.undefined || !s.visible })
	var b strings.Builder
	fmt.Fprintf(&b, "// References to functions.\n\n.version %s\n.target %s\n.address_size 64\n\n", p.version, strings.Replace(p.arch, "compute_", "sm_", 1))
	for _, f := range functions {
		fmt.Fprintf(&b, ".extern .func %s\n;\n", strings.TrimSpace(f.prototype))
	}
	for _, s := range p.symbols {
		if s.function && s.external && IsNamed(s.name, late) {
			fmt.Fprintf(&b, ".weak .func %s\n{\n\tret;\n}\n", strings.TrimSpace(s.prototype))
		}
	}
	b.WriteString("\n.entry $references(.param .u64 to)\n{\n\t.reg .b64 %to, %at;\n\tld.param.u64 %to, [to];\n")
	for _, f := range functions {
		fmt.Fprintf(&b, "\tmov.u64 %%at, %s;\n\tst.u64 [%%to], %%at;\n", f.name)
	}
	b.WriteString("\tret;\n}\n")
	return []byte(b.String()), nil
}

// IsNamed reports whether a symbol is one of names, which are mangled, or as in a source: callback,
// ops::apply, ops::apply(float).
func IsNamed(symbol string, names []string) bool {
	full := Demangled(symbol)
	plain, _, _ := strings.Cut(full, "(")
	return slices.ContainsFunc(names, func(name string) bool { return name == symbol || name == full || name == plain })
}
