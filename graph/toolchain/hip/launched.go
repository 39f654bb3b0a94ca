package hip

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// Launched returns paths that must stay absent for a launched command of compiler, which runs in
// dir. known reports whether compiler is ROCm's script hipcc: that reads only variables that are in
// keys. The error reports that the environment adds options, or that hipcc may not compile for AMD.
// Without HIP_PLATFORM, hipcc compiles for NVIDIA if it finds an nvcc and no clang.
func (k *Toolchain) Launched(f *find.Finder, compiler, dir string) (absent []string, known bool, err error) {
	isHipcc := strings.HasPrefix(path.Base(compiler), "hipcc")
	known = isHipcc && f.Exists(compiler) && f.Exists(path.Join(f.RealDir(compiler), "hipvars.pm"))
	for _, name := range []string{"HIPCC_COMPILE_FLAGS_APPEND", "HIP_COMPILE_CXX_AS_HIP"} {
		if f.Env[name] != "" {
			return nil, known, fmt.Errorf("%s is set", name)
		}
	}
	switch platform := f.Env["HIP_PLATFORM"]; {
	case !isHipcc || platform == "amd":
		return nil, known, nil
	case platform != "":
		return nil, known, fmt.Errorf("HIP_PLATFORM is %q", platform)
	}
	toolkit := cmp.Or(f.Env["CUDA_PATH"], "/usr/local/cuda")
	for _, d := range append(filepath.SplitList(f.Env["PATH"]), path.Join(toolkit, "bin")) {
		file := path.Join(d, "nvcc")
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		if f.Exists(file) {
			return nil, known, fmt.Errorf("hipcc may compile for NVIDIA, since there is %s: "+
				"set HIP_PLATFORM=amd", file)
		}
		absent = append(absent, file)
	}
	return absent, known, nil
}

// ReadCommand parses the arguments of hipcc, clang or gcc: see host.ReadCommand.
func ReadCommand(argv []string, output, depfile string) (*host.Command, error) {
	c, err := host.ReadCommand(argv, output, depfile, &commandReader{})
	if err == nil {
		c.Options = slices.DeleteFunc(c.Options, isArch)
	}
	return c, err
}

// commandReader implements host.Device.
type commandReader struct{ rdc, offloadLTO bool }

// options lists prefixes of clang options for HIP that affect only the output of its passes. All
// other options with two dashes are rejected.
var options = []string{"--offload-new-driver", "--no-offload-new-driver", "--offload-compress", "--no-offload-compress", "--rocm-path=", "--hip-path=",
	"--rocm-device-lib-path=", "--hip-device-lib-path=", "--hip-version=", "--gpu-max-threads-per-block="}

// isArch reports whether an option selects architectures.
func isArch(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return name == "--offload-arch" || name == "--cuda-gpu-arch"
}

// Option implements host.Device.
func (r *commandReader) Option(c *host.Command, arg string) (ok bool, err error) {
	name, value, _ := strings.Cut(arg, "=")
	starts := func(start string) bool { return strings.HasPrefix(arg, start) }
	switch {
	case isArch(arg):
		c.Archs = append(c.Archs, strings.Split(value, ",")...)
	case arg == "-fgpu-rdc", arg == "-fno-gpu-rdc":
		r.rdc = arg == "-fgpu-rdc"
	case arg == "-foffload-lto":
		r.offloadLTO = true
	case arg == "-fno-offload-lto", starts("-foffload-lto="), starts("-Xarch_") && arg != "-Xarch_host" && arg != "-Xarch_device":
		return false, fmt.Errorf("%s is not taken apart", arg)
	case name == "-cuid":
		c.ID = value
	case starts("-fuse-cuid="):
		return false, fmt.Errorf("%s names the source, which kbuild does itself", arg)
	case slices.ContainsFunc(options, starts):
	default:
		return false, nil
	}
	return true, nil
}

// Compiles implements host.Device.
func (r *commandReader) Compiles(c *host.Command, language string) (bool, error) {
	ext, hipcc := path.Ext(c.Source), strings.HasPrefix(path.Base(c.Argv[0]), "hipcc")
	is := language == Tool || language == "" && (ext == ".hip" || hipcc && (ext == ".cu" || slices.Contains(host.CXXEndings, ext)))
	switch {
	case !is && hipcc:
		return false, fmt.Errorf("%s is no HIP", c.Source)
	case !is && (c.Archs != nil || r.rdc || r.offloadLTO):
		return false, fmt.Errorf("it is for GPUs, and its source is no HIP")
	case !is:
		return false, nil
	case c.Archs == nil:
		return false, fmt.Errorf("it names no architecture, and the compiler would look for one here")
	case r.offloadLTO && !r.rdc:
		return false, fmt.Errorf("-foffload-lto without -fgpu-rdc is not taken apart")
	}
	c.Tool, c.Mode = Tool, "whole"
	if r.rdc {
		c.Mode = toolchain.LinkMode(r.offloadLTO)
	}
	return true, nil
}

