package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// session is a planned project.
type session struct {
	cli     *cli
	project *manifest.Project
	facts   plan.Facts
	graph   *graph.Graph
	steps   *probe.Steps

	listFile string // the list of outputs, see outputlist.go
	listText []byte
}

// tools are what actions run, by the names that they have for them.
func (s *session) tools() map[string]plan.Tool {
	tools := map[string]plan.Tool{"cxx": s.facts.CXX, "cc": s.facts.CC, "ar": s.facts.AR, "lto-ar": s.facts.HostLTO.AR}
	if s.facts.CUDA != nil {
		tools["nvcc"] = s.facts.CUDA.NVCC
		if s.facts.CUDA.Clang != nil {
			tools["clang"] = s.facts.CUDA.Clang.Driver
		}
	}
	if s.facts.HIP != nil {
		tools["hip"] = s.facts.HIP.Driver
	}
	if s.facts.NativeCPU != "" {
		tools[plan.NativeTool] = plan.Tool{ID: s.facts.NativeCPU}
	}
	return tools
}

const manifestFile = "kernels.hcl"

func (c *cli) manifestName() string {
	if c.File == "" {
		return manifestFile
	}
	return c.File
}

func (c *cli) options() manifest.Options {
	return manifest.Options{Dir: c.Dir, File: c.File, Vars: c.Var, Profile: c.Profile, Arch: c.Arch,
		Env: os.LookupEnv, Environ: os.Environ(), BuildDir: c.BuildDir, Version: version}
}

// load reads and evaluates the manifest. Diagnostics are printed; an error is only a status.
func (c *cli) load() (*manifest.Project, error) {
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return nil, usagef("-C %s: there is no such folder", c.Dir)
	}
	if err := c.writeOutEnv(); err != nil {
		return nil, err
	}
	p, diags := manifest.Load(c.options())
	c.diagnose(diags)
	if diags.HasErrors() {
		return nil, exitError{status: exitUsage}
	}
	return p, checkBuildDir(p)
}

// plan loads the project, looks at the world and plans.
func (c *cli) plan() (*session, error) {
	c.said.Reset()
	p, err := c.load()
	if err != nil {
		return nil, err
	}
	s := &session{cli: c, project: p}
	if s.facts, err = probe.Collect(context.Background(), c.request(p)); err != nil {
		return nil, err
	}
	made, err := s.make()
	if err != nil {
		return nil, err
	}
	c.diagnose(diagnostics(p, made.Problems))
	if made.Graph == nil {
		return nil, exitError{status: exitUsage}
	}
	s.graph = made.Graph
	return s, nil
}

// make plans, and asks nvcc, hipcc and clang for their steps as long as the plan wants to know some.
func (s *session) make() (plan.Plan, error) {
	env := run.Environ(os.Environ(), nil)
	steps := probe.OpenSteps(s.cli.toolMemo(s.project), s.facts, env, run.KeyEnviron(env))
	s.distrust(steps)
	s.facts.DryRuns, s.steps = steps.Runs, steps
	for {
		made := plan.New(s.project, s.facts, plan.Options{NoSplit: s.cli.NoSplit, CheckLink: s.cli.checkLink})
		if len(made.Questions) == 0 {
			return made, nil
		}
		if err := steps.Ask(context.Background(), made.Questions); err != nil {
			return made, err
		}
	}
}

func (s *session) request() probe.Request { return s.cli.request(s.project) }

// request says what the planner will ask about the world.
func (c *cli) request(p *manifest.Project) probe.Request {
	r := probe.Request{Root: p.Root, Env: os.Getenv, MemoPath: c.toolMemo(p)}
	r.NativeCPU = toolchain.NativeCPU([]string{os.Getenv("NVCC_PREPEND_FLAGS"), os.Getenv("NVCC_APPEND_FLAGS")})
	if tc, ok := p.Toolchains["cuda"]; ok {
		r.Compiler, r.HostCompiler, r.Version = tc.Compiler, tc.HostCompiler, tc.Version
		if want, err := manifest.ParseConstraint(tc.Version); err == nil && tc.Version != "" {
			r.Accepts = want.Allows
		}
	}
	if tc, ok := p.Toolchains["hip"]; ok {
		r.HIPCompiler, r.HIPVersion = tc.Compiler, tc.Version
		if want, err := manifest.ParseConstraint(tc.Version); err == nil && tc.Version != "" {
			r.HIPAccepts = want.Allows
		}
	}
	for _, t := range p.Targets {
		r.NativeCPU = r.NativeCPU || toolchain.NativeCPU(t.Flags.Link)
		for _, s := range t.Sources {
			r.NativeCPU = r.NativeCPU || toolchain.NativeCPU(slices.Concat(s.Flags.Host, s.Flags.NVCC, s.Flags.Clang, s.Flags.HIP))
			r.NeedCUDA = r.NeedCUDA || s.Language == "cuda"
			r.NeedHIP = r.NeedHIP || s.Language == "hip"
		}
		for _, code := range t.Gencode.Code {
			r.NeedHIP = r.NeedHIP || code.Kind == gencode.GFX
			r.NeedCUDA = r.NeedCUDA || code.Kind != gencode.GFX // for what a program of host sources links
			r.NeedNative = r.NeedNative || code.Kind == gencode.Set && code.Name == "native"
		}
		if f := t.Archive + t.SharedFile; t.Kind == manifest.Prebuilt && f != "" {
			r.Prebuilt = append(r.Prebuilt, f)
		}
	}
	r.Libs = librariesOf(p)
	r.NeedCUDA = r.NeedCUDA || len(r.Prebuilt) > 0 && !r.NeedHIP
	return r
}

