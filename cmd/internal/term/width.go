package term

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// windowSize asks the terminal behind w for its columns and rows. 80 by 24 is the answer where there
// is none to ask, or where it does not know (a serial line, some CI consoles).
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

// wide are the blocks whose characters take two columns (Unicode's East Asian Width W and F, and the
// emoji), as ranges.
var wide = []struct{ from, to rune }{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2e80, 0x303e}, {0x3041, 0x33ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff},
	{0xa000, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f},
	{0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
}

func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	for _, w := range wide {
		if w.from <= r && r <= w.to {
			return 2
		}
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
