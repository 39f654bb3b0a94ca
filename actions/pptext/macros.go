package pptext

import (
	"bytes"
	"slices"
)

// TakeMacros removes the "#define X ..." and "#undef X" lines that g++ -E -dU adds to its output,
// and those of includes that -dI adds, and reports which of names they show as used: expanded, or
// tested by #if, #ifdef or defined. A name that a pragma holds counts as used, as cpp may leave its
// expansion to whoever reads the text. A blank line is left for each line, so that the others keep
// their numbers: cpp counts the lines that it adds. The text takes the place of src.
//
// What cpp does not show is that a #define of a name that is already defined draws a warning, or
// none, by its value.
//
// Only lines that cpp can have added are removed, those with the # in the first column and outside
// of raw strings. In a text with comments (-C), a comment that looks as if it began a raw string
// hides the lines in it from removal; a name in such a line still counts as used.
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

// taker is TakeMacros at work on one text.
type taker struct {
	src     []byte
	names   []string
	used    map[string]bool
	nextRaw int // where R" stands next, which every raw string has; len(src) when nowhere
}

// findRaw returns the index of the first R" from at on, or that of the end.
func (t *taker) findRaw(at int) int {
	n := bytes.Index(t.src[at:], []byte(`R"`))
	if n < 0 {
		return len(t.src)
	}
	return at + n
}

// lineEnd returns the index after the newline of the line that starts at i, or of a later line when
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
			if name, ok := listed(line); ok { // as it may be no raw string
				t.note(name)
			}
		}
		i = after
	}
}

// rawEnd returns the index after the first raw string that begins between i and end, the end of the
// line, and goes past it, or end when there is none. A quote without a partner ends nothing: the
// macros that cpp lists can have one.
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

// mentioned notes the names that a pragma holds.
func (t *taker) mentioned(pragma []byte) {
	for _, n := range t.names {
		if bytes.Contains(pragma, []byte(n)) {
			t.used[n] = true
		}
	}
}

// listed reports a line that -dU or -dI adds, with the name of the macro that it defines or
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
