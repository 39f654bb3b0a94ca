package pptext

import (
	"bytes"
	"slices"
)

// TakeMacros empties the "#define" and "#undef" lines that `g++ -E -dU` puts before the first use of each macro,
// and reports which of names the text used: expanded, pasted together or tested. Line numbers stay right, since
// the lines stay. src is changed.
//
// A line of a raw string may look like a directive, so raw strings are passed over.
func TakeMacros(src []byte, names ...string) (text []byte, used []string) {
	out := src[:0]
	for rest := src; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		if name, ok := definition(rest[:n]); ok {
			if slices.Contains(names, string(name)) && !slices.Contains(used, string(name)) {
				used = append(used, string(name))
			}
			out = append(out, '\n')
			rest = rest[n:]
			continue
		}
		if bytes.Contains(rest[:n], []byte(`R"`)) {
			n = logicalLine(rest)
		}
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	return out, used
}

// definition gives the macro of a #define or #undef line.
func definition(line []byte) (name []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("#define "))
	if !ok {
		if rest, ok = bytes.CutPrefix(line, []byte("#undef ")); !ok {
			return nil, false
		}
	}
	n := 0
	for n < len(rest) && (kinds[rest[n]] == word || kinds[rest[n]] == digit) {
		n++
	}
	return rest[:n], true
}

// logicalLine is the length of the first line of s with its newline, where newlines in raw strings end none.
func logicalLine(s []byte) int {
	for i := 0; i < len(s); {
		switch kinds[s[i]] {
		case word:
			start := i
			for i < len(s) && (kinds[s[i]] == word || kinds[s[i]] == digit) {
				i++
			}
			if i < len(s) && s[i] == '"' && rawPrefix(s[start:i]) {
				i += rawString(s[i:])
			}
		case digit:
			i += number(s[i:])
		case quote:
			end := bytes.IndexByte(s[i:], '\n')
			if end < 0 {
				end = len(s) - i
			}
			n := literal(s[i : i+end])
			i += max(1, n)
		default:
			if i++; s[i-1] == '\n' {
				return i
			}
		}
	}
	return len(s)
}

func rawPrefix(name []byte) bool {
	switch string(name) {
	case "R", "LR", "uR", "UR", "u8R":
		return true
	}
	return false
}

// rawString is the length of "delimiter( ... )delimiter" at the start of s.
func rawString(s []byte) int {
	open := bytes.IndexByte(s, '(')
	if open < 0 || open > 17 {
		return 1
	}
	closing := append(append([]byte{')'}, s[1:open]...), '"')
	end := bytes.Index(s[open:], closing)
	if end < 0 {
		return len(s)
	}
	return open + end + len(closing)
}
