package inprocess

import (
	_ "embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// artifactHeader is the first part of every header of an embedded module. It declares the entries
// of a table and the lookup of one.
//
//go:embed artifact.h
var artifactHeader string

// embedded is one artifact of a module.
type embedded struct {
	variant, source, arch, kind string
	path                        string
	size                        int64
}

// embed writes the C source and the header of an embedded module.
func embed(w Work) error {
	var list []embedded
	for f := range slices.Chunk(w.Argv[2:], 5) {
		info, err := os.Stat(w.abs(f[4]))
		if err != nil {
			return fmt.Errorf("embedding %s: %w", w.Name, err)
		}
		list = append(list, embedded{f[0], f[1], f[2], f[3], f[4], info.Size()})
	}
	if err := w.write(0, []byte(embedSource(w.Argv[1], list))); err != nil {
		return err
	}
	return w.write(1, []byte(embedHeader(w.Argv[1], len(list))))
}

func embedHeader(symbol string, entries int) string {
	return fmt.Sprintf(`/* Made by kbuild. */
%[1]s
#ifndef KBUILD_EMBED_%[2]s
#define KBUILD_EMBED_%[2]s

#ifdef __cplusplus
extern "C" {
#endif

/* The artifacts of a module, %[3]d of them, then an entry whose data is NULL. */
extern const struct kbuild_artifact %[2]s[%[4]d];

#ifdef __cplusplus
}
#endif

#endif
`, artifactHeader, symbol, entries, entries+1)
}

// embedSource returns the table in C. The assembler includes the bytes, with directives that it has
// on every processor. Its labels are not global, so tables do not collide.
func embedSource(symbol string, list []embedded) string {
	var data, table strings.Builder
	for i, e := range list {
		label := fmt.Sprintf("%s_%d", symbol, i)
		directive := fmt.Sprintf("\t.balign 16\n%s:\n\t.incbin %s\n\t.byte 0\n", label, cString(e.path))
		fmt.Fprintf(&data, "\n\t%s", cString(directive))
		fmt.Fprintf(&table, "\t{%s, %s, %s, %s, KBUILD_%s, %s, %s, %d},\n",
			cString(path.Base(e.path)), cString(e.variant), cString(e.source), cString(e.arch),
			strings.ToUpper(e.kind), archNumbers(e.arch), label, e.size)
	}
	var externs strings.Builder
	for i := range list {
		fmt.Fprintf(&externs, "extern const unsigned char %s_%d[];\n", symbol, i)
	}
	return fmt.Sprintf(`/* Made by kbuild. */
#include "%[1]s.h"

__asm__(
	".pushsection .rodata\n"%[2]s
	".popsection\n");

%[3]s
const struct kbuild_artifact %[1]s[%[4]d] = {
%[5]s	{0, 0, 0, 0, 0, 0, 0, 0, 0},
};
`, symbol, data.String(), externs.String(), len(list)+1, table.String())
}

// archNumbers returns the number and the suffix of an architecture in C.
func archNumbers(arch string) string {
	c, err := gencode.Parse(arch)
	if err != nil || c.Num == 0 {
		return "0, 0"
	}
	if c.Suffix == "" {
		return fmt.Sprintf("%d, 0", c.Num)
	}
	return fmt.Sprintf("%d, '%s'", c.Num, c.Suffix)
}

// cString quotes s for C and for the GNU assembler, which read escapes alike.
func cString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c == '?': // a question mark could begin a trigraph
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
