package term

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Screen is a text that is redrawn in place on a terminal, with the keys that the user types.
type Screen struct {
	Keys <-chan byte // closed at the end of input

	live   live
	out    any
	in     *os.File
	before *unix.Termios // of in; nil if unchanged
}

// OpenScreen returns a Screen on a terminal. It returns nil if out cannot redraw.
func OpenScreen(in *os.File, out any) *Screen {
	w, ok := out.(*os.File)
	if !ok || Auto.resolve(IsTerminal(out)) != TTY {
		return nil
	}
	s := &Screen{live: live{w: w}, out: out, in: in}
	keys := make(chan byte)
	s.Keys = keys
	if t, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		before := *t
		t.Lflag &^= unix.ICANON | unix.ECHO // deliver each key immediately; keep Ctrl-C
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		if unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, t) == nil {
			s.before = &before
		}
	}
	go func() {
		defer close(keys)
		var b [1]byte
		for {
			if n, err := in.Read(b[:]); n == 0 || err != nil {
				return
			}
			keys <- b[0]
		}
	}()
	return s
}

// Show replaces the text. Text that does not fit on the terminal is cut off.
func (s *Screen) Show(text string) {
	cols, rows := windowSize(s.out)
	s.show(text, cols, rows)
}

func (s *Screen) show(text string, cols, rows int) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > rows-1 {
		lines = append(lines[:max(0, rows-2)], "…")
	}
	var shown []liveLine
	for _, l := range lines {
		l = truncate(l, cols-1)
		shown = append(shown, liveLine{l, l})
	}
	s.live.draw(nil, shown, cols)
}

// Close leaves the text on the terminal and restores the terminal's settings.
func (s *Screen) Close() {
	s.live.w.Write([]byte("\n"))
	if s.before != nil {
		unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, s.before)
	}
}
