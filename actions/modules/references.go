package modules

import (
	"fmt"
	"slices"
	"strings"
)

// References makes PTX that refers to every function that LTO-IR defines and others may call: a kernel stores their addresses. A link
// with LTO drops what no kernel reaches, with all that it wants, so a module of callbacks would link whatever it wants.
//
// text is the PTX that the compiler made beside the LTO-IR, with full prototypes. The kernel is not visible, so one link may take
// several such files; no C function has its name. A comment is the first line since nvlink 12.4 does not find .version there (11.8 does).
func References(text []byte) ([]byte, error) {
	p, err := readPTX(text)
	if err != nil {
		return nil, err
	}
	functions := slices.DeleteFunc(p.symbols, func(s ptxSymbol) bool { return !s.function || s.external || s.undefined || !s.visible })
	var b strings.Builder
	fmt.Fprintf(&b, "// References to functions.\n\n.version %s\n.target %s\n.address_size 64\n\n", p.version, strings.Replace(p.arch, "compute_", "sm_", 1))
	for _, f := range functions {
		fmt.Fprintf(&b, ".extern .func %s\n;\n", strings.TrimSpace(f.prototype))
	}
	b.WriteString("\n.entry $references(.param .u64 to)\n{\n\t.reg .b64 %to, %at;\n\tld.param.u64 %to, [to];\n")
	for _, f := range functions {
		fmt.Fprintf(&b, "\tmov.u64 %%at, %s;\n\tst.u64 [%%to], %%at;\n", f.name)
	}
	b.WriteString("\tret;\n}\n")
	return []byte(b.String()), nil
}
