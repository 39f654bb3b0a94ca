package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cmd/internal/scaffold"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

type initCmd struct {
	Force bool   `help:"Replace an existing kernels.hcl."`
	From  string `placeholder:"DIR" help:"Write it for what another build tool builds: DIR is a build tree of CMake, or has a compile_commands.json, or is one. Never replaces a kernels.hcl."`
}

// Run writes a manifest for the sources found: one executable per file with a main, and libraries
// of the sources that they share. Lines that the planner rejects are removed first.
func (cmd initCmd) Run(c *cli) error {
	if cmd.From != "" {
		return cmd.from(c)
	}
	file := filepath.Join(c.Dir, c.manifestName())
	if _, err := os.Lstat(file); err == nil && !cmd.Force {
		return usagef("%s exists; --force replaces it", file)
	}
	tree, err := scaffold.Find(c.Dir, searched())
	if err != nil {
		return err
	}
	draft := tree.Draft()
	if !draft.HasTargets() && len(draft.LeftOut) == 0 {
		return usagef("no .cu, .hip, .c, .cc, .cpp or .cxx file below %s", c.Dir)
	}
	unplanned, err := c.plannable(draft)
	if err != nil {
		return err
	}
	for i, n := range draft.LeftOut {
		if i == 10 {
			c.say("kbuild: left out: and %d more, at the end of the manifest", len(draft.LeftOut)-i)
			break
		}
		c.say("kbuild: left out: %s", n)
	}
	if !draft.HasTargets() {
		return usagef("nothing below %s can be built, so no manifest is written", c.Dir)
	}
	err = regular.ReplaceFrom(file, func(f *os.File) error {
		_, err := f.WriteString(draft.Text())
		return err
	})
	if err != nil {
		return err
	}
	if unplanned != "" {
		c.say("kbuild: warning: it could not be planned here, so it may have errors: %s", unplanned)
	}
	libraries := fmt.Sprintf("%d libraries", draft.Libraries)
	if draft.Libraries == 1 {
		libraries = "1 library"
	}
	c.say("kbuild: wrote %s: %s, %s. Try: kbuild plan", file, graph.Count(draft.Programs, "program"), libraries)
	return nil
}

// plannable plans the draft and removes rejected lines until a plan succeeds. If this machine lacks
// the toolkit, the draft cannot be checked; unplanned is the reason.
func (c *cli) plannable(draft *scaffold.Draft) (unplanned string, err error) {
	root, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", err
	}
	for draft.HasTargets() {
		found, err := c.tryPlan(root, draft.Text())
		if len(found) == 0 {
			return "", err
		}
		var faults []scaffold.Fault
		for _, f := range found {
			if strings.Contains(f.Text, "no CUDA toolkit was found") || !draft.HasCUDA() && strings.Contains(f.Text, "no HIP compiler was found") {
				return f.Text, nil
			}
			faults = append(faults, scaffold.Fault{Line: f.Line, Text: f.Text})
		}
		if !draft.Drop(faults) {
			return "", usagef("no manifest is written, since it could not be planned: %s", faults[0].Text)
		}
	}
	return "", nil
}

// searched returns the search paths, version and architectures of the local toolkit. Fields that
// cannot be queried stay empty.
func searched() (m scaffold.Machine) {
	ctx := context.Background()
	facts, err := probe.Collect(ctx, probe.Request{NeedCUDA: true, Env: os.Getenv})
	if err != nil || facts.CUDA == nil {
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
	m.Version = facts.CUDA.Version
	for _, a := range facts.CUDA.Archs {
		m.Archs = append(m.Archs, a.String())
	}
	return m
}
