// Package discover finds what a command read besides its declared inputs, and what it looked for in
// vain: in dependency files, in the folders that compilers search, in what linkers tell, in the
// text of sources. It knows what of a record is not so any more. It refuses to know when anything
// runs: it starts no process but by Config.Ask, and asks its caller whether a file has changed
// since a command started.
package discover

import (
	"context"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Config is what discovery needs of the world.
type Config struct {
	Tree
	Env          []string               // the environment of commands, for PATH
	KeyEnv       []string               // the part of it that can change an output
	Tools        map[string]string      // identities of tools; one without is not asked
	Plain        map[string]bool        // of those, host compilers that take options from their commands alone: see plan.Tool
	Made         func(file string) bool // reports a file that an action writes
	Intermediate func(file string) bool // reports a file that an action writes for others only
	Ask          Ask
}

// Ask runs a question where the command of a runs, and with its environment. quiet drops its
// standard output. ok is exit status 0: what a compiler says that fails may be an answer as well.
type Ask func(ctx context.Context, a *graph.Action, argv []string, quiet bool) (said string, ok bool)

// Discovery finds and checks what commands read. All methods may be called concurrently.
type Discovery struct {
	Config
	*arguments
	sources *sources
	drivers *drivers
	links   linkInputs
	loader  *loader
}

// New makes a Discovery. What it learns of files of the system and of compilers it remembers.
func New(c Config) *Discovery {
	return &Discovery{
		Config:    c,
		arguments: &arguments{tree: c.Tree, env: c.Env, keyEnv: c.KeyEnv, made: c.Made},
		sources:   &sources{tree: c.Tree},
		drivers:   &drivers{tree: c.Tree, tools: c.Tools, keyEnv: c.KeyEnv, ask: c.Ask},
		links:     linkInputs{c.Tree, c.KeyEnv},
		loader:    &loader{digestOf: c.Digest},
	}
}

// Ran is a command that has run.
type Ran struct {
	Action  *graph.Action
	Depfile string                                   // that it wrote
	Trace   string                                   // the file with what the linker told: see IsTraced
	Scratch string                                   // a file that Discovery may write
	Folders []string                                 // the names of its folder for temporary files
	Staged  string                                   // of these, the one by which it reads what was put there, as in/NAME
	Changed func(file string, was cache.Digest) bool // since it started, or perhaps
}

// isTemporary reports a file of the command's own.
func (r Ran) isTemporary(file string) bool {
	return slices.ContainsFunc(r.Folders, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}
