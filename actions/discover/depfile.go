package discover

import (
	"bytes"
	"fmt"
	"strings"
)

// parseDepfile parses a dependency file as gcc, clang and nvcc write it, with any number of rules.
// Errors name the line.
//
// The first rule decides between two dialects. gcc and clang write "target: dep dep". They escape
// blanks and '#' by a backslash, double the backslashes before an escaped blank, and double '$'.
// nvcc (11.8 and 12.4) writes "target : dep" and escapes only blanks in names (not even tabs, '#'
// and '$'). Its target is the verbatim value of -o or -MT. So everything before the colon of a rule
// is one target, with or without blanks.
func parseDepfile(b []byte) (targets, deps []string, err error) {
	var d *dialect
	lines := bytes.Split(b, []byte("\n"))
	for n := 0; n < len(lines); {
		first := n + 1
		var rule string
		if rule, n, err = logicalLine(lines, n); err != nil {
			return nil, nil, err
		}
		if strings.TrimSpace(rule) == "" || rule[0] == '#' {
			continue
		}
		colon := ruleColon(rule)
		if colon < 0 {
			return nil, nil, fmt.Errorf("line %d is no rule (it has no colon): %.60q", first, rule)
		}
		target := strings.TrimSpace(rule[:colon])
		if target == "" {
			return nil, nil, fmt.Errorf("line %d is a rule without a target: %.60q", first, rule)
		}
		if d == nil {
			d = &gccDialect
			if rule[colon-1] == ' ' {
				d = &nvccDialect
			}
		}
		if d == &gccDialect {
			target = strings.Join(d.words(target), " ")
		}
		targets = append(targets, target)
		deps = append(deps, d.words(rule[colon+1:])...)
	}
	if len(targets) == 0 {
		return nil, nil, fmt.Errorf("it holds no rule")
	}
	return targets, deps, nil
}

// logicalLine joins the lines from n on that a backslash continues, and returns the number of the
// line after them.
func logicalLine(lines [][]byte, n int) (string, int, error) {
	var rule strings.Builder
	for ; n < len(lines); n++ {
		line := bytes.TrimSuffix(lines[n], []byte("\r"))
		if bytes.IndexByte(line, 0) >= 0 {
			return "", n, fmt.Errorf("line %d holds a zero byte", n+1)
		}
		head, continued := bytes.CutSuffix(line, []byte(`\`))
		rule.Write(head)
		if !continued {
			return rule.String(), n + 1, nil
		}
		rule.WriteByte(' ')
	}
	return "", n, fmt.Errorf("line %d is cut off: the file ends in the middle of a rule", n)
}

// ruleColon returns the index of the colon that ends the target. It is the first one before a blank
// or the end of the line, since names may contain colons.
func ruleColon(rule string) int {
	for i := range len(rule) {
		if rule[i] == ':' && (i+1 == len(rule) || rule[i+1] == ' ' || rule[i+1] == '\t') {
			return i
		}
	}
	return -1
}

// dialect describes how a compiler writes names.
type dialect struct {
	separators string // characters between names
	doubles    bool   // '$' is doubled, and so are backslashes before a blank
	escaped    string // characters other than blanks that a backslash protects
}

var (
	gccDialect  = dialect{separators: " \t", doubles: true, escaped: "#:"}
	nvccDialect = dialect{separators: " "}
)

// words splits at unescaped separators, and undoes the escapes.
func (d *dialect) words(s string) []string {
	var out []string
	var w []byte
	flush := func() {
		if len(w) > 0 {
			out = append(out, string(w))
			w = w[:0]
		}
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			var used int
			w, used = d.backslashes(w, s[i:])
			i += used - 1
		case d.doubles && strings.HasPrefix(s[i:], "$$"):
			w = append(w, '$')
			i++
		case strings.IndexByte(d.separators, s[i]) >= 0:
			flush()
		default:
			w = append(w, s[i])
		}
	}
	flush()
	return out
}

// backslashes decodes the backslashes at the start of s and the character that they protect. It
// appends the result to w and returns how many bytes of s it decoded. Before a blank, 2n+1
// backslashes are n of them and the blank; 2n are n of them at the end of a name. Elsewhere a
// backslash is an ordinary character.
func (d *dialect) backslashes(w []byte, s string) ([]byte, int) {
	n := len(s) - len(strings.TrimLeft(s, `\`))
	var next byte
	if n < len(s) {
		next = s[n]
	}
	keep, used := n, n
	switch {
	case next != 0 && strings.IndexByte(d.separators, next) >= 0:
		if d.doubles {
			keep = n / 2
		} else {
			keep = n - 1
		}
		if n%2 == 1 || !d.doubles {
			used++
		}
	case next != 0 && strings.IndexByte(d.escaped, next) >= 0:
		keep, used = n-1, n+1
	}
	w = append(w, s[:keep]...)
	return append(w, s[n:used]...), used
}

// parseLinkDepfile parses the dependency file of a linker. GNU ld (2.40) writes one name per line
// and escapes nothing, so that make would read "/opt/a b/lib/libcudart_static.a" as two names. lld
// escapes as gcc does; mold writes all names on one line. A line is one name if a file of that name
// exists, and is split as make does otherwise.
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
			return deps, nil // the rules after it only keep make from failing on a removed file
		}
		if n == len(lines)-1 {
			return nil, fmt.Errorf("line %d is cut off: the file ends in the middle of a rule", n+1)
		}
	}
	return deps, nil
}