// toolMemo is where answers about tools are remembered: beside the cache, so that a second checkout
// need not ask again, or in the build tree without one.
func (c *cli) toolMemo(p *manifest.Project) string {
	if !c.NoCache {
		if dir, err := c.cacheDir(); err == nil {
			return filepath.Join(dir, "tools")
		}
	}
	return c.state(p, "tools")
}

// state is a file under the build tree that is no output.
func (c *cli) state(p *manifest.Project, name string) string {
	dir := p.BuildDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.Root, dir)
	}
	return filepath.Join(dir, ".kbuild", name)
}

// diagnostics gives the planner's problems their source lines.
func diagnostics(p *manifest.Project, problems []plan.Problem) manifest.Diagnostics {
	var out manifest.Diagnostics
	for _, q := range problems {
		d := p.Diagnose(q.Pos, q.Summary, q.Detail)
		if q.Warning {
			d.Severity = manifest.Warning
		}
		if q.Also != (manifest.Pos{}) {
			place := p.Place(q.Also, q.AlsoSay)
			d.Also = &place
		}
		out = append(out, d)
	}
	return out
}

// diagnose prints diagnostics: to standard error, and as events with --json. What a plan has said, the next one of this run need not say
// again.
func (c *cli) diagnose(all manifest.Diagnostics) {
	diags := c.untold(all)
	if c.JSON {
		enc := json.NewEncoder(c.out)
		enc.SetEscapeHTML(false)
		for _, d := range diags {
			enc.Encode(map[string]any{"event": "diagnostic", "severity": d.Severity.String(), "summary": d.Summary,
				"detail": d.Detail, "file": d.Pos.File, "line": d.Pos.Line, "column": d.Pos.Column})
		}
		return
	}
	if c.Quiet && !diags.HasErrors() {
		return
	}
	all.Write(&c.said, c.colored())
	diags.Write(c.err, c.colored())
}

// untold are those that were not printed yet.
func (c *cli) untold(all manifest.Diagnostics) (diags manifest.Diagnostics) {
	if c.told == nil {
		c.told = map[string]bool{}
	}
	for _, d := range all {
		if text := d.Error() + "\n" + d.Detail; !c.told[text] {
			c.told[text] = true
			diags = append(diags, d)
		}
	}
	return diags
}

func (c *cli) colored() bool { return term.Color(c.Color, term.IsTerminal(c.err), os.Getenv) }

// planned is the plan of this project and the actions that names stand for in it.
func (c *cli) planned(names []string) (*session, []graph.ActionID, error) {
	s, err := c.plan()
	if err != nil {
		return nil, nil, err
	}
	if c.checkLink != nil {
		want, err := s.selectChecks(names)
		return s, want, err
	}
	want, err := s.selectAll(names)
	return s, want, err
}

// selectAll resolves target names, all default targets if there are none.
func (s *session) selectAll(names []string) ([]graph.ActionID, error) {
	if len(names) == 0 {
		names = s.graph.Default
	}
	if unbuilt := s.graph.Unbuilt(names); len(unbuilt) > 0 {
		t := unbuilt[0]
		return nil, usagef("%s (%s) cannot be built: %s", t.Label, t.Pos, t.Unbuilt)
	}
	want, unknown := s.graph.Select(names)
	if len(unknown) > 0 {
		var say []string
		for _, u := range unknown {
			hint := ""
			if near := manifest.Nearest(u, s.graph.Names()); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			say = append(say, fmt.Sprintf("no target, source or output is called %q%s", u, hint))
		}
		return nil, exitError{exitUsage, fmt.Errorf("%s", strings.Join(say, "\nkbuild: "))}
	}
	return want, nil
}

// writeFile replaces a file at once, so that nobody sees half of it.
func writeFile(name string, data []byte) error {
	return writeFrom(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeFrom is writeFile of what write writes.
func writeFrom(name string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".kbuild-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = write(tmp)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	os.Chmod(tmp.Name(), 0o644)
	return os.Rename(tmp.Name(), name)
}
