package launch

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// hipCompile is a split compile of HIP by hipcc or clang.
type hipCompile struct {
	*hip.Passes
	codes []gencode.Code // in the order in which the driver compiles
}

// isHipcc reports whether a file is hipcc, with any version in its name.
func isHipcc(file string) bool { return strings.HasPrefix(filepath.Base(file), "hipcc") }

// knownScript reports whether a file is ROCm's script hipcc. That script reads only variables that
// are in keys. Another script may be in its place.
func knownScript(file string) bool {
	real, err := filepath.EvalSymlinks(file)
	if err != nil || !isHipcc(file) {
		return false
	}
	_, err = os.Stat(filepath.Join(filepath.Dir(real), "hipvars.pm"))
	return err == nil
}

// collectHIP queries the HIP compiler for the passes of the command.
func (f *facts) collectHIP(ctx context.Context) (err error) {
	f.request.HIPCompiler, f.request.NeedAMD = f.launch.Argv[0], true
	if err := f.hipEnvironment(); err != nil {
		return err
	}
	if f.Facts, f.observed, err = probe.Collect(ctx, f.request); err != nil {
		return err
	}
	switch {
	case f.HIP == nil:
		return leave("%s", f.HIPError)
	case f.HIP.CompileFault != "":
		return leave("%s", f.HIP.CompileFault)
	}
	if o := host.IntermediateCode(f.host.Argv); o != "" {
		return leave("%s makes intermediate code of the host code", o)
	}
	if err := f.nothingBeside("clang"); err != nil {
		return err
	}
	f.host.Target("clang")
	var codes []gencode.Code
	for _, name := range f.host.GPU.Archs {
		code, err := gencode.Parse(name)
		if err != nil || code.Kind != gencode.GFX || slices.Contains(codes, code) {
			return leave("--offload-arch=%s", name)
		}
		codes = append(codes, code)
	}
	f.openSteps()
	return f.learnHIP(ctx, codes)
}

// hipEnvironment returns an error if the environment adds options, or if hipcc may not compile for
// AMD. Without HIP_PLATFORM, hipcc compiles for NVIDIA if it finds an nvcc and no clang.
func (f *facts) hipEnvironment() error {
	for _, name := range []string{"HIPCC_COMPILE_FLAGS_APPEND", "HIP_COMPILE_CXX_AS_HIP"} {
		if os.Getenv(name) != "" {
			return leave("%s is set", name)
		}
	}
	switch platform, is := os.LookupEnv("HIP_PLATFORM"); {
	case !isHipcc(f.launch.Argv[0]) || platform == "amd":
		return nil
	case is:
		return leave("HIP_PLATFORM is %q", platform)
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), filepath.Join(cmp.Or(os.Getenv("CUDA_PATH"), "/usr/local/cuda"), "bin")) {
		nvcc := cache.Absolute(f.launch.Dir, filepath.Join(dir, "nvcc"))
		if _, err := os.Lstat(nvcc); err == nil {
			return leave("hipcc may compile for NVIDIA, since there is %s: set HIP_PLATFORM=amd", nvcc)
		}
		f.absent = append(f.absent, nvcc)
	}
	return nil
}

// learnHIP finds the passes in the driver's dry run.
func (f *facts) learnHIP(ctx context.Context, codes []gencode.Code) error {
	argv := f.host.Argv
	if i := slices.IndexFunc(argv, clang.LooksInRelative); i >= 0 {
		return leave("%s is relative, and clang is asked in another folder", argv[i])
	}
	q := toolchain.Question{Tool: "hip", Args: clang.Query(argv, "", f.host.Source, output+".o")}
	isID := func(a string) bool { return strings.HasPrefix(a, clang.CUID) }
	if i := slices.IndexFunc(argv, isID); i >= 0 { // the driver may print a message about it
		q.Args = append(q.Args, argv[i])
	}
	by := filepath.Base(argv[0]) + " -###"
	run, err := f.answer(ctx, q, by)
	if err != nil {
		return err
	}
	for line := range strings.Lines(run.Text) {
		if !strings.HasPrefix(line, " ") && (strings.Contains(line, "warning: ") || strings.Contains(line, "error: ")) {
			return leave("the driver has something to say: %s", strings.TrimSpace(line))
		}
	}
	place := func(c gencode.Code) int { return strings.Index(run.Text, `"-target-cpu" "`+c.Name+`"`) }
	slices.SortFunc(codes, func(a, b gencode.Code) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.String(), b.String()))
	})
	passes, err := hip.LearnCompile(run.Text, append(argv[:1:1], q.Args...), codes)
	if err != nil {
		return leave("%s: %v", by, err)
	}
	passes.Flags = slices.DeleteFunc(passes.Flags, isID)
	if q, ok := passes.AskWrapper(codes); ok {
		if run, err = f.answer(ctx, q, by); err != nil {
			return err
		}
		if passes.Final, err = hip.LearnWrapper(run.Text, codes); err != nil {
			return leave("%s: %v", q.Program, err)
		}
	}
	f.hip = &hipCompile{passes, codes}
	return nil
}

