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
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/toolkit"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Project is a planned project.
type Project struct {
	*manifest.Project
	Facts   plan.Facts
	Graph   *graph.Graph
	Exports []plan.Export // set if Workspace.Exports is
	// Dry runs that kbuild is known to misparse, by their keys, with the explanation. The actions
	// that run unsplit because of one may all be up to date.
	SplitFailures map[string]string

	w        *Workspace
	printed  manifest.Diagnostics // all that were shown
	steps    *probe.Steps
	request  probe.Request       // the request that Facts answers
	hostSeen []cache.Observation // what Facts depends on; nil if not known

	listFile   string // the list of outputs, see outputs.go
	listDigest cache.Digest
	// the names in folders when the manifest was read, see trace.NamesBut
	listed map[string]cache.Digest
}

// Load reads and evaluates the manifest.
func (w *Workspace) Load() (*manifest.Project, error) {
	p, _, err := (&build{Workspace: w}).readManifest()
	return p, err
}

// readManifest reads and evaluates the manifest, and shows the diagnostics. Diagnostics are stored
// with a view, for a later build that has nothing to do and makes no plan.
func (b *build) readManifest() (p *manifest.Project, printed manifest.Diagnostics, err error) {
	if info, err := os.Stat(b.Manifest.Dir); err != nil || !info.IsDir() {
		return nil, nil, usagef("-C %s: there is no such folder", b.Manifest.Dir)
	}
	if err := b.checkEnv(); err != nil {
		return nil, nil, err
	}
	p, diags := manifest.Load(b.Manifest)
	if diags.HasErrors() && len(p.Dynamic) > 0 && b.dynamic.mayRun {
		again := b.Manifest
		again.IgnoreDynamic = true
		// the errors may come from files of an earlier run
		if first, fresh := manifest.Load(again); !fresh.HasErrors() {
			p, diags = first, fresh
		}
	}
	failed := diags.HasErrors()
	if !failed && len(p.Pending) > 0 && (b.DryRun || !b.running) {
		diags = append(diags, manifest.Diagnostic{Severity: manifest.Note, Summary: fmt.Sprintf("the files of %s are known when its command has run (kbuild %[1]s); until then, this is no more than what it needs",
			strings.Join(p.Pending, " "))})
	}
	b.UI.Diagnose(diags)
	if failed {
		return nil, nil, ErrDiagnosed
	}
	return p, diags, checkBuildDir(p)
}

// Plan loads the project, probes the host environment and plans.
func (w *Workspace) Plan() (*Project, error) { return (&build{Workspace: w}).planProject() }

// PlanFor plans, and returns the actions that names select.
func (w *Workspace) PlanFor(names []string) (*Project, []graph.ActionID, error) {
	return (&build{Workspace: w, req: Request{Targets: names}}).plan()
}

// plan plans, and returns the actions that the request selects. If dynamic outputs are unknown, it
// returns the actions with dynamic outputs.
func (b *build) plan() (p *Project, want []graph.ActionID, err error) {
	if p, err = b.planProject(); err != nil {
		return nil, nil, err
	}
	switch {
	case len(p.Pending) > 0:
		want = p.collects(nil)
	case b.req.Command != nil:
		want, err = b.req.Command.Select(p)
	case b.CheckLink != nil:
		want, err = p.selectChecks(b.req.Targets)
	default:
		want, err = p.Select(b.req.Targets)
	}
	return p, want, err
}

