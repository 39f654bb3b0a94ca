// Package discover finds what a command read besides its declared inputs, and which absent paths it
// probed. Its sources are dependency files, the folders that compilers search, the output of
// linkers, and the text of sources. It reports which parts of a record have changed since. It does
// not schedule commands: it starts a process only by Build.Query.
package discover

import (
	"context"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// Config holds the parts of the host environment and the build that discovery needs.
type Config struct {
	Tree
	Env    []string          // the environment of commands, for PATH
	KeyEnv []string          // the part of it that can change an output
	Tools  map[string]string // fingerprints of tools; a tool without one is not queried
}

// Build answers the queries of discovery about the build that it belongs to.
type Build interface {
	// Digest returns the digest of a file's content.
	Digest(file string) (cache.Digest, error)
	// IsOutput reports whether an action writes a file. IsIntermediate reports whether it does so
	// only for other actions.
	IsOutput(file string) bool
	IsIntermediate(file string) bool
	// Query runs a query in the working directory of a's command and with its environment. quiet
	// drops its standard output. ok is exit status 0: a failing compiler's output may be an answer
	// as well.
	Query(ctx context.Context, a *graph.Action, argv []string, quiet bool) (printed string, ok bool)
}

// Discovery finds and checks what commands read. All methods may be called concurrently.
type Discovery struct {
	Config
	*arguments
	sources *sources
	drivers *drivers
	links   linkInputs
	loader  *loader
}

// New returns a Discovery. It remembers what it learns of system files and of compilers.
func New(c Config) *Discovery {
	return &Discovery{
		Config:    c,
		arguments: &arguments{tree: c.Tree, env: c.Env, keyEnv: c.KeyEnv},
		sources:   &sources{tree: c.Tree},
		drivers:   &drivers{tree: c.Tree, tools: c.Tools, keyEnv: c.KeyEnv},
		links:     linkInputs{c.Tree, c.KeyEnv},
		loader:    &loader{build: c.Build},
	}
}

// Ran describes a command that has run.
type Ran struct {
	Action  *graph.Action
	Depfile string // dependency file that the command wrote
	Trace   string // the linker's output: see IsTraced
	Scratch string // a file that Discovery may write
	// Folders are the names of the command's folder for temporary files.
	Folders []string
	// Staged is the one of Folders that the command uses for staged files, as in/NAME.
	Staged string
	// Start is when the command started. A file that has changed since, by Files, was not read
	// with its present content.
	Start cache.Moment
	Files *cache.Files
}

// changed reports whether a file has changed since the command started, or may have.
func (r Ran) changed(file string, was cache.Digest) bool {
	return !r.Files.Unchanged(file, was, r.Start)
}

// isTemporary reports whether a file is in the command's folder for temporary files.
func (r Ran) isTemporary(file string) bool {
	return slices.ContainsFunc(r.Folders, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}