// Command implements toolchain.Commander. The host pass writes the requested dependency file,
// unless that has other headers than the cache needs.
func (k *Toolchain) Command(r toolchain.CommandRequest) (p toolchain.PlannedCommand) {
	c := r.Command
	if k.Compiler == nil || k.CompileFault != "" {
		return p.Refuse("%s", cmp.Or(k.Missing, k.CompileFault))
	}
	if err := host.Joinable(c.Argv); err != nil {
		return p.Refuse("%w", err)
	}
	if host.BesideObject("clang", c.Argv, c.Output).Refused() {
		return p.Refuse("the compiler writes or reads files beside the object")
	}
	if i := slices.IndexFunc(c.Argv, clang.LooksInRelative); i >= 0 {
		return p.Refuse("%s is relative, and clang is asked in another folder", c.Argv[i])
	}
	var codes []gencode.Code
	for _, name := range c.Archs {
		code, err := gencode.Parse(name)
		if err != nil || code.Kind != gencode.GFX || slices.Contains(codes, code) {
			return p.Refuse("--offload-arch=%s", name)
		}
		codes = append(codes, code)
	}
	passes, err := k.learnCommand(r, codes)
	if err != nil {
		p.Refused = err
		return p
	}
	p.Lines = host.RecordsLines(c.Argv)
	env := k.Environ()
	whole := &graph.Action{
		Kind: graph.Compile, Name: c.Source, Archs: c.Archs, Mode: c.Mode, Argv: c.Argv, Env: env,
		Inputs: []string{c.Source}, Outputs: []string{r.Output + ".o"}, Depfile: r.Depfile,
		Tools: []string{Tool}, Work: graph.Work{Driver: &graph.Driver{}},
	}
	id := cmp.Or(c.ID, clang.ID(r.Label, r.Source, r.Variant))
	u := toolchain.Unit{Whole: whole, Env: env, Dir: r.Dir, ID: id, Lines: p.Lines, Plan: &p.Plan}
	passes.Split(u, codes)
	if c.Deps == "" {
		return p
	}
	isHost := func(a *graph.Action) bool { return a.Kind.Info().Reads == graph.FormHost }
	pass := p.Actions[slices.IndexFunc(p.Actions, isHost)]
	p.WriteDeps(c, pass, slices.Concat(pass.Argv, c.Targets, c.DefaultTarget("clang")), r.Dir)
	return p
}

// learnCommand returns the passes of a command. It sorts codes by the order in which the driver
// compiles.
func (k *Toolchain) learnCommand(r toolchain.CommandRequest, codes []gencode.Code) (*Passes, error) {
	argv := r.Command.Argv
	args := clang.Query(argv, "", r.Command.Source, r.Output+".o")
	q := toolchain.Question{Tool: Tool, By: "hipcc -###", Args: args}
	isID := func(a string) bool { return strings.HasPrefix(a, clang.CUID) }
	if i := slices.IndexFunc(argv, isID); i >= 0 { // the driver may print a message about it
		q.Args = append(q.Args, argv[i])
	}
	passes, err := toolchain.Learn(&r.Answers, q, func(text string) (*Passes, error) {
		for line := range strings.Lines(text) {
			says := strings.Contains(line, "warning: ") || strings.Contains(line, "error: ")
			if says && !strings.HasPrefix(line, " ") {
				line = strings.TrimSpace(line)
				return nil, fmt.Errorf("the driver has something to say: %s", line)
			}
		}
		place := func(c gencode.Code) int {
			return strings.Index(text, `"-target-cpu" "`+c.Name+`"`)
		}
		slices.SortFunc(codes, func(a, b gencode.Code) int {
			return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.String(), b.String()))
		})
		return LearnCompile(text, append(argv[:1:1], q.Args...), codes)
	})
	if err != nil {
		return nil, err
	}
	passes.Flags = slices.DeleteFunc(passes.Flags, isID)
	if q, ok := passes.AskWrapper(codes); ok {
		passes.Final, err = learnWrapper(r.Build, q, codes)
	}
	return passes, err
}
