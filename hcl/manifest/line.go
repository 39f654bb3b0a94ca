package manifest

import (
	"bytes"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// lines finds the lines of a text: a diagnostic shows its line, and there can be as many diagnostics as lines.
type lines struct {
	text   []byte
	starts []int
}

func newLines(text []byte) *lines {
	l := &lines{text: text, starts: []int{0}}
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return l
		}
		at += n + 1
		l.starts = append(l.starts, at)
	}
}

// at gives line n, counted from 1, without its newline; "" for one that is too long to be shown.
func (l *lines) at(n int) string {
	if n < 1 || n > len(l.starts) {
		return ""
	}
	line, _, _ := bytes.Cut(l.text[l.starts[n-1]:], []byte("\n"))
	if len(line) > tooLong {
		return ""
	}
	return string(bytes.TrimSuffix(line, []byte("\r")))
}

// line gives a line of a manifest.
func (p *Project) line(file string, n int) string {
	if p.lines[file] == nil {
		text, ok := p.sources[file]
		if !ok {
			text, _ = regular.Read(filepath.Join(p.Root, filepath.FromSlash(file)))
		}
		if p.lines == nil {
			p.lines = map[string]*lines{}
		}
		p.lines[file] = newLines(text)
	}
	return p.lines[file].at(n)
}
