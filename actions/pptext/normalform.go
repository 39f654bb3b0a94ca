package pptext

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// # Normal form of a header
//
// An edit of a comment changes a header but no output of a compiler. To detect that without a
// compiler, kbuild compares normal forms: the bytes of a header with its comments blanked out. Two
// headers with equal normal forms have the same tokens, at the same lines and columns, with blanks
// at the same places. The form claims nothing else, and knows nothing of macros or directives.
//
//   - A byte of a comment becomes a blot. Tabs stay, since they affect columns. The blanks before
//     the first other character of a line stay as well, since -Wmisleading-indentation reads them.
//   - A newline within a comment does not end a directive, so it is marked.
//   - A comment at the end of a line is removed with the blanks around it. The first blot of a line
//     with nothing else stays. In longer lines all of them stay: gcc's line map counts columns with
//     more bits for those.
//
// The bytes of a header have different meanings in different standards, in skipped code, and in
// compilers that warn about comments. Where that could matter the header has no normal form, and
// its edits are compiled. So the lexer needs neither the standard nor the compiler:
//
//   - trigraphs, raw strings, digit separators (or what may be one), control characters except tab;
//   - a literal that does not end on its line, or that continues after a backslash;
//   - a backslash at the end of a line if the next line may continue its last token;
//   - text that may be a header name in <...> with a comment or a quote in it;
//   - a comment after #error, #warning or #pragma mark, whose lines clang does not split into
//     tokens;
//   - a comment that compilers warn about or read: one with another comment's start or a backslash
//     at the end of a line (-Wcomment); with bytes other than ASCII (-Wbidi-chars, -Winvalid-utf8);
//     with "fall" (-Wimplicit-fallthrough); or with a line that begins with #
//     (-Wmisleading-indentation again).
//
// TestNormalFormsAgainstCompilers compares this with gcc -E and clang -E.

const (
	blot    = '\x01'
	goesOn  = '\x02' // before a newline within a comment
	padding = " \t\x01"

	// sameColumns is the length up to which gcc's line map does not depend on the length of a line.
	sameColumns = 79

	// longest limits a line with literals and comments in it, since each of them scans back.
	longest = 1 << 14
)

// NormalForm returns the normal form of a header; ok is false if it has none.
func NormalForm(src []byte) (form []byte, ok bool) {
	if len(src) == 0 || src[len(src)-1] != '\n' || bytes.Contains(src, []byte("??")) {
		return nil, false
	}
	n := normalizer{src: src, out: make([]byte, 0, len(src)), ok: true}
	for i := 0; i < len(src) && n.ok; {
		switch c := src[i]; {
		case c == '\n':
			n.endLine(i, "\n")
			i++
			n.logical = i
		case c == '/' && (src[i+1] == '/' || src[i+1] == '*'):
			i = n.comment(i)
		case c == '"' || c == '\'':
			i = n.literal(i)
		case c == '\\' && endsLine(src[i+1:]):
			n.ok = n.ok && n.splices(i)
			n.out = append(n.out, "\\\n"...)
			i += 2
			n.line, n.outLine = i, len(n.out)
		default:
			n.ok = n.ok && (c >= ' ' || c == '\t')
			n.out = append(n.out, c)
			i++
		}
	}
	return n.out, n.ok
}

// normalizer reads src and writes out. Its methods return the index in src to continue at.
type normalizer struct {
	src, out      []byte
	line, outLine int // where the current line begins in each
	logical       int // start of the line that splices and comments continue
	ok            bool
}

// endLine ends the line of out, which ends at i in src.
func (n *normalizer) endLine(i int, end string) {
	line := n.out[n.outLine:]
	kept := len(bytes.TrimRight(line, padding))
	comment := bytes.IndexByte(line[kept:], blot)
	switch {
	case comment < 0: // trailing blanks stay: #error prints them
		kept = len(line)
	case kept == 0:
		kept = comment + 1
	case line[kept-1] == '\\': // it would look like a splice
		n.ok = false
	}
	if i-n.line <= sameColumns {
		n.out = n.out[:n.outLine+kept]
	}
	n.out = append(n.out, end...)
	n.line, n.outLine = i+1, len(n.out)
}

