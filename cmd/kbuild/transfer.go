package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/execute"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
)

type cacheExportCmd struct {
	File    string   `arg:"" help:"The bundle to write; - is standard output."`
	Targets []string `arg:"" optional:"" help:"Targets (default: what kbuild would build)."`
}

// Run exports the cache entries of the targets. The targets must be built.
func (cmd cacheExportCmd) Run(c *cli) error {
	if c.NoCache {
		return usagef("--no-cache: there is nothing to export")
	}
	if c.JSON && cmd.File == "-" {
		return usagef("cache export - writes the bundle to standard output; leave --json out, or name a file")
	}
	w := c.workspace()
	w.DryRun = true
	p, t, want, err := w.Open(cmd.Targets)
	if err != nil {
		return err
	}
	defer t.Close()
	t.Runner.Warn = func(text string) { c.say("kbuild: warning: %s", text) }
	ctx := context.Background()
	m, missing := p.Bundle(execute.NewDryRun(t.Runner).Entries(ctx, p.Graph.Closure(want)))
	if len(m.Entries) == 0 {
		return exitError{exitRequirement, errors.New("the cache has nothing of these targets; build them first")}
	}
	if c.DryRun {
		return sayExported(c, cmd.File, m.Counted())
	}
	if m, err = writeBundle(ctx, cmd.File, c, t.Store, m); err != nil {
		return err
	}
	if len(missing) > 0 {
		c.say("kbuild: warning: the bundle lacks %s, which the cache does not have: %s of %s is the first; build before you export "+
			"(what spells __DATE__ or __TIME__, or was not compiled again after an edit of comments, is not in the cache)", graph.Count(len(missing), "action"), missing[0].Name, missing[0].Target)
	}
	if cmd.File != "-" {
		return sayExported(c, cmd.File, m)
	}
	return nil
}

// exportedEvent reports the bundle that was written, or that would be written with -n.
type exportedEvent struct {
	Event   string   `json:"event"`
	File    string   `json:"file"`
	Targets []string `json:"targets"`
	Archs   []string `json:"archs"`
	Records int      `json:"records"`
	Blobs   int      `json:"blobs"`
	Bytes   int64    `json:"bytes"`
	DryRun  bool     `json:"dry_run,omitempty"`
}

// sayExported reports a bundle.
func sayExported(c *cli, file string, m disk.Manifest) error {
	return c.print(exportedEvent{"exported", file, m.Targets, m.Archs, m.Records, m.Blobs, m.Bytes,
		c.DryRun}, "%s\n", describe(m))
}

func describe(m disk.Manifest) string {
	return fmt.Sprintf("%s and %s, %s, of %s for %s", graph.Count(m.Records, "record"),
		graph.Count(m.Blobs, "blob"), engine.Size(m.Bytes), term.Name(strings.Join(m.Targets, " ")), term.Name(strings.Join(m.Archs, " ")))
}

// writeBundle writes to standard output, or to a file that appears only when it is complete.
// It returns the manifest of what it wrote.
func writeBundle(ctx context.Context, name string, c *cli, store *disk.Store, m disk.Manifest) (disk.Manifest, error) {
	if name == "-" {
		return store.Export(ctx, c.out.Raw(), m)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // keep a device or pipe
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails without a reader
		if err != nil {
			return m, err
		}
		m, err = store.Export(ctx, f, m)
		return m, errors.Join(err, f.Close())
	}
	err := regular.ReplaceFrom(name, func(f *os.File) (err error) {
		m, err = store.Export(ctx, f, m)
		return err
	})
	if err != nil {
		return m, fmt.Errorf("writing %s: %w", name, err)
	}
	return m, nil
}

type cacheImportCmd struct {
	File  string `arg:"" help:"A bundle that kbuild cache export wrote; - is standard input."`
	Force bool   `help:"Import it even if its tools differ from those of this machine."`
}

// openImport opens a bundle. A shell's <(command) is a pipe with a known writer. Opening any other
// pipe might block forever, so it is refused.
func openImport(name string) (*os.File, error) {
	if strings.HasPrefix(name, "/dev/fd/") {
		return os.Open(name)
	}
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if errors.Is(err, regular.ErrKind) {
		return nil, fmt.Errorf("%w; kbuild cache import - reads standard input", err)
	}
	return f, err
}

var errEnough = errors.New("only looked at")

// Run adds a bundle to the cache if it fits this project and machine.
func (cmd cacheImportCmd) Run(c *cli) error {
	in := io.Reader(os.Stdin)
	if cmd.File != "-" {
		f, err := openImport(cmd.File)
		if err != nil {
			return exitError{exitUsage, err}
		}
		defer f.Close()
		in = f
	}
	store, err := c.store()
	if err != nil {
		return err
	}
	res, err := store.Import(context.Background(), in, func(m disk.Manifest) error {
		if err := accept(c, m, cmd.Force); err != nil || !c.DryRun {
			return err
		}
		fmt.Fprintln(c.out, describe(m))
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.print(res, "%s and %s, %s, were new\n", graph.Count(res.Records, "record"),
		graph.Count(res.Blobs, "blob"), engine.Size(res.Bytes))
}

// accept compares a bundle's fields with those of the local project. An error ends the import.
func accept(c *cli, m disk.Manifest, force bool) error {
	c.locate()
	if _, err := os.Stat(filepath.Join(c.Dir, c.manifestName())); err != nil {
		c.say("kbuild: warning: there is no %s here, so nothing says whether the bundle fits", c.manifestName())
		return nil
	}
	p, err := c.workspace().Plan()
	if err != nil {
		return err
	}
	fields, lacking, err := p.Compare(m)
	if err != nil {
		return err
	}
	var differ []string
	for _, f := range fields {
		differ = append(differ, fmt.Sprintf("%s: %s in the bundle, %s here", term.Name(f.Name), shorten(f.Bundle), shorten(f.Here)))
	}
	if len(differ) > 0 && !force {
		return exitError{exitRequirement, fmt.Errorf("nothing was imported: the bundle was made with other tools or settings (--force imports it all the same)\n  %s", strings.Join(differ, "\n  "))}
	}
	for _, d := range differ {
		c.say("kbuild: warning: %s", d)
	}
	for _, a := range lacking {
		c.say("kbuild: warning: the bundle has nothing for %s", a)
	}
	return nil
}

// shorten abbreviates digests to a prefix that a reader can compare.
func shorten(value string) string {
	words := strings.Fields(value)
	for i, w := range words {
		if _, err := cache.ParseDigest(w); err == nil {
			words[i] = "(" + w[:12] + ")"
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
