package term

import (
	"bytes"
	"fmt"
	"io"
)

// live is the part of a terminal that is redrawn in place: the last few lines, below everything
// that stays. Between calls the cursor stands at the end of the last of these lines; no line is
// wider than the terminal, so that none wraps. Each change is one Write: terminals show no half of
// it.
type live struct {
	w      io.Writer
	widths []int // columns of each line on the screen
}

// rows counts the rows that the lines take. A terminal that became narrower has wrapped them, so it
// counts with the width of now.
func (l *live) rows(cols int) int {
	n := 0
	for _, w := range l.widths {
		n += 1 + max(0, w-1)/max(1, cols)
	}
	return n
}

// up moves the cursor to the beginning of the first of rows rows.
func up(b *bytes.Buffer, rows int) {
	b.WriteByte('\r')
	if rows > 1 {
		fmt.Fprintf(b, "\x1b[%dA", rows-1)
	}
}

// erase blanks rows rows and returns to the first. It goes row by row: tmux takes "erase below" at
// the top of the screen for `clear` and moves what it erased into the history.
func erase(b *bytes.Buffer, rows int) {
	b.WriteString(eraseRight)
	for range rows - 1 {
		b.WriteString("\n" + eraseRight)
	}
	up(b, rows)
}

// liveLine is a line with its plain form, which says how wide it is.
type liveLine struct{ plain, inked string }

// draw replaces the lines; permanent, whole lines of text that stay, goes above them. Lines are
// overwritten in place where possible: erasing first would flicker on a slow connection.
func (l *live) draw(permanent []byte, lines []liveLine, cols int) {
	rows := l.rows(cols)
	if rows == 0 && len(permanent) == 0 && len(lines) == 0 {
		return
	}
	var b bytes.Buffer
	if rows > 0 {
		up(&b, rows)
		if rows > len(l.widths) || len(permanent) > 0 || len(lines) == 0 {
			erase(&b, rows)
		}
	}
	b.Write(permanent)
	l.widths = l.widths[:0]
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line.inked)
		b.WriteString(eraseRight)
		l.widths = append(l.widths, textWidth(line.plain))
	}
	if rows > 0 && len(lines) > 0 {
		b.WriteString(eraseBelow) // there may have been more lines before
	}
	l.w.Write(b.Bytes())
}

const (
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)