// comment blanks the comment at i out.
func (n *normalizer) comment(i int) int {
	end := i + bytes.IndexByte(n.src[i:], '\n')
	if n.src[i+1] == '*' {
		length := bytes.Index(n.src[i+2:], []byte("*/"))
		if length < 0 {
			n.ok = false
			return i
		}
		end = i + 2 + length + 2
	}
	if n.inHeaderName(i) || n.inRawLine(i) || suspect(n.src[i+2:end]) {
		n.ok = false
	}
	for ; i < end; i++ {
		switch c := n.src[i]; {
		case c == '\n':
			n.endLine(i, string(goesOn)+"\n")
			n.ok = n.ok && bytes.TrimLeft(n.src[i+1:], " \t")[0] != '#'
		case c == '\t', c == ' ' && len(bytes.Trim(n.out[n.outLine:], " \t")) == 0:
			n.out = append(n.out, c)
		default:
			n.out = append(n.out, blot)
		}
	}
	return end
}

// suspect reports whether a compiler may read a comment. comment lacks its first two characters.
func suspect(comment []byte) bool {
	for i, c := range comment {
		switch {
		case c >= 0x7f, c < ' ' && c != '\t' && c != '\n',
			c == '/' && i+1 < len(comment) && comment[i+1] == '*',
			c == '\\' && endsLine(comment[i+1:]):
			return true
		}
	}
	return bytes.Contains(bytes.ToLower(comment), []byte("fall"))
}

// literal copies the literal at i.
func (n *normalizer) literal(i int) int {
	src, quote := n.src, n.src[i]
	first := i
	for first > 0 && word[src[first-1]] {
		first--
	}
	prefix := string(src[first:i])
	switch number := first > 0 && src[first-1] == '.' || first > 1 && sign(src[first-2], src[first-1]); {
	case quote == '"' && strings.HasSuffix(prefix, "R"), // raw
		quote == '\'' && !slices.Contains([]string{"", "L", "u", "U", "u8"}, prefix),
		quote == '\'' && number, // the number continues: 1.'0
		n.inHeaderName(i):
		n.ok = false
	}
	end, escapes := i+1, false
	for src[end] != quote {
		if src[end] == '\\' {
			n.ok, escapes = n.ok && !endsLine(src[end+1:]), true
			end++
		}
		if src[end] == '\n' {
			n.ok = false
			return end
		}
		n.ok = n.ok && (src[end] >= ' ' || src[end] == '\t')
		end++
	}
	// "a\" is a whole name after #include.
	n.ok = n.ok && !(escapes && namesHeaders(src[n.logical:i]))
	n.out = append(n.out, src[i:end+1]...)
	return end + 1
}

// splices reports whether the line break after the backslash at i separates tokens: no token may
// continue after it.
func (n *normalizer) splices(i int) bool {
	if n.src[i+1] != '\n' || i+2 >= len(n.src) {
		return false // with blanks after it, compilers differ
	}
	if i == 0 || bytes.IndexByte([]byte("\n \t(){}[],;=&|<>:!"), n.src[i-1]) >= 0 {
		return true
	}
	return word[n.src[i-1]] && (n.src[i+2] == ' ' || n.src[i+2] == '\t')
}

// inHeaderName reports whether i may be within a name in <...>. Such a name is after #include and
// the like, or after a parenthesis, as in __has_include under any name.
func (n *normalizer) inHeaderName(i int) bool {
	before := n.src[n.logical:i]
	if len(before) > longest {
		return true
	}
	at := bytes.LastIndexByte(before, '>') + 1
	open := bytes.IndexByte(before[at:], '<')
	if open < 0 {
		return false
	}
	left := bytes.TrimRight(before[:at+open], " \t")
	operand := len(left) > 0 && (word[left[len(left)-1]] || bytes.IndexByte([]byte(`)]"'`), left[len(left)-1]) >= 0)
	return !operand || namesHeaders(before)
}

// inRawLine reports whether the directive before i takes the rest of its line verbatim, or whether
// its name may follow.
func (n *normalizer) inRawLine(i int) bool {
	before := n.src[n.logical:i]
	directive := bytes.IndexByte(before, '#') >= 0 || bytes.Contains(before, []byte("%:"))
	return directive && rawLine().Match(before)
}

var rawLine = sync.OnceValue(func() *regexp.Regexp {
	const blanks = `[ \t\\\n]*`
	return regexp.MustCompile(`(#|%:)` + blanks + `((pragma` + blanks + `)?$|error|warning|pragma` + blanks + `mark)`)
})

// namesHeaders reports whether a line has a word that a header name may follow.
func namesHeaders(line []byte) bool {
	return slices.ContainsFunc([]string{"include", "import", "embed", "dependency"}, func(w string) bool {
		return bytes.Contains(line, []byte(w))
	})
}

// endsLine reports whether a line has only blanks left.
func endsLine(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t")
	return len(rest) == 0 || rest[0] == '\n'
}
