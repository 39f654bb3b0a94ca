package term

import (
	"os"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/text/width"
)

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