// planProject reads the manifest, probes the host environment and plans. It runs the dry runs of
// nvcc, hipcc and clang that the plan needs, until the plan needs no more.
func (b *build) planProject() (*Project, error) {
	w := b.Workspace
	loaded, printed, err := b.readManifest()
	if err != nil {
		return nil, err
	}
	p := &Project{w: w, Project: loaded, request: w.Request(loaded)}
	end := w.slowly("asking the compilers and libraries of this machine what they are; the next build knows")
	p.Facts, p.hostSeen, err = probe.Collect(context.Background(), p.request)
	end()
	if errors.As(err, new(probe.TempError)) {
		return nil, UsageError{err}
	} else if err != nil {
		return nil, err
	}
	p.steps = probe.OpenSteps(w.toolMemo(), p.Facts, run.Environ(w.Env, nil), w.keyEnv())
	b.useSplitFailures(p)
	p.Facts.DryRuns = p.steps.Runs
	options := plan.Options{NoSplit: w.NoSplit, RequireSplit: w.RequireSplit, Exports: w.Exports, CheckLink: w.CheckLink}
	made := plan.New(loaded, p.Facts, options)
	for len(made.Questions) > 0 {
		end := w.slowly(fmt.Sprintf("asking the compilers for the steps of %s; the next build knows them", graph.Count(len(made.Questions), "command")))
		err := p.steps.Query(context.Background(), made.Questions)
		if end(); err != nil {
			return nil, err
		}
		made = plan.New(loaded, p.Facts, options)
	}
	loaded.Quote(made.Diagnostics)
	w.UI.Diagnose(made.Diagnostics)
	if made.Graph == nil {
		return nil, ErrDiagnosed
	}
	p.Graph, p.Exports, p.printed = made.Graph, made.Exports, append(printed, made.Diagnostics...)
	for _, t := range loaded.Targets {
		t.Sources = nil // not needed any more: 36 MB for 100,000 sources
	}
	// instead of the entries of listed folders: 20 MB for 200,000 entries
	p.listed = map[string]cache.Digest{}
	for name, entries := range p.Listed {
		p.listed[name] = trace.NamesBut(cache.Absolute(p.Root, name), p.w.StateDir(), entries)
	}
	p.Listed = nil
	return p, nil
}

