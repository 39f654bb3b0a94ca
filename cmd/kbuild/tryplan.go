package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/importer"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// refine plans the manifest and removes rejected lines until a plan succeeds. The error is the
// reason why no plan was possible. A missing compiler is such a reason: it proves nothing about the
// manifest. nvcc is the compiler of the other build; "" if there is none.
func (c *cli) refine(root, nvcc string, doc *importer.Document) error {
	for doc.HasTargets() {
		faults, err := c.tryPlan(root, doc.Text())
		missing := slices.IndexFunc(faults, func(f importer.Fault) bool {
			return strings.Contains(f.Text, "no CUDA toolkit was found") ||
				!doc.HasCUDA() && strings.Contains(f.Text, "no HIP compiler was found")
		})
		switch {
		case len(faults) == 0:
			return err
		case missing >= 0 && doc.UseCompiler(nvcc): // plan again
		case missing >= 0:
			return errors.New(faults[missing].Text)
		case !doc.Drop(faults):
			return errors.New(faults[0].Text)
		}
	}
	return nil
}

// tryPlan plans a manifest that is not written to disk.
func (c *cli) tryPlan(root, text string) (faults []importer.Fault, err error) {
	trial := *c
	trial.Dir, trial.File, trial.told = root, "", nil
	w := trial.workspace()
	w.Manifest.Source = []byte(text)
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
			faults = append(faults, importer.Fault{Line: d.Pos.Line, Text: what})
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
