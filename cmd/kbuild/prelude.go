package main

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// Most runs of kbuild are plain ones, from an editor or a Makefile, and most of them find nothing to do. Setting up the parser
// of the command line takes as long as looking at a thousand files, so the plainest command lines are read by hand, for the
// quick way alone; whatever else they need starts with the parser.

// quickly tries the quick way for a plain command line.
func quickly(args []string, stdout, stderr io.Writer) (status int, done bool) {
	c, ok := plain(args)
	if !ok {
		return 0, false
	}
	c.out, c.err = stdout, stderr
	c.fromMake(os.Getenv("MAKEFLAGS"))
	q := c.openQuick(nil)
	if q == nil {
		return 0, false
	}
	done, err := q.build(c)
	return report(c, err), done
}

// plain reads -q, -j N and -C DIR, and nothing else. TestPlain holds it to what the parser makes of them.
func plain(args []string) (*cli, bool) {
	c := &cli{Dir: ".", Progress: "auto", Color: "auto", CacheDir: os.Getenv("KBUILD_CACHE_DIR")}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-q":
			c.Quiet = true
		case strings.HasPrefix(a, "-j"), strings.HasPrefix(a, "-C"):
			value := a[2:]
			if value == "" {
				if i++; i == len(args) {
					return nil, false
				}
				value = args[i]
			}
			if value == "" || strings.ContainsAny(value[:1], "-=") {
				return nil, false
			}
			if a[1] == 'C' {
				c.Dir = value
				continue
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, false
			}
			c.Jobs = n
		default:
			return nil, false
		}
	}
	return c, true
}
