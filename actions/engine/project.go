package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Project is a planned project.
type Project struct {
	*manifest.Project
	Facts   plan.Facts
	Graph   *graph.Graph
	Exports []plan.Export // set if Workspace.Exports is

	w       *Workspace
	steps   *probe.Steps
	request probe.Request // the request that Facts answers

	listFile   string // the list of outputs, see outputs.go
	listDigest cache.Digest
	// the names in folders when the manifest was read, see trace.NamesBut
	listed map[string]cache.Digest
}

// Load reads and evaluates the manifest.
func (w *Workspace) Load() (*manifest.Project, error) {
	if info, err := os.Stat(w.Manifest.Dir); err != nil || !info.IsDir() {
		return nil, usagef("-C %s: there is no such folder", w.Manifest.Dir)
	}
	if err := w.writeOutEnv(); err != nil {
		return nil, err
	}
	p, diags := manifest.Load(w.Manifest)
	if diags.HasErrors() && len(p.Chosen) > 0 && w.chosen.mayRun {
		again := w.Manifest
		again.Unsettled = true
		// the errors may come from files of an earlier run
		if first, fresh := manifest.Load(again); !fresh.HasErrors() {
			p, diags = first, fresh
		}
	}
	w.diagnose(diags)
	if diags.HasErrors() {
		return nil, ErrDiagnosed
	}
	if len(p.Unsettled) > 0 && (w.DryRun || !w.chosen.building) {
		w.diagnose(manifest.Diagnostics{{Severity: manifest.Note, Summary: fmt.Sprintf("the files of %s are known when its command has run (kbuild %[1]s); until then, this is no more than what it needs",
			strings.Join(p.Unsettled, " "))}})
	}
	return p, checkBuildDir(p)
}

// diagnose shows diagnostics, and keeps them for a later build that has nothing to do and makes no
// plan.
func (w *Workspace) diagnose(diags manifest.Diagnostics) {
	w.diagnosed = append(w.diagnosed, diags...)
	w.UI.Diagnose(diags)
}

// Plan loads the project, probes the host environment and plans.
func (w *Workspace) Plan() (*Project, error) {
	w.diagnosed = nil
	loaded, err := w.Load()
	if err != nil {
		return nil, err
	}
	p := &Project{w: w, Project: loaded, request: w.Request(loaded)}
	collect := func() (err error) { p.Facts, err = probe.Collect(context.Background(), p.request); return err }
	err = w.during(collect, time.After(slowStep), "asking the compilers and libraries of this machine what they are; the next build knows")
	if errors.As(err, new(probe.TempError)) {
		return nil, UsageError{err}
	} else if err != nil {
		return nil, err
	}
	made, err := p.make()
	if err != nil {
		return nil, err
	}
	loaded.Quote(made.Diagnostics)
	w.diagnose(made.Diagnostics)
	if made.Graph == nil {
		return nil, ErrDiagnosed
	}
	p.Graph, p.Exports = made.Graph, made.Exports
	for _, t := range loaded.Targets {
		t.Sources = nil // not needed any more: 36 MB for 100,000 sources
	}
	p.digestLists()
	return p, nil
}

// digestLists replaces the entries of listed folders by digests: 20 MB for 200,000 entries.
func (p *Project) digestLists() {
	p.listed = map[string]cache.Digest{}
	for name, entries := range p.Listed {
		p.listed[name] = trace.NamesBut(cache.Absolute(p.Root, name), p.w.StateDir(), entries)
	}
	p.Listed = nil
}

// PlanFor plans, and returns the actions that names select.
func (w *Workspace) PlanFor(names []string) (*Project, []graph.ActionID, error) {
	return w.planWith(func(p *Project) ([]graph.ActionID, error) {
		if w.CheckLink != nil {
			return p.selectChecks(names)
		}
		return p.Select(names)
	})
}

// planWith plans, and returns the actions that choose selects. If dynamic outputs are unknown, it
// returns the actions with dynamic outputs.
func (w *Workspace) planWith(choose func(*Project) ([]graph.ActionID, error)) (*Project, []graph.ActionID, error) {
	p, err := w.Plan()
	if err != nil {
		return nil, nil, err
	}
	if len(p.Unsettled) > 0 {
		return p, p.collects(nil), nil
	}
	want, err := choose(p)
	return p, want, err
}

// make plans. It runs the dry runs of nvcc, hipcc and clang that the plan needs, until the plan
// needs no more.
func (p *Project) make() (plan.Plan, error) {
	env, keyEnv := environ()
	steps := probe.OpenSteps(p.w.toolMemo(p.Project), p.Facts, env, keyEnv)
	p.distrust(steps)
	p.Facts.DryRuns, p.steps = steps.Runs, steps
	for {
		made := plan.New(p.Project, p.Facts, plan.Options{NoSplit: p.w.NoSplit, RequireSplit: p.w.RequireSplit, Exports: p.w.Exports, CheckLink: p.w.CheckLink})
		if len(made.Questions) == 0 {
			return made, nil
		}
		ask := func() error { return steps.Query(context.Background(), made.Questions) }
		line := fmt.Sprintf("asking the compilers for the steps of %d commands; the next build knows them", len(made.Questions))
		if err := p.w.during(ask, time.After(slowStep), line); err != nil {
			return made, err
		}
	}
}