// planHIP plans the passes. The host pass writes the requested dependency file, unless that has
// other headers than the cache needs.
func (b *build) planHIP() {
	c := b.host
	b.debug = host.RecordsLines(c.Argv)
	env := append([]string{toolchain.Anywhere}, b.HIP.Env...)
	if b.debug {
		env[0] = "PWD=" + os.Getenv("PWD")
	}
	whole := &graph.Action{Kind: graph.Compile, Name: c.Source, Archs: c.GPU.Archs, Mode: c.GPU.Mode, Argv: c.Argv, Env: env, Inputs: []string{c.Source},
		Outputs: []string{output + ".o"}, Depfile: depfile, Tools: []string{"hip"}, Work: graph.Work{Driver: &graph.Driver{}}}
	passes := &toolchain.Plan{}
	b.hip.Split(toolchain.Unit{Whole: whole, Env: env, Dir: partsDir, ID: b.hipID(), Lines: b.debug, Plan: passes}, b.hip.codes)
	for _, a := range passes.Actions {
		if a.Kind.Info().Reads == graph.FormHost && c.Deps != "" && !c.Own {
			a.Argv = append(slices.Clone(a.Argv), c.GPU.Targets...)
			a.Outputs, a.Work.Step.DepfileOutput = append(a.Outputs, keptDeps), keptDeps
		}
		b.emit(a)
	}
}

// hipID names the source uniquely within any program, as moduleID does for nvcc.
func (b *build) hipID() string {
	if id := b.host.GPU.ID; id != "" {
		return id
	}
	options := slices.DeleteFunc(slices.Clone(b.host.Argv), func(a string) bool { return strings.HasPrefix(a, clang.OffloadArch) })
	for i, o := range options {
		if spelled, ok := b.launch.Base.Spell(o); ok {
			options[i] = spelled
		}
	}
	return clang.ID("command "+b.launch.Base.Project, b.named(b.host.Source), b.named(b.host.Output)+"\x00"+strings.Join(options, "\x00"))
}

// hipDeps returns the dependency file.
func (b *build) hipDeps(ctx context.Context) ([]byte, error) {
	name := placeDir + "/asked.d"
	if !b.host.Own {
		if err := b.runner.CopyIntermediate(ctx, keptDeps, name); err != nil {
			return nil, err
		}
		return os.ReadFile(name)
	}
	i := slices.IndexFunc(b.graph.Actions, func(a *graph.Action) bool { return a.Kind.Info().Reads == graph.FormHost })
	pass := b.graph.Actions[i]
	own := host.Command{Argv: slices.Concat(pass.Argv, b.host.GPU.Targets)}
	res, err := run.Run(ctx, run.Command{Argv: own.AskOwn(pass.Outputs[0], pass.Depfile, name), Dir: b.launch.Dir, Env: slices.Concat(b.env.All, pass.Env, []string{"TMPDIR=" + placeDir})})
	if err != nil {
		return nil, err
	}
	if res.ExitCode != 0 {
		return nil, leave("-MM of it ends with %d and says %q", res.ExitCode, res.Output)
	}
	return os.ReadFile(name)
}

// hipPrinted returns what clang prints for the command.
func (b *build) hipPrinted() string {
	var text strings.Builder
	for _, a := range b.graph.Actions {
		text.Write(b.printed[a.ID])
	}
	return text.String()
}
