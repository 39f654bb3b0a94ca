package pptext

import (
	"bytes"
	"slices"
)

// TakeMacros removes the "#define X ..." and "#undef X" lines that g++ -E -dU adds to its output,
// and the include lines that -dI adds. It reports which of names those lines show as used:
// expanded, or tested by #if, #ifdef or defined. A name in a pragma counts as used, as cpp may
// leave its expansion to the next reader. A blank line replaces each line, so that the others keep
// their numbers: cpp counts the lines that it adds. The result reuses the memory of src.
//
// cpp does not show one use. A #define of a name that is already defined may draw a warning,
// depending on the value.
//
// Only lines that cpp can have added are removed: those with the # in the first column and outside
// of raw strings. In a text with comments (-C), a comment that looks like the start of a raw string
// hides the lines in it from removal. A name in such a line still counts as used.
func TakeMacros(src []byte, names ...string) (text []byte, used map[string]bool) {
	t := taker{src: src, names: names, used: make(map[string]bool)}
	t.nextRaw = t.findRaw(0)
	kept := 0
	for i := 0; i < len(src); {
		end := t.lineEnd(i)
		if src[i] != '#' {
			i = end
			continue
		}
		if name, ok := listed(src[i:end]); ok {
			t.note(name)
			if text == nil {
				text = src[:0] // never longer than what was read
			}
			text = append(text, src[kept:i]...)
			for range bytes.Count(src[i:end], []byte("\n")) {
				text = append(text, '\n')
			}
			kept = end
		} else if bytes.HasPrefix(src[i:end], []byte("#pragma")) {
			t.mentioned(src[i:end])
		}
		i = end
	}
	if text == nil {
		return src, t.used
	}
	return append(text, src[kept:]...), t.used
}

// taker holds the state of TakeMacros for one text.
type taker struct {
	src     []byte
	names   []string
	used    map[string]bool
	nextRaw int // index of the next R", with which every raw string begins; len(src) if none
}

// findRaw returns the index of the first R" from at on, or the length of the text.
func (t *taker) findRaw(at int) int {
	n := bytes.Index(t.src[at:], []byte(`R"`))
	if n < 0 {
		return len(t.src)
	}
	return at + n
}

// lineEnd returns the index after the newline of the line that starts at i, or of a later line if
// raw strings span lines.
func (t *taker) lineEnd(i int) int {
	for {
		end := len(t.src)
		if n := bytes.IndexByte(t.src[i:], '\n'); n >= 0 {
			end = i + n + 1
		}
		if t.nextRaw < i {
			t.nextRaw = t.findRaw(i)
		}
		if t.nextRaw >= end {
			return end
		}
		after := t.rawEnd(i, end)
		if after == end {
			return end
		}
		for line := range bytes.Lines(t.src[end:after]) {
			if name, ok := listed(line); ok { // it may not be a raw string
				t.note(name)
			}
		}
		i = after
	}
}

// rawEnd returns the index after the first raw string that begins between i and end, the end of the
// line, and extends past it. Otherwise it returns end. An unpaired quote ends nothing: the macros
// that cpp lists can have one.
func (t *taker) rawEnd(i, end int) int {
	if t.src[end-1] != '\n' {
		return end // the last line
	}
	for i < end {
		if class[t.src[i]] != quote {
			i++
			continue
		}
		after := literal(t.src, i)
		switch {
		case after > end:
			return after
		case after < 0:
			i++
		default:
			i = after
		}
	}
	return end
}

func (t *taker) note(name []byte) {
	if slices.Contains(t.names, string(name)) {
		t.used[string(name)] = true
	}
}

// mentioned records the names that a pragma contains.
func (t *taker) mentioned(pragma []byte) {
	for _, n := range t.names {
		if bytes.Contains(pragma, []byte(n)) {
			t.used[n] = true
		}
	}
}

// listed reports whether -dU or -dI adds a line, and returns the macro that the line defines or
// undefines.
func listed(line []byte) (name []byte, ok bool) {
	if line[0] != '#' {
		return nil, false
	}
	for _, include := range []string{"#include ", "#include_next ", "#import "} {
		if bytes.HasPrefix(line, []byte(include)) {
			return nil, true
		}
	}
	rest, ok := bytes.CutPrefix(line, []byte("#define "))
	if !ok {
		rest, ok = bytes.CutPrefix(line, []byte("#undef "))
	}
	n := 0
	for n < len(rest) && word[rest[n]] {
		n++
	}
	return rest[:n], ok && n > 0
}
