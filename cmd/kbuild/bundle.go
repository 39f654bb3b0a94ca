package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/actions/build"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
)

// identity is what keys hold besides the project, tools by the names that actions have for them: where any of it differs, no
// entry fits.
func (s *session) identity() []cache.Field {
	tools := s.tools()
	fields := []cache.Field{
		{Name: "key version", Value: cache.KeyVersion + "." + build.Method},
		{Name: "platform", Value: runtime.GOOS + "/" + runtime.GOARCH},
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		fields = append(fields, cache.Field{Name: name, Value: strings.TrimSpace(tools[name].Version + " " + tools[name].ID)})
	}
	env := run.KeyEnviron(run.Environ(os.Environ(), nil))
	return append(fields, cache.Field{Name: "environment", Value: strings.Join(env, " ")})
}

// always are the fields that every bundle has; tools are those that its actions use.
var always = [...]string{"key version", "platform", "environment"}

// unlike lists the fields of a bundle that differ here.
func unlike(bundle, here []cache.Field) []string {
	values := map[string]string{}
	for _, f := range here {
		values[f.Name] = f.Value
	}
	var out []string
	for _, f := range bundle {
		if is := values[f.Name]; is != f.Value {
			out = append(out, fmt.Sprintf("%s: %s in the bundle, %s here", term.Name(f.Name), shorten(f.Value), shorten(is)))
		}
	}
	return out
}

// shorten cuts digests to what a reader compares.
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

type cacheExportCmd struct {
	File    string   `arg:"" help:"The bundle to write; - is standard output."`
	Targets []string `arg:"" optional:"" help:"Targets (default: what kbuild would build)."`
}

// Run writes what the cache has of the targets. They must be built.
func (cmd cacheExportCmd) Run(c *cli) error {
	if c.NoCache {
		return usagef("--no-cache: there is nothing to export")
	}
	dry := c.DryRun
	c.DryRun = true
	s, want, t, err := c.opened(cmd.Targets)
	if err != nil {
		return err
	}
	defer t.close()
	t.runner.Warn = func(text string) { c.say("kbuild: warning: %s", text) }
	ctx := context.Background()
	m, missing := s.manifest(t.runner.Held(ctx, s.graph.Closure(want)))
	if len(m.Entries) == 0 {
		return exitError{exitRequirement, errors.New("the cache has nothing of these targets; build them first")}
	}
	if dry {
		fmt.Fprintln(c.out, describe(m.Counted()))
		return nil
	}
	err = writeBundle(cmd.File, c, func(w io.Writer) error {
		m, err = t.store.Export(ctx, w, m)
		return err
	})
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		c.say("kbuild: warning: %s", lacking(missing))
	}
	if cmd.File != "-" {
		fmt.Fprintln(c.out, describe(m))
	}
	return nil
}

func describe(m disk.Manifest) string {
	return fmt.Sprintf("%d records and %d blobs, %s, of %s for %s", m.Records, m.Blobs, size(m.Bytes), term.Name(strings.Join(m.Targets, " ")), term.Name(strings.Join(m.Archs, " ")))
}

// manifest describes a bundle of what the cache holds.
func (s *session) manifest(held []build.Held) (m disk.Manifest, missing []*graph.Action) {
	tools := map[string]bool{}
	for _, name := range always {
		tools[name] = true
	}
	for _, h := range held {
		for _, t := range h.Action.Tools {
			tools[t] = true
		}
		m.Archs = append(m.Archs, shipped(h.Action)...)
		m.Targets = append(m.Targets, h.Action.Target)
		if h.Record == nil {
			missing = append(missing, h.Action)
			continue
		}
		m.Entries = append(m.Entries, disk.Entry(h.Action.Outputs[0], h.Record))
	}
	m.Identity = slices.DeleteFunc(s.identity(), func(f cache.Field) bool { return !tools[f.Name] })
	m.Archs, m.Targets = sortedSet(m.Archs), sortedSet(m.Targets)
	return m, missing
}

// shipped are the codes of what an action makes for others than the next pass.
func shipped(a *graph.Action) []string {
	if a.Part {
		return nil
	}
	return a.Archs
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func lacking(missing []*graph.Action) string {
	a := missing[0]
	return fmt.Sprintf("the bundle lacks %d actions, which the cache does not have: %s of %s is the first; build before you export (what spells __DATE__ or __TIME__ is never in the cache)", len(missing), a.Name, a.Target)
}

// writeBundle writes to standard output, or to a file that appears when it is whole.
func writeBundle(name string, c *cli, write func(io.Writer) error) error {
	if name == "-" {
		return write(c.rawOut())
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // a device or a pipe, not to be replaced
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0) // of a pipe that nobody reads it is an error
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if err := writeFrom(name, write); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

type cacheImportCmd struct {
	File  string `arg:"" help:"A bundle that kbuild cache export wrote; - is standard input."`
	Force bool   `help:"Import it though its tools are others than here."`
}

// openImport opens a bundle. A shell's <(command) is a pipe that somebody writes to; of any other nobody knows that.
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

// Run adds a bundle to the cache, if it fits this project and machine.
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
		if err := c.accept(m, cmd.Force); err != nil || !c.DryRun {
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
	if c.JSON {
		return json.NewEncoder(c.out).Encode(res)
	}
	fmt.Fprintf(c.out, "%d records and %d blobs, %s, were new\n", res.Records, res.Blobs, size(res.Bytes))
	return nil
}

// accept compares a bundle with the project here, field by field. An error ends the import.
func (c *cli) accept(m disk.Manifest, force bool) error {
	if _, err := os.Stat(filepath.Join(c.Dir, c.manifestName())); err != nil {
		c.say("kbuild: warning: there is no %s here, so nothing says whether the bundle fits", c.manifestName())
		return nil
	}
	s, err := c.plan()
	if err != nil {
		return err
	}
	for _, name := range always {
		if !slices.ContainsFunc(m.Identity, func(f cache.Field) bool { return f.Name == name }) {
			return fmt.Errorf("the manifest of the bundle is damaged: it does not name its %s", name)
		}
	}
	differ := unlike(m.Identity, s.identity())
	if len(differ) > 0 && !force {
		return exitError{exitRequirement, fmt.Errorf("nothing was imported: the bundle was made for something else (--force takes it all the same)\n  %s", strings.Join(differ, "\n  "))}
	}
	for _, d := range differ {
		c.say("kbuild: warning: %s", d)
	}
	var archs []string
	for _, a := range s.graph.Actions {
		archs = append(archs, shipped(a)...)
	}
	for _, a := range sortedSet(archs) {
		if !slices.Contains(m.Archs, a) {
			c.say("kbuild: warning: the bundle has nothing for %s", a)
		}
	}
	return nil
}

// imported finds records of the bundles that were imported, by the first output of an action; nil where there is none.
func (t *tree) imported() func(output string) *cache.Record {
	if t.store == nil {
		return func(string) *cache.Record { return nil }
	}
	names := t.store.Imported()
	return func(output string) *cache.Record {
		if names[output] == "" {
			return nil
		}
		r, err := t.store.Named(names[output])
		if err != nil {
			return nil // gc took it
		}
		return r
	}
}
