package importer

import (
	"path"
	"slices"
	"strings"
)

// Assembler is scanned for two things only: the global labels that it defines, and the names that
// it uses.

// isAssembler reports whether the file is assembler source.
func isAssembler(file string) bool { return path.Ext(file) == ".s" || path.Ext(file) == ".S" }

var (
	labelRE     = pattern(`^\s*([A-Za-z_]\w*):`)
	globalRE    = pattern(`^\s*\.(?:globa?l|weak)\s`)
	madeFromRE  = pattern(`(?m)^\s*\.file\s+"([^"]+)"`)
	otherCPURE  = pattern(`(?i)(?:^|[/_.-])(?:` + otherCPUs + `)(?:[/_.-]|$)`)
	statementRE = pattern(`^\s*[.\w]+`)
)

// otherCPUs matches words in the paths of assembler for other machines and systems than x86-64
// Linux.
const otherCPUs = `arm|armv\d\w*|arm32|arm64|aarch\d+|neon|sve|ppc\w*|power(?:pc)?\d*|riscv\w*|mips\w*|sparc\w*|s390x?|loongarch\w*|alpha|ia64|m68k|i[3-6]86|x86_32|win(?:dows|32|64)?|msvc|darwin|macos|apple|osx`

// assemblerEvents scans assembler source. Only .S files have preprocessor directives.
func assemblerEvents(file, text string) (all []event) {
	cut := lines(text)
	labels := map[string]bool{}
	for _, l := range cut {
		for _, s := range strings.Split(l.text, ";") {
			if m := labelRE().FindStringSubmatch(s); m != nil {
				labels[m[1]] = true
			}
		}
	}
	for _, l := range cut {
		if l.directive {
			if path.Ext(file) == ".S" {
				all = append(all, directiveEvent(l))
			}
			continue
		}
		c := &code{}
		for _, s := range strings.Split(l.text, ";") {
			if m := labelRE().FindStringSubmatch(s); m != nil {
				s = s[len(m[0]):]
			}
			global := globalRE().MatchString(s)
			s = statementRE().ReplaceAllString(s, "") // the operation
			before := ""
			for _, w := range words(s) {
				switch {
				case !isWord(w[0]) || w == "0" || slices.Contains([]string{"%", "@", "."}, before): // register, modifier or local label
				case global && labels[w]:
					c.defs = append(c.defs, symbol{name: w, line: l.number})
				default:
					c.uses, c.decls = append(c.uses, w), append(c.decls, symbol{name: w, line: l.number})
				}
				before = w
			}
		}
		all = append(all, event{line: l.number, code: c.done()})
	}
	for name := range labels {
		all = append(all, event{code: &code{defs: []symbol{{name: name, local: true}}}})
	}
	return all
}

// whyUnwanted returns the reason why an assembler file belongs to no target. It is "" if the file
// may be used. defs holds the symbols that other sources define.
func (t *tree) whyUnwanted(u *unit, defs map[string]bool) string {
	dir := path.Dir(u.file)
	m := madeFromRE().FindStringSubmatch(t.text(u.file))
	switch {
	case m != nil && m[1] != path.Base(u.file) && t.has(path.Join(dir, path.Base(m[1]))):
		return "made by a compiler, of a source that is there"
	case otherCPURE().MatchString(u.file):
		return "assembler for another machine, by its name"
	}
	for key := range u.defs {
		if defs[key] {
			return "assembler of what another source defines"
		}
	}
	return ""
}
