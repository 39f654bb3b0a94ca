package discover

import (
	"bytes"
	"fmt"
	"strings"
)

// parseLinkDepfile reads the dependency file of a linker. GNU ld (2.40) writes a name a line and escapes nothing, so that
// "/opt/a b/lib/libcudart_static.a" looks like two names to make; lld escapes as gcc does; mold writes all names in one line. A line is
// one name if there is a file of that name, and else read as make does.
func parseLinkDepfile(b []byte, exists func(name string) bool) ([]string, error) {
	lines := strings.Split(string(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))), "\n")
	colon := ruleColon(lines[0])
	if colon < 0 {
		return nil, fmt.Errorf("line 1 is no rule (it has no colon): %.60q", lines[0])
	}
	lines[0] = lines[0][colon+1:]
	var deps []string
	for n, line := range lines {
		name, continued := strings.CutSuffix(line, `\`)
		if name = strings.TrimSuffix(strings.TrimLeft(name, " "), " "); exists(name) {
			deps = append(deps, name)
		} else {
			deps = append(deps, gccDialect.words(name)...)
		}
		if !continued {
			return deps, nil // after it come rules that keep make from missing a file that is gone
		}
		if n == len(lines)-1 {
			return nil, fmt.Errorf("line %d is cut off: the file ends in the middle of a rule", n+1)
		}
	}
	return deps, nil
}
