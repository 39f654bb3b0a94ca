package term

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/text/width"
)

// windowSize asks the terminal behind w for its columns and rows. 80 by 24 is the answer where
// there is none to ask, or where it does not know (a serial line, some CI consoles).
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

// runeWidth is how many columns a character takes.
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

// truncate cuts s to limit columns. The cut shows as an ellipsis.
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

// oneLine replaces control characters, which would move the cursor, and broken UTF-8.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
