package engine

import (
	"os"
	"path/filepath"
	"strings"
)

// links are the ends of symbolic links, by their real paths; "" of what is none. Paths that a build
// has looked at share most of their folders.
type links map[string]string

// mostLinks is how many links the kernel follows in one path.
const mostLinks = 40

// real is the path of what p, which is absolute, leads to as the kernel goes: a ".." behind a link
// leads to the folder above its end. What is not there has no links. on is told the real path of
// each link on the way; it may be nil.
func (l links) real(p string, on func(link string)) string {
	at, followed := "/", 0
	for rest := strings.Split(p, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		end := l.end(next)
		if end == "" || followed == mostLinks {
			at = next
			continue
		}
		followed++
		if on != nil {
			on(next)
		}
		if filepath.IsAbs(end) {
			at = "/"
		}
		rest = append(strings.Split(end, "/"), rest...)
	}
	return at
}

// end is what a link says, "" of what is none.
func (l links) end(p string) string {
	end, known := l[p]
	if !known {
		end, _ = os.Readlink(p)
		l[p] = end
	}
	return end
}
