package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/cmd/internal/report"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// forGitHub reports whether the output goes to the log of a GitHub workflow.
func (c *cli) forGitHub() bool {
	return c.Output == "github" || c.Output == "auto" && os.Getenv("GITHUB_ACTIONS") == "true"
}

// reports reports whether compiler messages must be collected for a machine-readable report.
func (c *cli) reports() bool { return c.SARIF != "" || c.JUnit != "" || c.forGitHub() }

// annotate writes diagnostics as GitHub annotations.
func (c *cli) annotate(diags manifest.Diagnostics) {
	if !c.forGitHub() {
		return
	}
	root, err := filepath.Abs(c.Dir)
	if err != nil {
		return
	}
	for _, d := range diags {
		a := report.Annotation{Severity: "notice", File: d.Pos.File, Line: d.Pos.Line, Column: d.Pos.Column, Title: "kbuild", Text: d.Summary}
		if d.Severity != manifest.Note {
			a.Severity = d.Severity.String()
		}
		if d.Detail != "" {
			a.Text += "\n" + d.Detail
		}
		io.WriteString(c.err, a.Command(root, os.Getenv("GITHUB_WORKSPACE")))
	}
}

// writeReports writes the requested reports, for failed builds too.
func (c *cli) writeReports() error {
	if c.reported == nil {
		return nil
	}
	if c.forGitHub() {
		c.err.Write(c.reported.GitHub(os.Getenv("GITHUB_WORKSPACE")))
	}
	var errs []error
	for _, f := range []struct {
		name string
		text func() ([]byte, error)
	}{{c.SARIF, c.reported.SARIF}, {c.JUnit, c.reported.JUnit}} {
		if f.name == "" {
			continue
		}
		text, err := f.text()
		if err == nil {
			err = term.ReplaceFile(f.name, text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("writing %s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}
