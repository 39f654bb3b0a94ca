package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/migrate"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// from writes a manifest for the targets of another build tool. Lines that the planner rejects are
// removed first.
func (cmd initCmd) from(c *cli) error {
	root := ""
	if c.Dir != "." {
		root, _ = filepath.Abs(c.Dir)
	}
	found, err := migrate.Find(c.seen(cmd.From), root, func(text string) { c.say("kbuild: %s", text) })
	if err != nil {
		return usagef("%v", err)
	}
	file := filepath.Join(found.Root, c.manifestName())
	if filepath.IsAbs(c.manifestName()) {
		file = c.manifestName()
	}
	if _, err := os.Lstat(file); err == nil {
		return usagef("%s exists, and --from replaces none. Move it away, or name another with -f", file)
	}
	doc := found.Manifest()
	unplanned := c.refine(found, doc)
	if !doc.HasTargets() {
		c.listNotes(doc)
		return usagef("%s: nothing of it can be carried over", found.From)
	}
	err = regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.WriteString(doc.Text())
		return err
	})
	if err != nil {
		return err
	}
	c.listNotes(doc)
	if unplanned != nil {
		c.say("kbuild: warning: it could not be planned here, so it may have errors: %v", unplanned)
	}
	c.say("kbuild: wrote %s, of %s. Try: kbuild -C %s plan", file, found.From, found.Root)
	return nil
}

func (c *cli) listNotes(doc *migrate.Document) {
	for _, n := range doc.Notes {
		c.say("kbuild: not carried over: %s", n)
	}
}

// refine plans the manifest and removes rejected lines until a plan succeeds. The error is the
// reason why no plan was possible. A missing toolkit is such a reason: it proves nothing about the
// manifest.
func (c *cli) refine(found *migrate.Build, doc *migrate.Document) error {
	for {
		faults, err := c.tryPlan(found.Root, doc.Text())
		noToolkit := func(f migrate.Fault) bool { return strings.Contains(f.Text, "no CUDA toolkit was found") }
		switch {
		case len(faults) == 0:
			return err
		case slices.ContainsFunc(faults, noToolkit) && doc.UseCompiler(found.NVCC): // plan again
		case slices.ContainsFunc(faults, noToolkit) || !doc.Drop(faults):
			return errors.New(faults[0].Text)
		case !doc.HasTargets():
			return nil
		}
	}
}

// tryPlan plans a manifest that is not written to disk.
func (c *cli) tryPlan(root, text string) (faults []migrate.Fault, err error) {
	trial := *c
	trial.Dir, trial.File, trial.told = root, "", nil
	w := trial.workspace()
	w.Manifest.FS = withFile{regular.DirFS{Root: root, Most: manifest.MaxSource}, manifest.DefaultFile, []byte(text)}
	heard := &listener{cli: &trial}
	w.UI = heard
	if _, err = w.Plan(); !errors.Is(err, engine.ErrDiagnosed) {
		return nil, err
	}
	for _, d := range heard.diags {
		if d.Severity == manifest.Error {
			what := d.Summary
			if d.Detail != "" {
				what += ". " + d.Detail
			}
			faults = append(faults, migrate.Fault{Line: d.Pos.Line, Text: what})
		}
	}
	if len(faults) == 0 {
		err = fmt.Errorf("BUG: %w", err)
	}
	return faults, err
}

// listener collects the diagnostics of a plan and shows nothing.
type listener struct {
	*cli
	diags manifest.Diagnostics
}

func (l *listener) Enter()                          {}
func (l *listener) Say(string)                      {}
func (l *listener) Waiting(string)                  {}
func (l *listener) Note(string)                     {}
func (l *listener) Diagnose(d manifest.Diagnostics) { l.diags = append(l.diags, d...) }

// withFile overlays one in-memory file on a folder.
type withFile struct {
	regular.DirFS
	name string
	text []byte
}

// ReadFile implements fs.ReadFileFS.
func (w withFile) ReadFile(name string) ([]byte, error) {
	if name == w.name {
		return w.text, nil
	}
	return w.DirFS.ReadFile(name)
}

// Stat implements fs.StatFS.
func (w withFile) Stat(name string) (fs.FileInfo, error) {
	if name == w.name {
		return writtenFile{name, bytes.NewReader(w.text)}, nil
	}
	return w.DirFS.Stat(name)
}

// writtenFile is the FileInfo of the in-memory file.
type writtenFile struct {
	name string
	*bytes.Reader
}

func (f writtenFile) Name() string       { return f.name }
func (f writtenFile) Mode() fs.FileMode  { return 0o444 }
func (f writtenFile) ModTime() time.Time { return time.Time{} }
func (f writtenFile) IsDir() bool        { return false }
func (f writtenFile) Sys() any           { return nil }
