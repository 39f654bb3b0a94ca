package graph

import "strings"

// Collect describes a command with dynamic outputs. The outputs of its action are their list and
// their pack (fileset.ListAndPack).
type Collect struct {
	Dir string // the folder of the files, which contains nothing else

	// Relative to Dir: each file matches a pattern, and each pattern matches a file.
	Patterns []string
}

// WriteKey adds the folder and the patterns.
func (c *Collect) WriteKey(w KeyWriter) {
	if c != nil {
		w.Field("folder", c.Dir)
		w.Field("patterns", strings.Join(c.Patterns, "\n"))
	}
}
