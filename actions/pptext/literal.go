package pptext

import "bytes"

// Classes of a byte outside of literals.
const (
	plain    = 0
	newline  = 1 << iota // ends a line
	blank                // between tokens
	quote                // " and '
	slash                // may begin a comment
	question             // may begin a trigraph
	strange              // control characters, and backslashes

	afterGap = newline | blank | slash // makes a blank before it more than a plain gap
)

// class is the class of each byte.
var class = func() (t [256]uint8) {
	for c := range t {
		if c < ' ' || c == 0x7f {
			t[c] = strange
		}
	}
	t['\n'] = newline
	t[' '], t['\t'], t['\v'], t['\f'] = blank, blank, blank, blank
	t['"'], t['\''] = quote, quote
	t['/'], t['?'], t['\\'] = slash, question, strange
	return t
}()

// word reports which bytes are part of identifiers and numbers. Bytes of UTF-8 are.
var word = func() (t [256]bool) {
	for c := range t {
		t[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
	}
	return t
}()

// literal returns the index after the literal whose opening quote is at i, without a suffix. If the
// quote is a digit separator it returns the index after the number. It returns odd for an
// unterminated or unknown literal. The word or number before the quote decides what the quote is.
func literal(src []byte, i int) int {
	if i == 0 {
		return quoted(src, i)
	}
	last := src[i-1]
	if !word[last] && last != '.' && last != '+' && last != '-' {
		return quoted(src, i)
	}
	first := i
	for first > 0 && word[src[first-1]] {
		first--
	}
	// If joined, the word is the suffix of a literal.
	joined := first > 0 && (src[first-1] == '"' || src[first-1] == '\'')
	switch number, raws := inNumber(src, i), rawPrefix(src[first:i]); {
	case src[i] == '\'' && number:
		return separated(src, i)
	case joined && (raws || src[i] == '\''):
		return odd
	case raws && !number && src[i] == '"':
		return raw(src, i)
	}
	return quoted(src, i)
}

// inNumber reports whether the character at i could continue a number that begins before it, such
// as 0x1.8p+3.
func inNumber(src []byte, i int) bool {
	at := i
	for at > 0 && (word[src[at-1]] || src[at-1] == '.' || at > 1 && sign(src[at-2], src[at-1])) {
		at--
	}
	for at < i {
		switch {
		case '0' <= src[at] && src[at] <= '9', src[at] == '.' && '0' <= src[at+1] && src[at+1] <= '9':
			if at = numberEnd(src, at); at >= i {
				return true
			}
		case word[src[at]]:
			for word[src[at]] {
				at++
			}
		default:
			at++
		}
	}
	return false
}

// sign reports whether c and d are the letter and the sign of an exponent in a number.
func sign(c, d byte) bool {
	return (c == 'e' || c == 'E' || c == 'p' || c == 'P') && (d == '+' || d == '-')
}

// numberEnd returns the index after the characters of a number at i, up to a digit separator.
func numberEnd(src []byte, i int) int {
	for word[src[i]] || src[i] == '.' || i > 0 && sign(src[i-1], src[i]) {
		i++
	}
	return i
}

// quoted returns the index after an ordinary literal that opens at i.
func quoted(src []byte, i int) int {
	open := src[i]
	for i++; ; i++ {
		switch src[i] {
		case open:
			return i + 1
		case '\n':
			return odd
		case '\\':
			if i++; src[i] == '\n' {
				return odd
			}
		case '?':
			if src[i+1] == '?' && src[i+2] == '/' { // the backslash's trigraph
				return odd
			}
		}
	}
}

// separated returns the index after the rest of a number that has a digit separator at i. It reads
// the number to its end: in 0xAB'CD'EF the word before the second quote looks like an identifier.
func separated(src []byte, i int) int {
	for src[i] == '\'' {
		// Compilers differ on the sign in 1'e+1, which none accepts.
		if i++; !word[src[i]] || sign(src[i], src[i+1]) {
			return odd
		}
		i = numberEnd(src, i)
	}
	return i
}

// rawPrefix reports whether word, right before a double quote, makes the literal a raw string.
func rawPrefix(word []byte) bool {
	switch string(word) {
	case "R", "LR", "uR", "UR", "u8R":
		return true
	}
	return false
}

// raw returns the index after the raw string whose quote is at i, R"delimiter(text)delimiter".
func raw(src []byte, i int) int {
	// A delimiter has at most 16 characters.
	open := bytes.IndexByte(src[i:min(len(src), i+18)], '(')
	if open < 0 {
		return odd
	}
	delimiter := src[i+1 : i+open]
	if bytes.ContainsAny(delimiter, " )\\\t\v\f\n\r\"") {
		return odd
	}
	body := i + open + 1
	end := bytes.Index(src[body:], append(append([]byte(")"), delimiter...), '"'))
	if end < 0 {
		return odd
	}
	return body + end + 1 + len(delimiter) + 1
}
