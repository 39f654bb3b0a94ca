package engine

import (
	"os"
	"path/filepath"
	"strings"
)

// links caches where symbolic links lead to, by their real paths; "" for a path that is not a link.
// Paths that a build has observed share most of their folders.
type links map[string]string

// mostLinks is how many links the kernel follows in one path.
const mostLinks = 40

// real resolves p, which is absolute, as the kernel does: a ".." behind a link is the folder above
// the link's target. A missing path has no links. If on is not nil, it is called with the real path
// of each link on the way.
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

// end returns where a link leads to, or "" for a path that is not a link.
func (l links) end(p string) string {
	end, known := l[p]
	if !known {
		end, _ = os.Readlink(p)
		l[p] = end
	}
	return end
}
