// Package pptext knows how preprocessed C++ and CUDA text is laid out in lines. It refuses to know
// what the text means.
//
// # The canonical form
//
// A comment added to a shared header moves every line below it. So it changes every preprocessed
// text that includes the header, although no token changed. A compiler that records no lines
// generates the same code from both texts. A key of the text must therefore ignore the move. The
// canonical form is the text without what moves:
//
//   - Blank lines, and blanks at both ends of a line, are removed. A run of blanks between two
//     tokens becomes one blank. Line breaks between tokens stay: joining lines would gain nothing
//     and would require more knowledge of directives.
//   - Every line marker names line 1. A marker is omitted if it changes neither the file nor the
//     system-header flags of the text after it. It is also omitted if no text follows it before the
//     next marker. GNU cpp fills gaps of up to 8 lines with newlines and writes a marker for longer
//     ones. Without this rule 1 and 20 added lines would yield different bytes. Markers that enter
//     or leave a file always stay, and so does the first one, which names the main file.
//   - Flags are as much part of a place as the file. To suppress warnings, cpp wraps tokens from a
//     system header's macro in `# 7 "a.cu" 3 4` and `# 7 "a.cu"`, in the middle of a statement.
//   - Comments count as blanks. cpp removes them all; cudafe++ writes a few.
//   - Literals, including raw strings that span lines, and the inside of directives are copied
//     unchanged.
//
// The form is itself a preprocessed text: cicc, cudafe++ and g++ read it. A step that is keyed on
// the form should read the form, too. LTO-IR records lines even in a build without debug
// information. And cudafe++ 11.8 chooses between two spellings of one constant (256 or
// BLOCK_THREADS in CUB's policies) by the column of a token. The first of two texts with one form
// would then decide the bytes of its output, though not of the object.
//
// The form does not keep what some diagnostics depend on: -Wmisleading-indentation compares
// columns.
//
// # When in doubt, copy
//
// The lexer knows just enough of C++ to find where literals end. A text with anything else is
// copied byte for byte. Examples are an unterminated literal, a backslash or a `//` outside of
// literals, a trigraph, and a marker of another shape. Another one is an indented directive, which
// g++ -fpreprocessed does not accept. A moved line then costs a compile, but the result is correct.
// A text that queries its own position (__builtin_LINE and the like) is copied as well: its lines
// are part of its meaning.
package pptext

import (
	"bytes"
	"slices"
)

// Options describes the text.
type Options struct {
	// DropFalse omits "#if 0 ... #endif", with the conditionals nested in it. cudafe++ wraps all
	// device code in such brackets, which host compilers skip. Without DropFalse, an edit of device
	// code would change the host code's form. Text after an #else or #elif of such an #if stays.
	DropFalse bool
	// Base is an absolute folder. Markers name its files relative to it, as if the compiler ran
	// there. So texts of two checkouts have the same canonical form. __builtin_FILE then also
	// queries a position.
	Base string
}

// Canon is the result of AppendCanonical besides the text.
type Canon struct {
	// Lines is true if the text queries its own position, as __builtin_LINE and
	// std::source_location do. Such a text is copied byte for byte, as its line numbers are part of
	// its meaning.
	Lines bool
	// Copied is true if the text was copied byte for byte, because of Lines or of something that
	// the lexer does not know. Such a text is no less sound as a key; only moved lines change it.
	Copied bool
}

// AppendCanonical appends the canonical form of src, preprocessed C++ text, to dst. Two texts with
// the same canonical form and the same Canon.Lines compile to the same code in a compiler that
// records no lines. The canonical form of a canonical form is itself. Text that the lexer does not
// understand is copied.
func AppendCanonical(dst, src []byte, o Options) ([]byte, Canon) {
	lines := asksPosition(src) || o.Base != "" && bytes.Contains(src, []byte("__builtin_FILE"))
	if !lines {
		if out, ok := appendCanonical(dst, src, o); ok {
			return out, Canon{}
		}
	}
	return append(dst, src...), Canon{Lines: lines, Copied: true}
}

// asksPosition reports whether the text contains a name that expands to a position, even within a
// longer name, a literal or a comment. A false yes costs a compile; a false no would be wrong.
// __builtin_FILE and __builtin_FUNCTION do not count: the canonical form keeps every token's file,
// and functions have no lines in their names. __LINE__ is already expanded, except within a pragma.
//
// This search takes a quarter of the time of AppendCanonical. The rare letter L finds most names
// without a look at the rest.
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

// appendCanonical returns false if it finds something that it does not know.
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