// Tools returns the tools that actions run, by the names that actions use for them.
func (p *Project) Tools() map[string]toolchain.Tool {
	f := p.Facts
	tools := f.Installed.Tools()
	tools["cxx"], tools["cc"], tools["ar"], tools["lto-ar"] = f.CXX, f.CC, f.AR, f.HostLTO.AR
	if f.NativeCPU != "" {
		tools[plan.NativeTool] = toolchain.Tool{ID: f.NativeCPU}
	}
	if slices.ContainsFunc(p.Tests, func(t manifest.Test) bool { return t.NeedsGPU }) {
		// unknown GPUs match no other build
		tools[plan.GPUTool] = toolchain.Tool{ID: cmp.Or(probe.GPUs("/", p.w.Env.Get), "not known, at "+p.w.Begun.String())}
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

// Request returns the probe request for the facts that the planner needs.
func (w *Workspace) Request(p *manifest.Project) probe.Request {
	r := probe.Request{Root: p.Root, Env: w.Env.Get, MemoPath: w.toolMemo()}
	for _, name := range run.Names(run.NVCCOptions) {
		r.NativeCPU = r.NativeCPU || host.NativeCPU([]string{w.Env.Get(name)})
	}
	r.Needs.Add(p)
	for language, tc := range p.Toolchains {
		if tc.Pinned {
			r.Want(language, w.pinned(p, r.Wanted[language]))
		}
	}
	r.Libs = librariesOf(p)
	return r
}

// toolMemo returns the file that caches facts about tools. It is beside the cache, so that a second
// checkout need not query the tools again. Without a cache it is in the build tree.
func (w *Workspace) toolMemo() string {
	if !w.NoCache {
		if dir, err := w.ActionCache(); err == nil {
			return filepath.Join(dir, "tools")
		}
	}
	return filepath.Join(w.StateDir(), "tools")
}

// EnvToolkits names the environment variable that moves the folder where toolkits are installed.
const EnvToolkits = "KBUILD_TOOLKITS"

// Toolkits returns a Pin with the folder where pinned toolkits are installed. It is in the folder
// of the cache, unless the user names another.
func (w *Workspace) Toolkits() (*toolkit.Pin, error) {
	if dir := w.Env.Get(EnvToolkits); dir != "" {
		if !filepath.IsAbs(dir) {
			return nil, usagef("%s is %q: it must be an absolute path", EnvToolkits, dir)
		}
		return &toolkit.Pin{Dir: filepath.Clean(dir), Say: w.UI.Say}, nil
	}
	dir, err := w.ActionCache()
	return &toolkit.Pin{Dir: filepath.Join(dir, "toolkits"), Common: toolkit.CommonDir, Say: w.UI.Say}, err
}

// Pin returns the toolkit that a manifest pins, or an error if it pins none.
func (w *Workspace) Pin(p *manifest.Project) (*toolkit.Pin, error) {
	tc := p.Toolchains["cuda"]
	if !tc.Pinned {
		return nil, usagef(`%s pins no toolkit. Its toolchain "cuda" needs from = "pypi" and, for example, version = "13.5.0"`, p.File)
	}
	pin, err := w.Toolkits()
	if err == nil {
		pin.Manifest, pin.File, pin.Version, pin.Parts = p.File, w.Manifest.File, tc.Version, tc.Parts
		pin.LockFile, pin.Text = filepath.Join(p.Root, tc.LockFile), p.Text(tc.LockFile)
	}
	return pin, err
}

// pinned returns r with the folder of the pinned toolkit. Builds do not install one. If it is
// missing, the error of the probe says what to do.
func (w *Workspace) pinned(p *manifest.Project, r find.Wanted) find.Wanted {
	r.Accepts = nil // pin.Use returns no folder if the lock file has another version
	pin, err := w.Pin(p)
	if err == nil {
		r.Folder, err = pin.Use()
	}
	if err != nil {
		// no folder, so that the program in PATH is not used either
		r.Folder, r.MissingOf, r.Missing = os.DevNull, "from", err.Error()
	}
	return r
}

// librariesOf returns the libraries behind -l, each with the folders that some link searches for
// it. These are the folders of the target, and of the targets that it is linked with.
func librariesOf(p *manifest.Project) (libs []probe.Lib) {
	known, anyDirs := map[string]bool{}, false
	add := func(names, dirs []string) {
		for _, name := range names {
			if key := name + "\x00" + strings.Join(dirs, "\x00"); !known[key] {
				known[key], libs = true, append(libs, probe.Lib{Name: name, Dirs: dirs})
			}
		}
	}
	index := map[string]int{}
	for i, t := range p.Targets {
		index[t.Label()] = i
		anyDirs = anyDirs || len(t.LibDirs) > 0
		add(t.Libs, t.LibDirs)
	}
	if !anyDirs {
		return libs
	}
	visited := make([]int, len(p.Targets)) // the number of the last walk that visited a target
	for i, t := range p.Targets {
		if t.Kind == manifest.Library && !t.Shared && !t.DeviceLink {
			continue // other targets link it
		}
		var names, dirs []string
		visited[i] = i + 1
		for walk := []int{i}; len(walk) > 0; {
			u := p.Targets[walk[len(walk)-1]]
			walk = walk[:len(walk)-1]
			names, dirs = append(names, u.Libs...), append(dirs, u.LibDirs...)
			for _, d := range u.Deps {
				if k, ok := index[d.Label]; ok && visited[k] != i+1 {
					visited[k] = i + 1
					walk = append(walk, k)
				}
			}
		}
		slices.Sort(names)
		slices.Sort(dirs)
		add(slices.Compact(names), slices.Compact(dirs))
	}
	return libs
}

// Doctor returns what it finds of a build's requirements. Without a valid manifest it checks for
// CUDA and GPUs.
func (w *Workspace) Doctor(ctx context.Context) (list []find.Finding, err error) {
	cache, err := w.ActionCache()
	if err != nil {
		return nil, err
	}
	r := probe.Request{Root: w.Manifest.Dir, Env: w.Env.Get}
	p, diags := manifest.Load(w.Manifest)
	if !diags.HasErrors() {
		r = w.Request(p)
	}
	if !r.Needs.Any() {
		r.Need("cuda")
	}
	list, facts := probe.Doctor(ctx, r)
	if facts.CXX.Path+facts.CXX.Error == "" {
		return list, nil // nothing can be probed
	}
	if !diags.HasErrors() {
		for _, v := range w.storedSplitFailures(facts.Fingerprint(w.keyEnv())) {
			list = append(list, find.Finding{Status: find.Warns, What: "misparsed", Text: v.String()})
		}
	}
	return append(list, find.Check("cache folder", probe.Unwritable(cache), cache)), nil
}

// slowStep is how long a step before a build may run without a message; a variable for tests.
var slowStep = 2 * time.Second

// slowly shows line if the step that begins now does not end soon. The caller calls end after it.
// Until then it shows nothing else.
func (w *Workspace) slowly(line string) (end func()) {
	shown := make(chan struct{})
	timer := time.AfterFunc(slowStep, func() {
		w.UI.Waiting(line)
		close(shown)
	})
	return func() {
		if !timer.Stop() {
			<-shown
		}
	}
}

// Select resolves names of targets, sources and outputs. Without names it selects all default
// targets.
func (p *Project) Select(names []string) ([]graph.ActionID, error) {
	if len(names) == 0 {
		names = p.Graph.Default
	}
	if unbuilt := p.Graph.Unbuilt(names); len(unbuilt) > 0 {
		t := unbuilt[0]
		return nil, usagef("%s (%s) cannot be built: %s", t.Label, t.Pos, t.Unbuilt)
	}
	want, unknown := p.Graph.Select(names)
	if len(unknown) > 0 {
		var say []string
		for _, u := range unknown {
			hint := ""
			if near := manifest.Nearest(u, p.Graph.Names()); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			say = append(say, fmt.Sprintf("no target, source or output is called %q%s", u, hint))
		}
		return nil, usagef("%s", strings.Join(say, "\nkbuild: "))
	}
	return want, nil
}

// selectChecks returns the actions of the modules that names select, and of their link checks.
// Without names it returns those of all modules with link checks.
func (p *Project) selectChecks(names []string) ([]graph.ActionID, error) {
	var checks []string
	all := len(names) == 0
	for _, t := range p.Graph.Targets {
		checks = append(checks, t.Checks...)
		if all && len(t.Checks) > 0 {
			names = append(names, t.Label)
		}
	}
	for _, name := range names {
		if ids, _ := p.Graph.Select([]string{name}); ids != nil && len(p.Graph.FindTarget(name)) == 0 {
			return nil, usagef("%s is a file; --check-link wants the names of modules", name)
		}
	}
	if all && len(checks) == 0 {
		var archs []string
		for _, a := range p.w.CheckLink.Archs {
			archs = append(archs, a.String())
		}
		return nil, usagef("no module of this project has LTO-IR to link: --check-link %s is for modules with \"ltoir\" in emit", strings.Join(archs, ","))
	}
	return p.Select(append(names, checks...))
}

// SelectModules returns the actions that write the manifests of the modules that names select, or
// of all modules. It leaves out the objects of embedded modules.
func (p *Project) SelectModules(names []string) (manifests []graph.ActionID, err error) {
	if _, err := p.Select(names); len(names) > 0 && err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for _, t := range p.Graph.Targets {
			if t.Kind == string(manifest.Module) && t.Unbuilt == "" {
				names = append(names, t.Label)
			}
		}
	}
	if len(names) == 0 {
		return nil, usagef("this project has no module to precompile")
	}
	for _, name := range names {
		targets := p.Graph.FindTarget(name)
		if len(targets) == 0 {
			return nil, usagef("%s is a file; precompile wants the names of modules", name)
		}
		for _, t := range p.Graph.Expand(targets) {
			if t.Kind != "group" && t.Kind != string(manifest.Module) {
				return nil, usagef("%s (%s) is no module; build it with: kbuild build %s", t.Label, t.Pos, t.Name)
			}
			for _, id := range t.Actions {
				if p.Graph.Actions[id].Work.Manifest != nil {
					manifests = append(manifests, id)
				}
			}
		}
	}
	slices.Sort(manifests) // in the order of the manifest
	return slices.Compact(manifests), nil
}
