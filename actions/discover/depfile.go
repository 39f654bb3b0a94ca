package discover

import (
	"bytes"
	"fmt"
	"strings"
)

// parseDepfile reads a dependency file as gcc, clang and nvcc write it, with any number of rules;
// the errors of broken files name the line.
//
// There are two dialects, told apart by the first rule. gcc and clang write "target: dep dep", with
// blanks and '#' escaped by a backslash, the backslashes before an escaped blank doubled, and '$'
// doubled. nvcc (11.8 and 12.4) writes "target : dep", escapes blanks in names and nothing else
// (not even tabs, '#' and '$'), and its target is what -o or -MT said, verbatim. So everything
// before the colon of a rule is one target, with or without blanks.
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

// logicalLine joins the lines from n on that are continued by a backslash, and gives the number of
// the line after them.
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

// ruleColon is the colon that ends the target: the first one before a blank or the end of the line,
// since names hold colons.
func ruleColon(rule string) int {
	for i := range len(rule) {
		if rule[i] == ':' && (i+1 == len(rule) || rule[i+1] == ' ' || rule[i+1] == '\t') {
			return i
		}
	}
	return -1
}

// dialect is how a compiler writes names.
type dialect struct {
	separators string // characters between names
	doubles    bool   // '$' is doubled, and so are backslashes before a blank
	escaped    string // characters other than blanks that a backslash protects
}

var (
	gccDialect  = dialect{separators: " \t", doubles: true, escaped: "#:"}
	nvccDialect = dialect{separators: " "}
)

// words splits at separators that no backslash escapes, and undoes the escapes.
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

// backslashes appends to w what the backslashes at the start of s and the character that they
// protect stand for, and says how much of s that was. Before a blank, 2n+1 backslashes are n of
// them and the blank, 2n are n of them at the end of a name; elsewhere a backslash is an ordinary
// character.
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

// parseLinkDepfile reads the dependency file of a linker. GNU ld (2.40) writes a name a line and
// escapes nothing, so that "/opt/a b/lib/libcudart_static.a" looks like two names to make; lld
// escapes as gcc does; mold writes all names in one line. A line is one name if there is a file of
// that name, and else read as make does.
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