// Archs returns the architectures that the CUDA toolkit supports, or none without a toolkit.
func (p *Project) Archs() []gencode.Code {
	if p.Facts.CUDA == nil {
		return nil
	}
	return p.Facts.CUDA.Archs
}

// Tools returns the tools that actions run, by the names that actions use for them.
func (p *Project) Tools() map[string]plan.Tool {
	f := p.Facts
	tools := map[string]plan.Tool{"cxx": f.CXX, "cc": f.CC, "ar": f.AR, "lto-ar": f.HostLTO.AR}
	if f.CUDA != nil {
		tools["nvcc"], tools[plan.ToolkitTool] = f.CUDA.NVCC, f.CUDA.Parts
		if f.CUDA.Clang != nil {
			tools["clang"] = f.CUDA.Clang.Driver
		}
	}
	if f.HIP != nil {
		tools["hip"] = f.HIP.Driver
	}
	if f.NativeCPU != "" {
		tools[plan.NativeTool] = plan.Tool{ID: f.NativeCPU}
	}
	if slices.ContainsFunc(p.Tests, func(t manifest.Test) bool { return t.NeedsGPU }) {
		// unknown GPUs match no other build
		tools[plan.GPUTool] = plan.Tool{ID: cmp.Or(probe.GPUs("/", os.Getenv), "not known, at "+p.w.Begun.String())}
	}
	return tools
}

// LibraryFolders returns the folders where a program of the project may find shared libraries that
// its own path does not lead to. They are absolute: see plan.LibraryFolders.
func (p *Project) LibraryFolders() (dirs []string) {
	for _, dir := range plan.LibraryFolders(p.Project, p.Facts) {
		dirs = append(dirs, cache.Absolute(p.Root, dir))
	}
	return dirs
}

// NoGPU returns why a test that needs a GPU cannot run on this machine, or "" if it can.
func NoGPU() string {
	if probe.AnyGPU("/") {
		return ""
	}
	return "it needs a GPU, and there is none here"
}

// Request returns the probe request for the facts that the planner needs.
func (w *Workspace) Request(p *manifest.Project) probe.Request {
	r := probe.Request{Root: p.Root, Env: os.Getenv, MemoPath: w.toolMemo(p)}
	r.NativeCPU = host.NativeCPU([]string{os.Getenv("NVCC_PREPEND_FLAGS"), os.Getenv("NVCC_APPEND_FLAGS")})
	if tc, ok := p.Toolchains["cuda"]; ok {
		r.Compiler, r.HostCompiler, r.Version = tc.Compiler, tc.HostCompiler, tc.Version
		if want, err := manifest.ParseConstraint(tc.Version); err == nil && tc.Version != "" {
			r.Accepts = want.Allows
		}
		w.toolkit(p, &r)
	}
	if tc, ok := p.Toolchains["hip"]; ok {
		r.HIPCompiler, r.HIPVersion = tc.Compiler, tc.Version
		if want, err := manifest.ParseConstraint(tc.Version); err == nil && tc.Version != "" {
			r.HIPAccepts = want.Allows
		}
	}
	for _, t := range p.Targets {
		r.NativeCPU = r.NativeCPU || host.NativeCPU(t.Flags.Link)
		r.NeedHIPHeaders = r.NeedHIPHeaders || t.HIPForNVIDIA()
		for _, s := range t.Sources {
			r.NativeCPU = r.NativeCPU || host.NativeCPU(slices.Concat(s.Flags.Host, s.Flags.NVCC, s.Flags.Clang, s.Flags.HIP))
			r.NeedCUDA = r.NeedCUDA || s.Language == "cuda"
			r.NeedHIP = r.NeedHIP || s.Language == "hip" && !t.HIPForNVIDIA()
		}
		for _, code := range t.Gencode.Code {
			r.NeedHIP = r.NeedHIP || code.Kind == gencode.GFX
			// for the libraries that a program of host sources links
			r.NeedCUDA = r.NeedCUDA || code.Kind != gencode.GFX
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

// toolMemo returns the file that caches facts about tools. It is beside the cache, so that a second
// checkout need not query the tools again. Without a cache it is in the build tree.
func (w *Workspace) toolMemo(p *manifest.Project) string {
	if !w.NoCache {
		if dir, err := w.ActionCache(); err == nil {
			return filepath.Join(dir, "tools")
		}
	}
	return State(p, "tools")
}

// State returns a file under the build tree of a project that is not an output.
func State(p *manifest.Project, name string) string {
	dir := p.BuildDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.Root, dir)
	}
	return filepath.Join(dir, ".kbuild", name)
}
