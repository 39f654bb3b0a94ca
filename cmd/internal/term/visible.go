package term

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/text/width"
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
		words[i] = arg
		assignment := i == 0 && strings.Contains(arg, "=") // as a shell reads it
		if arg == "" || strings.IndexFunc(arg, special) >= 0 || assignment {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
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

// windowSize queries the terminal behind w for its columns and rows. It returns 80 by 24 if w is
// not a terminal, or if the terminal does not know (a serial line, some CI consoles).
func windowSize(w any) (cols, rows int) {
	cols, rows = 80, 24
	f, ok := w.(*os.File)
	if !ok {
		return
	}
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 && ws.Row > 0 {
		return int(ws.Col), int(ws.Row)
	}
	return
}

// runeWidth returns the number of columns of a character.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth { // emoji are wide
		return 2
	}
	return 1
}

func textWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// truncate cuts s to limit columns and marks the cut with an ellipsis.
func truncate(s string, limit int) string {
	if textWidth(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > limit-1 {
			return s[:i] + "…"
		}
	}
	return s
}
