package run

import (
	"fmt"
	"strings"
)

// ParseDepfile reads a make-style dependency file as gcc and nvcc write it: blanks and '#' escaped by
// a backslash, '$' doubled, lines continued by a backslash, several rules. nvcc 11.8 and 12.4 do not
// escape the target, so everything before the first ": " (or ":" at the end of a line) is taken as one
// target when it cannot be split otherwise.
func ParseDepfile(b []byte) (targets, deps []string, err error) {
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	text = strings.ReplaceAll(text, "\\\n", " ")
	if strings.ContainsRune(text, 0) {
		return nil, nil, fmt.Errorf("it holds a zero byte")
	}
	for n, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		colon := ruleColon(line)
		if colon < 0 {
			return nil, nil, fmt.Errorf("rule %d has no colon: %.60q", n+1, line)
		}
		targets = append(targets, strings.TrimSpace(line[:colon]))
		deps = append(deps, words(line[colon+1:])...)
	}
	if len(targets) == 0 {
		return nil, nil, fmt.Errorf("it holds no rule")
	}
	return targets, deps, nil
}

// ruleColon is the colon that ends the targets: the first one before a blank or the end of the line.
func ruleColon(line string) int {
	for i := range len(line) {
		if line[i] == ':' && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t') {
			return i
		}
	}
	return -1
}

// words splits at blanks that no backslash escapes. A backslash before anything but a blank, '#' or a
// further backslash that ends up before one of these is an ordinary character, as in GNU make.
func words(s string) []string {
	var out []string
	var w strings.Builder
	flush := func() {
		if w.Len() > 0 {
			out = append(out, w.String())
			w.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && strings.IndexByte(" \t#", s[i+1]) >= 0:
			i++
			w.WriteByte(s[i])
		case c == '$' && i+1 < len(s) && s[i+1] == '$':
			i++
			w.WriteByte('$')
		case c == ' ' || c == '\t':
			flush()
		default:
			w.WriteByte(c)
		}
	}
	flush()
	return out
}
