package term

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// terminal is a small model of a screen: what it shows after the bytes that Progress writes. It
// knows the sequences that Progress may use and fails on others; rows that scroll off are kept.
type terminal struct {
	t        *testing.T
	mu       sync.Mutex
	cols     int
	lines    [][]rune
	row, col int
	writes   int
}

func newTerminal(t *testing.T, cols int) *terminal {
	return &terminal{t: t, cols: cols, lines: [][]rune{nil}}
}

func (s *terminal) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	text := string(b)
	for text != "" {
		if strings.HasPrefix(text, "\x1b[") {
			text = text[s.sequence(text):]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		s.put(r)
	}
	return len(b), nil
}

// sequence executes the escape sequence that text begins with and gives its length.
func (s *terminal) sequence(text string) int {
	end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' }) + 2
	arg := 0
	fmt.Sscanf(text[2:end], "%d", &arg)
	switch text[end] {
	case 'A':
		if s.row -= arg; s.row < 0 {
			s.t.Errorf("the cursor left the screen by %d rows", -s.row)
			s.row = 0
		}
	case 'K':
		s.cut()
	case 'J':
		s.cut()
		s.lines = s.lines[:s.row+1]
	case 'm':
	default:
		s.t.Errorf("unknown sequence %q", text[:end+1])
	}
	return end + 1
}

func (s *terminal) cut() {
	if s.col < len(s.lines[s.row]) {
		s.lines[s.row] = s.lines[s.row][:s.col]
	}
}

func (s *terminal) put(r rune) {
	switch r {
	case '\r':
		s.col = 0
		return
	case '\n':
		s.col = 0
		s.down()
		return
	}
	if s.col == s.cols {
		s.col = 0
		s.down()
	}
	line := s.lines[s.row]
	for len(line) <= s.col {
		line = append(line, ' ')
	}
	line[s.col] = r
	s.lines[s.row] = line
	s.col++
}

func (s *terminal) down() {
	s.row++
	if s.row == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
}

// resize wraps every line at the new width, as terminals do; the cursor stays with its text.
func (s *terminal) resize(cols int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines [][]rune
	for i, line := range s.lines {
		for len(line) > cols {
			lines = append(lines, line[:cols:cols])
			line = line[cols:]
		}
		lines = append(lines, line)
		if i == s.row {
			s.row, s.col = len(lines)-1, len(line)
		}
	}
	s.lines, s.cols = lines, cols
}

func (s *terminal) width() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cols
}

func (s *terminal) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for i, line := range s.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight(string(line), " "))
	}
	return b.String()
}
