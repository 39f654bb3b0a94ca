package modules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// ptx holds the top-level declarations of a PTX text.
type ptx struct {
	version string // "7.8"
	arch    string // "compute_80"
	entries []entry
	symbols []ptxSymbol
}

type entry struct {
	kernel  modinfo.Kernel
	visible bool
}

// ptxSymbol is a function or a variable.
type ptxSymbol struct {
	name      string
	function  bool
	external  bool   // declared .extern
	visible   bool   // .visible or .weak
	undefined bool   // a prototype
	prototype string // of a function: the text from .func to the body
}

// readPTX parses declarations and skips bodies.
func readPTX(text []byte) (*ptx, error) {
	s := &scanner{text: strings.TrimRight(string(text), "\x00")}
	if s.next() != ".version" {
		return nil, errors.New("it is no cubin, fatbin, LTO-IR, PTX or AMD code object")
	}
	p := &ptx{version: s.next()}
	var linking []string
	for tok := s.next(); tok != ""; tok = s.next() {
		var err error
		switch tok {
		case ".target":
			p.arch, err = target(s.next())
		case ".visible", ".weak", ".extern", ".common":
			linking = append(linking, tok)
			continue
		case ".entry":
			err = p.entry(s, linking)
		case ".func":
			err = p.function(s, linking)
		case ".global", ".const":
			err = p.variable(s, linking)
		case "{":
			s.skipTo("}")
		case ";", ".shared":
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("PTX line %d: %w", 1+strings.Count(s.text[:s.at], "\n"), err)
		}
		linking = nil
	}
	if p.arch == "" {
		return nil, errors.New("the PTX names no target")
	}
	return p, nil
}

// target returns compute_90a for sm_90a.
func target(name string) (string, error) {
	code, err := gencode.Parse(name)
	if err != nil || code.Kind != gencode.SASS {
		return "", fmt.Errorf("the target is %q", name)
	}
	return code.As(gencode.PTX).String(), nil
}

func visible(linking []string) bool {
	return slices.Contains(linking, ".visible") || slices.Contains(linking, ".weak")
}

var errCutShort = errors.New("it is cut short")

// entry parses ".entry NAME ( parameters ) ... { body }"; without parameters the parentheses may be
// absent.
func (p *ptx) entry(s *scanner, linking []string) error {
	name := s.next()
	k := modinfo.Kernel{Name: name, Demangled: Demangled(name), Params: []modinfo.Param{}}
	tok := s.next()
	if tok == "(" {
		known := true
		for _, list := range s.list() {
			param, ok := ptxParam(list, k.ParamBytes)
			known = known && ok
			param.Index = len(k.Params)
			k.Params, k.ParamBytes = append(k.Params, param), param.Offset+param.Size
		}
		if !known {
			k.Params, k.ParamBytes = nil, 0
		}
		tok = s.next()
	}
	p.entries = append(p.entries, entry{k, visible(linking)})
	return s.body(tok)
}

// ptxParam parses ".param [.align N] .TYPE [.ptr ...] NAME[COUNT]" and places it after the first
// end bytes. ok is false for a type without a size, such as .texref.
func ptxParam(list []string, end int) (p modinfo.Param, ok bool) {
	align, count := 0, 1
	for i, tok := range list {
		n := 0
		if i+1 < len(list) {
			n, _ = strconv.Atoi(list[i+1])
		}
		switch {
		case tok == ".align" && p.Size == 0: // after the type it is the pointee's
			align = n
		case p.Size == 0 && typeSize(tok) > 0:
			p.Size = typeSize(tok)
		case tok == "[":
			count = n
		}
	}
	align = max(align, p.Size)
	if p.Size == 0 || count < 1 || count > 1<<16 || align > 1<<16 {
		return p, false
	}
	p.Offset = (end + align - 1) / align * align
	p.Size *= count
	return p, true
}

