package term

import (
	"bytes"
	"fmt"
	"io"
)

// live is the part of a terminal that is redrawn in place: its last few lines. Between calls the
// cursor is at the end of the last line. No line is wider than the terminal, so none wraps. Each
// change is one Write, so that the terminal never shows half of it.
type live struct {
	w      io.Writer
	widths []int // columns of each line on the screen
}

// rows returns the number of rows that the lines occupy. A terminal that became narrower wrapped
// them, so rows uses the current width.
func (l *live) rows(cols int) int {
	n := 0
	for _, w := range l.widths {
		n += 1 + max(0, w-1)/max(1, cols)
	}
	return n
}

// up moves the cursor up to the start of the first of the given rows.
func up(b *bytes.Buffer, rows int) {
	b.WriteByte('\r')
	if rows > 1 {
		fmt.Fprintf(b, "\x1b[%dA", rows-1)
	}
}

// erase blanks the given rows and returns to the first. It goes row by row: tmux treats "erase
// below" at the top of the screen as `clear` and moves the erased text into its history.
func erase(b *bytes.Buffer, rows int) {
	b.WriteString(eraseRight)
	for range rows - 1 {
		b.WriteString("\n" + eraseRight)
	}
	up(b, rows)
}

// liveLine is a line with and without escape sequences. The plain form gives its width.
type liveLine struct{ plain, inked string }

// draw replaces the live lines and writes permanent, which is whole lines of text, above them. It
// overwrites lines in place where possible, because erasing first flickers on a slow connection.
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
		b.WriteString(eraseBelow) // there were perhaps more lines before
	}
	l.w.Write(b.Bytes())
}

const (
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)
