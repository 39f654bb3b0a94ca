package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/importer"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type initCmd struct {
	Force   bool   `help:"Replace an existing kernels.hcl."`
	From    string `placeholder:"DIR" help:"Write it for what another build tool builds: DIR is a build tree of CMake, or has a compile_commands.json, or is one. Never replaces a kernels.hcl."`
	Sources bool   `help:"Read the sources alone: run neither cmake nor make."`
}

// Run writes a manifest for a folder, or for what another build tool builds. Lines that the planner
// rejects are removed first.
func (cmd initCmd) Run(c *cli) error {
	if cmd.From != "" && cmd.Sources {
		return usagef("--from and --sources exclude each other")
	}
	b, err := cmd.read(c)
	if err != nil {
		return err
	}
	file := c.manifestName()
	if !filepath.IsAbs(file) {
		file = filepath.Join(b.Root, file)
	}
	if _, err := os.Lstat(file); err == nil && cmd.From != "" {
		return usagef("%s exists, and --from replaces none. Move it away, or name another with -f", file)
	}
	doc := b.Manifest()
	unplanned := c.refine(b.Root, b.NVCC, doc)
	lost, _, _ := strings.Cut(strings.ToLower(doc.Lost), ",")
	for i, n := range doc.Notes {
		if i == 30 && doc.HasTargets() {
			c.say("kbuild: and %d more, at the end of the manifest", len(doc.Notes)-i)
			break
		}
		c.say("kbuild: %s: %s", lost, n)
	}
	if !doc.HasTargets() {
		return usagef("nothing in %s can be built, so no manifest is written", b.Root)
	}
	err = regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.WriteString(doc.Text())
		return err
	})
	if err != nil {
		return err
	}
	if unplanned != nil {
		c.say("kbuild: warning: it could not be planned here, so it may have errors: %v", unplanned)
	}
	libraries := graph.Count(doc.Count("library"), "library")
	plan := "kbuild plan"
	if cmd.From != "" {
		plan = "kbuild -C " + b.Root + " plan"
	}
	programs := graph.Count(doc.Count("executable"), "program")
	c.say("kbuild: wrote %s, from %s: %s, %s. Try: %s", file, b.From, programs, libraries, plan)
	return nil
}

// read reads the project or the other build.
func (cmd initCmd) read(c *cli) (*importer.Build, error) {
	if cmd.From != "" {
		root := ""
		if c.Dir != "." {
			root, _ = filepath.Abs(c.Dir)
		}
		b, err := importer.Find(c.seen(cmd.From), root, c)
		if err != nil {
			return nil, usagef("%v", err)
		}
		return b, nil
	}
	file := c.manifestName()
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.Dir, file)
	}
	if _, err := os.Lstat(file); err == nil && !cmd.Force {
		return nil, usagef("%s exists; --force replaces it", file)
	}
	var b *importer.Build
	var err error
	if cmd.Sources {
		b, err = importer.ReadSources(c.Dir, searched())
	} else {
		b, err = importer.Read(c.Dir, searched(), c)
	}
	if err != nil {
		return nil, usagef("%v", err)
	}
	return b, nil
}

// searched returns the search paths and compilers of the local toolkit. Fields that cannot be
// queried stay empty.
func searched() (m importer.Machine) {
	ctx := context.Background()
	r := probe.Request{Env: os.Getenv}
	r.Need("cuda")
	facts, _, err := probe.Collect(ctx, r)
	if err != nil || facts.CUDA.Toolkit == nil {
		return m
	}
	compiler := facts.CUDA.HostCXX.Path
	if compiler == "" {
		compiler = facts.CXX.Path
	}
	ask := func(argv []string) string {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		text, _ := cmd.CombinedOutput()
		return string(text)
	}
	search, ok := host.ParseSearch(ask(host.AskSearch([]string{compiler}, nil, "c++")))
	folders, known := host.ParseFolders(ask(host.AskFolders([]string{compiler})))
	if !ok || !known {
		return m
	}
	own := filepath.Join(facts.CUDA.Root, "include")
	m.Includes = slices.Concat(search.Dirs, facts.CUDA.Includes, []string{own, filepath.Join(own, "cccl")})
	m.LibDirs = slices.Concat(folders.Libraries, facts.CUDA.LibDirs)
	m.NVCC, m.HostCXX = facts.CUDA.NVCC.Path, compiler
	return m
}

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