// typeSize returns the size of .u64, .f16x2 and the like in bytes, or 0 if tok is not a type.
func typeSize(tok string) int {
	switch {
	case tok == ".f16x2" || tok == ".bf16x2":
		return 4
	case len(tok) < 3 || tok[0] != '.' || !strings.ContainsRune("bsuf", rune(tok[1])):
		return 0
	}
	bits, err := strconv.Atoi(strings.TrimLeft(tok[1:], "bsuf"))
	if err != nil {
		return 0
	}
	return bits / 8
}

// function parses ".func [( result )] NAME [( parameters )] ... { body }", or a prototype, which
// ends with a semicolon.
func (p *ptx) function(s *scanner, linking []string) error {
	start := s.at
	tok := s.next()
	for tok == "(" || strings.HasPrefix(tok, ".") { // the result, .attribute(...)
		if tok == "(" {
			s.list()
		}
		tok = s.next()
	}
	f := ptxSymbol{name: tok, function: true, external: slices.Contains(linking, ".extern"), visible: visible(linking)}
	if tok = s.next(); tok == "(" {
		s.list()
		tok = s.next()
	}
	for tok != "{" && tok != ";" && tok != "" {
		tok = s.next()
	}
	if f.undefined = tok == ";"; tok != "" {
		f.prototype = s.text[start : s.at-len(tok)]
	}
	p.symbols = append(p.symbols, f)
	return s.body(tok)
}

// variable parses ".global .align 4 .u32 NAME[4] = {...};". The name is the first word that is
// neither a directive nor a number.
func (p *ptx) variable(s *scanner, linking []string) error {
	v := ptxSymbol{external: slices.Contains(linking, ".extern"), visible: visible(linking)}
	for tok := s.next(); tok != ";"; tok = s.next() {
		if tok == "" {
			return errCutShort
		}
		if v.name == "" && !strings.ContainsAny(tok[:1], ".0123456789(),=") {
			v.name = tok
		}
	}
	p.symbols = append(p.symbols, v)
	return nil
}

// kernels returns the entries that a driver finds, sorted.
func (p *ptx) kernels() []modinfo.Kernel {
	out := []modinfo.Kernel{}
	for _, e := range p.entries {
		if e.visible {
			out = append(out, e.kernel)
		}
	}
	sortKernels(out)
	return out
}

// scanner splits PTX into words and single characters. It skips comments and white space, and
// returns "" in quotes for each string.
type scanner struct {
	text string
	at   int
}

// next returns the next token, or "" at the end.
func (s *scanner) next() string {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "//"):
			s.past("\n")
		case strings.HasPrefix(rest, "/*"):
			s.at += 2
			s.past("*/")
		case c == '"':
			s.at++
			s.past(`"`)
			return `""`
		case isWord(c):
			n := 1
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			s.at += n
			return rest[:n]
		case c <= ' ':
			s.at++
		default:
			s.at++
			return rest[:1]
		}
	}
	return ""
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%' || c == '.'
}

// past advances to after the next end.
func (s *scanner) past(end string) {
	if i := strings.Index(s.text[s.at:], end); i >= 0 {
		s.at += i + len(end)
	} else {
		s.at = len(s.text)
	}
}

// list reads to the parenthesis that closes an open one, and splits at commas.
func (s *scanner) list() [][]string {
	var out [][]string
	var item []string
	depth := 1
	for tok := s.next(); tok != ""; tok = s.next() {
		switch tok {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 || depth == 1 && tok == "," {
			if len(item) > 0 {
				out = append(out, item)
			}
			item = nil
			if depth == 0 {
				break
			}
			continue
		}
		item = append(item, tok)
	}
	return out
}

// body advances past the next pair of braces or the next semicolon. tok is the last token read.
func (s *scanner) body(tok string) error {
	for tok != "{" && tok != ";" {
		if tok == "" {
			return errCutShort
		}
		tok = s.next()
	}
	if tok == "{" && !s.skipTo("}") {
		return errCutShort
	}
	return nil
}

// skipTo advances past the brace that closes an open one.
func (s *scanner) skipTo(end string) bool {
	depth := 1
	for tok := s.next(); tok != ""; tok = s.next() {
		switch tok {
		case "{":
			depth++
		case end:
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

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
