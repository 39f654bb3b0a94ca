package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names in a bundle or an archive, file names and symbols are untrusted input. Their control
// characters could move the cursor, change the title or make the terminal send input. They are
// therefore shown as escapes. The output of compilers is trusted: it comes from local tools and may
// contain colour.

// Visible escapes the control characters of a text, such as \x1b. It keeps newlines and tabs.
func Visible(s string) string { return spelled(s, "\n\t") }

// Name is Visible for a name, which has no newlines or tabs.
func Name(s string) string { return spelled(s, "") }

func spelled(s, kept string) string {
	hidden := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(kept, r) }
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n' && hidden(r):
			b.WriteString(`\n`)
		case hidden(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// ShellQuote formats a command line so that a user can paste it into a POSIX shell.
func ShellQuote(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quoteWord(arg)
		if i == 0 && strings.Contains(arg, "=") && words[i] == arg {
			words[i] = "'" + arg + "'" // else a shell reads it as an assignment
		}
	}
	return strings.Join(words, " ")
}

func quoteWord(s string) string {
	if s != "" && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// special reports whether a character needs quoting in a shell. Non-ASCII characters do not, but
// blanks among them would be invisible without quotes.
func special(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	case r < 0x80:
		return !strings.ContainsRune("_-+=:,./@%^", r)
	}
	return r == 0xa0 || r == 0x2007 || r == 0x202f || r == 0x3000 || r == 0xfffd
}
