// Package pptext knows how preprocessed C++ and CUDA text is laid out in lines, and refuses to know
// what it means.
//
// # The canonical form
//
// A comment added to a shared header moves every line below it, and so changes every preprocessed
// text that holds the header, although no token changed. A compiler that records no lines makes the
// same code from both texts, so a key made of the text must not see the move. The canonical form is
// the text without what moves:
//
//   - Blank lines are gone, so are blanks at both ends of a line, and a run of blanks between two tokens is one blank.
//     Line breaks between tokens stay: joining lines would gain nothing and needs to know directives better.
//   - Every line marker says line 1. A marker is left out when it changes neither the file nor the system-header flags
//     of the text after it, or when no text follows it before the next marker. GNU cpp fills gaps of up to 8 lines with
//     newlines and writes a marker for longer ones, so only then do 1 and 20 added lines give the same bytes. Markers
//     that enter or leave a file always stay, and so does the first one, which names the main file.
//   - Flags are as much part of a place as the file: cpp wraps tokens that come from a system header's macro in
//     `# 7 "a.cu" 3 4` and `# 7 "a.cu"`, in the middle of a statement, to keep warnings about them quiet.
//   - Comments count as blanks. cpp leaves none; cudafe++ writes a few.
//   - Literals, raw strings that span lines among them, and the inside of directives are copied as they are.
//
// The form is itself a preprocessed text: cicc, cudafe++ and g++ read it. A step that is keyed on
// the form should read the form, too. LTO-IR records lines even in a build without debug
// information; and cudafe++ 11.8 chooses by the column of a token between two spellings of one
// constant (256 or BLOCK_THREADS in CUB's policies), so that the first of two texts with one form
// would decide the bytes of its output, though not of the object.
//
// What the form does not keep is what some diagnostics go by: -Wmisleading-indentation looks at
// columns.
//
// # When in doubt, copy
//
// The lexer knows just enough of C++ to find where literals end. A text that holds anything else,
// such as an unterminated literal, a backslash or a `//` outside of literals, a trigraph, an
// indented directive (which g++ -fpreprocessed does not take for one) or a marker of another shape,
// is copied byte for byte: then a moved line costs a compile, and nothing is wrong. So is a text
// that asks for its own position (__builtin_LINE and its like): its lines are part of its meaning.
package pptext

import (
	"bytes"
	"slices"
)

// Options says which text it is.
type Options struct {
	// DropFalse leaves out "#if 0 ... #endif", with the conditionals nested in it. cudafe++ puts
	// all device code in such brackets, which host compilers skip: without it, an edit of device
	// code is an edit of the host code. What stands after an #else or #elif of such an #if stays.
	DropFalse bool
	// Base is a folder, absolute, whose files are named in markers as if it were the one that the
	// compiler runs in: texts of two checkouts have one canonical form. Then __builtin_FILE asks
	// for a position, too.
	Base string
}

// Canon is what AppendCanonical found.
type Canon struct {
	// Lines is true when the text asks for its own position, as __builtin_LINE and
	// std::source_location do. It was then copied byte for byte, as its line numbers change what it
	// means.
	Lines bool
	// Copied is true when the text was copied byte for byte, because of Lines or of something that
	// the lexer does not know. Such text is no less sound as a key; only moved lines change it.
	Copied bool
}

// AppendCanonical appends the canonical form of src, preprocessed C++ text, to dst. Two texts with
// one canonical form, and one value of Canon.Lines, compile to the same code in a compiler that
// records no lines. The canonical form of a canonical form is itself. Text that is not understood
// is copied.
func AppendCanonical(dst, src []byte, o Options) ([]byte, Canon) {
	lines := asksPosition(src) || o.Base != "" && bytes.Contains(src, []byte("__builtin_FILE"))
	if !lines {
		if out, ok := appendCanonical(dst, src, o); ok {
			return out, Canon{}
		}
	}
	return append(dst, src...), Canon{Lines: lines, Copied: true}
}

// asksPosition says whether the text holds a name that stands for a position, as a whole name or
// within a longer one, in code, a literal or a comment: a false yes costs a compile, a false no
// would be wrong. __builtin_FILE and __builtin_FUNCTION are no such names: the canonical form keeps
// every token's file, and functions have no lines in their names. __LINE__ is long expanded, but
// for the inside of a pragma.
//
// This search takes a quarter of the time of AppendCanonical. The rare letter L finds most names
// without looking at the rest.
func asksPosition(src []byte) bool {
	for at := 0; ; at++ {
		k := bytes.IndexByte(src[at:], 'L')
		if k < 0 {
			break
		}
		at += k
		before, after := src[:at], src[at:]
		switch {
		case bytes.HasPrefix(after, []byte("LINE")):
			if bytes.HasSuffix(before, []byte("__builtin_")) ||
				bytes.HasSuffix(before, []byte("__")) && bytes.HasPrefix(after, []byte("LINE__")) {
				return true
			}
		case bytes.HasPrefix(after, []byte("LUMN")) && bytes.HasSuffix(before, []byte("__builtin_CO")):
			return true
		}
	}
	return bytes.Contains(src, []byte("__builtin_source_location"))
}

// appendCanonical returns false where it meets something that it does not know.
func appendCanonical(dst, src []byte, o Options) ([]byte, bool) {
	if n := len(src); n > 0 && src[n-1] != '\n' {
		src = append(bytes.Clone(src), '\n') // so that every loop ends at a newline
	}
	s := scanner{src: src, out: slices.Grow(dst, len(src)), dropFalse: o.DropFalse}
	if o.Base != "" {
		s.base = []byte(`"` + o.Base + "/")
	}
	for i := 0; i < len(src); {
		i = s.line(i)
		if i < 0 {
			return nil, false
		}
	}
	return s.out, s.dropping == 0
}
