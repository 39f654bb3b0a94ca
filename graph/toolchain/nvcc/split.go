package nvcc

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// One nvcc command is split into the passes that it runs, each an action:
//
//	a.cu -> preprocess [80] -> cicc [80] -> ptxas [80] --\
//	a.cu -> preprocess [90] -> cicc [90] -> ptxas [90] ---> fatbinary ---\
//	                 cicc [90] -> stub --\                                > join -> a.cu.o
//	a.cu -> preprocess [host] -> cudafe++ -> host-part ------------------/
//
// PTX that ships is checked by a ptxas without output, if nvcc runs one (13.0 and newer, from
// compute_90 on).
//
// nvcc compiles the host code last, with the device code inside. kbuild compiles it with a
// placeholder, and join inserts the device code afterwards. So a change of device code compiles no
// host code, and vice versa.
//
// Three things make every output independent of the folder and the run. PWD=/proc/self/cwd, which
// compilers trust, hides the working directory. A module id of our own replaces nvcc's, which
// derives from the absolute path, the time and the process id. ptxas and nvlink run in an empty
// folder, because they record time and size of sources that they find in line tables.

// Split splits one nvcc command into actions.
type Split struct {
	toolchain.Unit
	*cuda.Toolkit
	ArchList []gencode.Code // value of ListMacro in sources; if empty, the codes of the compile
	Out      string         // file of RoleOutput
	Shared   *Sharing       // of a module: the passes planned for its other formats; else nil

	steps map[*graph.Action]int // positions in the dry run; nil unless Plain
}

// NewSplit returns a Split of the command of u, whose passes run with the variables env.
func NewSplit(u toolchain.Unit, k *cuda.Toolkit, env []string) *Split {
	u.Env = append([]string{toolchain.Anywhere}, env...)
	s := &Split{Unit: u, Toolkit: k, Out: u.Whole.Outputs[0]}
	if u.Plain {
		s.steps = map[*graph.Action]int{}
	}
	return s
}

// Compile plans the passes of one source.
func (s *Split) Compile(c *CompilePasses) {
	if c.Host == nil {
		if pass := c.Preprocess["host"]; pass != nil { // for a dependency file
			s.preprocess(pass)
		}
		s.device(c, false)
		return
	}
	if c.TileFatbin == nil {
		s.Out = s.Dir + "/host.o"
	}
	s.device(c, false)
	s.preprocess(c.Preprocess["host"])
	s.cudafe(c.Cudafe)
	s.host(c)
	if c.TileFatbin == nil {
		s.Join(graph.NVCCFatbin, s.Out, s.file(RoleFatbin))
	}
}

// device plans the passes that compile device code. If ltoir is set, they end with LTO-IR.
func (s *Split) device(c *CompilePasses, ltoir bool) {
	for _, pass := range c.CICC {
		s.preprocess(c.Preprocess[pass.Arch])
		s.cicc(pass)
	}
	if ltoir {
		return
	}
	for _, pass := range c.Checks {
		a := s.action(graph.PTXAS, pass, s.Programs["ptxas"])
		a.Archs, a.Work.Pass.EmptyCwd, a.Work.Pass.Gate = []string{pass.Arch}, true, true
		s.once(a)
	}
	for _, pass := range c.PTXAS {
		a := s.action(graph.PTXAS, pass, s.Programs["ptxas"])
		a.Archs, a.Work.Pass.EmptyCwd = []string{pass.Arch}, true
		toolchain.AskResourceUsage(a)
		s.once(a)
	}
	s.fatbinary(c.Fatbinary)
	for _, pass := range c.TileIRAS {
		a := s.action(graph.TileIRAS, pass, s.Programs["tileiras"])
		a.Archs, a.Work.Pass.EmptyCwd = []string{pass.Arch}, true
		s.once(a)
	}
	s.fatbinary(c.TileFatbin)
}

// fatbinary plans the pass if it is not nil.
func (s *Split) fatbinary(pass *Pass) {
	if pass != nil {
		a := s.action(graph.Fatbinary, pass, s.Programs["fatbinary"])
		a.Transient = a.Intermediate
		s.Emit(a)
	}
}

// Unplaced returns the command of a pass without its files.
func (p *Pass) Unplaced() []string { return p.Argv("", func(Role) string { return "" }) }

// Options returns the options of all passes that produce the output.
func (c *CompilePasses) Options() (all []string) {
	for _, p := range append(slices.Concat(c.CICC, c.PTXAS, c.TileIRAS), c.Cudafe, c.Host) {
		if p != nil {
			all = append(all, p.Unplaced()...)
		}
	}
	return all
}

// Placeholder returns the key of the placeholder in FatbinC of the toolkit, the C text with which host code is
// compiled before there is device code. It depends on fatbinary's options and not on the mode: with
// -ewp a whole program waits for a device link.
func (c *CompilePasses) Placeholder() string {
	if slices.Contains(c.Fatbinary.Unplaced(), "--device-c") {
		return "rdc"
	}
	return "whole"
}

// file returns the file of a role, possibly that of an equal pass.
func (s *Split) file(r Role) string {
	file := s.own(r)
	if s.Shared != nil && s.Shared.made[file] != "" {
		return s.Shared.made[file]
	}
	return file
}

// own returns the file of a role in this command.
func (s *Split) own(r Role) string {
	kind, arch, _ := strings.Cut(string(r), ":")
	switch Role(kind) {
	case RoleSource:
		return s.Whole.Inputs[0]
	case RoleNamed:
		if s.Named != "" {
			return s.Named
		}
		return s.Whole.Inputs[0]
	case RoleOutput:
		return s.Out
	case RoleModuleID:
		return graph.StageDir + "/module_id"
	case RoleScratch:
		return graph.StageDir + "/unread." + arch
	case RoleLinkInput:
		return Inputs
	case RoleText:
		return s.Dir + "/" + arch + ".ii"
	case RoleStub:
		return s.Dir + "/" + arch + ".stub.c"
	case RoleHostCode:
		base := path.Base(s.Whole.Inputs[0])
		return s.Dir + "/" + graph.ShortName(strings.TrimSuffix(base, path.Ext(base)), 255-len(".cudafe1.canon.cpp")) + ".cudafe1.cpp"
	case RoleFatbin, RoleFatbinC, RoleTileC:
		return s.Dir + "/" + kind
	case RoleUnchecked:
		return s.Dir + "/" + arch + ".unchecked.ptx"
	case RoleRegister:
		return s.Dir + "/" + arch + ".reg.c"
	}
	return s.Dir + "/" + arch + "." + kind // ptx, ltoir, cubin
}

// action returns the action of a pass that reads no source.
func (s *Split) action(kind graph.Kind, pass *Pass, program string) *graph.Action {
	var outputs []string
	for _, r := range pass.Out {
		outputs = append(outputs, s.file(r))
	}
	a := s.Action(kind, s.argv(pass, program), outputs...)
	s.follows(a, pass)
	if program != s.HostCXX.Path {
		a.Tools = []string{cuda.PartsTool}
	}
	a.Work.Pass.UnkeyedPaths = s.Source()
	if s.Named != "" {
		a.Work.Pass.UnkeyedPaths = append(slices.Clone(s.Source()), s.Named)
	}
	for _, r := range pass.In {
		if r != RoleModuleID && r != RoleLinkInput {
			a.Inputs = append(a.Inputs, s.file(r))
		}
	}
	if !a.Intermediate && s.Shared != nil {
		a.Name = path.Base(a.Outputs[0]) // several formats share the passes
	}
	return a
}

// follows records which step of the dry run an action is, for a command whose messages must be in
// the order of nvcc's.
func (s *Split) follows(a *graph.Action, pass *Pass) {
	if s.Plain {
		s.steps[a] = pass.step
	}
}

// argv returns the command of a pass with its files and the ListMacro of the target.
func (s *Split) argv(pass *Pass, program string) []string {
	argv := pass.Argv(program, s.file)
	for i, a := range argv {
		if len(s.ArchList) > 0 && strings.HasPrefix(a, "-D"+ListMacro+"=") {
			argv[i] = "-D" + ListMacro + "=" + archList(s.ArchList)
		}
	}
	return argv
}

// archList formats architectures as nvcc does: 700,800.
func archList(list []gencode.Code) string {
	var nums []int
	for _, c := range list {
		nums = append(nums, c.Num*10)
	}
	slices.Sort(nums)
	var s []string
	for _, n := range slices.Compact(nums) {
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, ",")
}

// preprocess plans the text of one architecture, or of the host.
func (s *Split) preprocess(pass *Pass) {
	a := s.Preprocess(pass.Arch, s.argv(pass, s.HostCXX.Path), s.file(pass.Out[0]))
	s.follows(a, pass)
	if !strings.Contains(path.Base(s.HostCXX.Path), "clang") {
		a.Argv = append(a.Argv, "-dU") // shows which macros the text used; gcc only
		a.Work.Pass.Macros = []string{ListMacro}
	}
	depends(a)
	if s.Shown {
		a.Argv = append(a.Argv, "-dI")
	}
	if s.Files {
		if a.Work.Pass.FilesOutput = toolchain.FilesOf(a.Outputs[0]); s.Own {
			a.Work.Pass.FilesOutput, a.Work.Pass.WithoutSystem = toolchain.OwnFilesOf(a.Outputs[0]), true
		}
		a.Outputs = append(a.Outputs, a.Work.Pass.FilesOutput)
	}
	s.once(a)
}

// depends makes gcc write a dependency file.
func depends(a *graph.Action) {
	a.Depfile = a.Outputs[0] + ".d"
	a.Argv = append(a.Argv, "-MD", "-MF", a.Depfile)
}

// cicc plans the device compile of one architecture. PTX records no line numbers, so cicc compiles
// the original text, and its messages are correct. LTO-IR records them, so cicc compiles the
// canonical text, and the original only to print messages.
func (s *Split) cicc(pass *Pass) {
	a := s.action(graph.CICC, pass, s.Programs["cicc"])
	a.Archs = []string{pass.Arch}
	s.stageID(a)
	raw := s.file(RoleText.Of(pass.Arch))
	s.readText(a, raw)
	if !s.Lines && slices.Contains(pass.Out, RoleLTOIR.Of(pass.Arch)) {
		a.Work.Pass.DiagnosticArgv = slices.Clone(a.Argv)
		replace(a.Argv, raw, toolchain.Canonical(raw))
	}
	if stub := RoleStub.Of(pass.Arch); slices.Contains(pass.Out, stub) {
		a.Work.Pass.Stub = s.file(stub)
		s.AddCanonical(a, a.Work.Pass.Stub, graph.CanonicalForm{})
	}
	s.once(a)
}

// stageID stages the file with the module id for a pass.
func (s *Split) stageID(a *graph.Action) {
	a.Work.Pass.Staged = []graph.StagedFile{{Name: "module_id", Text: s.ID}}
}

// readText replaces a text by its canonical form in the inputs of a, unless the outputs record
// lines.
func (s *Split) readText(a *graph.Action, raw string) {
	if !s.Lines {
		replace(a.Inputs, raw, toolchain.Canonical(raw))
		a.Work.Pass.DiagnosticInputs = []string{raw}
	}
}

func replace(list []string, from, to string) {
	for i := range list {
		if list[i] == from {
			list[i] = to
		}
	}
}

// ModuleID returns a name in nvcc's format that identifies a source within any program. It derives
// from the target, the path and the variant.
func ModuleID(label, source, partition string) string {
	hash := toolchain.SourceHash(label, source, partition)
	base := strings.Map(func(r rune) rune {
		if r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, path.Base(source))
	return fmt.Sprintf("_%s_%d_%s_%s", hash[:8], len(base), base, hash[8:16])
}

func (s *Split) cudafe(pass *Pass) {
	a := s.action(graph.Cudafe, pass, s.Programs["cudafe++"])
	a.Transient = true
	s.stageID(a)
	s.readText(a, s.file(RoleText.Of("host")))
	s.AddCanonical(a, a.Outputs[0], graph.CanonicalForm{DropFalse: true})
	s.Emit(a)
}

// host plans the compile of the host code, with a placeholder for the device code. Host code with
// tile code includes two fatbins. It includes the real ones and waits for them, because join can
// replace only one placeholder.
func (s *Split) host(c *CompilePasses) {
	code, stub := s.file(RoleHostCode), s.file(RoleStub.Of(c.Primary))
	a := s.action(graph.HostPart, c.Host, s.HostCXX.Path)
	depends(a)
	a.Work.Pass.Macros, a.Work.Pass.StageInKey = []string{ListMacro}, s.Lines
	replace(a.Argv, code, graph.StageDir+"/"+path.Base(code))
	a.Work.Pass.Staged = []graph.StagedFile{
		{Name: path.Base(code), From: code},
		{Name: graph.StubName, From: stub},
	}
	// The placeholder for the device code, or with tile code the device code itself.
	var fatbins []string
	staged := &a.Work.Pass.Staged
	if c.TileFatbin == nil {
		*staged = append(*staged, graph.StagedFile{Name: FatbinName, Text: s.FatbinC[c.Placeholder()]})
	} else {
		a.Archs = s.Whole.Archs
		if c.Fatbinary != nil { // not with -tile-only
			fatbins = append(fatbins, s.file(RoleFatbinC))
			*staged = append(*staged, graph.StagedFile{Name: FatbinName, From: fatbins[0]})
		}
		fatbins = append(fatbins, s.file(RoleTileC))
		*staged = append(*staged, graph.StagedFile{Name: TileName, From: s.file(RoleTileC)})
	}
	// nvcc defines the architecture that was named last, and its headers test only whether the
	// macro is defined. A fixed value avoids recompiling host code for another list.
	for i, arg := range a.Argv {
		if strings.HasPrefix(arg, "-D__CUDA_ARCH__=") && len(s.Archs) > 0 {
			a.Argv[i] = fmt.Sprintf("-D__CUDA_ARCH__=%d", s.Archs[0].Num*10)
		}
	}
	a.Inputs = fatbins
	s.ReadTexts(a, code, stub)
	if !s.Lines {
		a.Work.Pass.DiagnosticInputs = append(a.Work.Pass.DiagnosticInputs, s.file(RoleText.Of("host")))
	}
	s.Emit(a)
}

// A device link is split by architecture:
//
//	a.cu.o -> slice [80] -> nvlink [80] --\
//	a.cu.o -> slice [90] -> nvlink [90] ---> fatbinary -> host-part -> dlink.o
//
// A slice holds what nvlink for one architecture reads of an object. A change of host code, or of
// another architecture, does not change it, and the link does not run. The action host-refs lists
// what plain host code refers to.

// File is an input of a device link. Slice names its slices in the folder of an architecture; it is
// "" for a file that nvlink reads as it is.
type File struct{ Path, Slice string }

// Link plans a device link of files.
func (s *Split) Link(c *LinkPasses, files []File) error {
	for _, pass := range c.NVLink {
		if _, err := gencode.Parse(pass.Arch); err != nil {
			return fmt.Errorf("nvlink for %s: %w", pass.Arch, err)
		}
	}
	part := s.Shared != nil && path.Ext(s.Out) == ".cubin"
	if part {
		s.Out = s.Dir + "/" + c.NVLink[0].Arch + ".cubin"
	}
	for _, pass := range c.NVLink {
		var inputs []string
		for _, f := range files {
			inputs = append(inputs, s.slice(f, pass.Arch))
		}
		s.nvlink(pass, inputs)
	}
	if part {
		s.Copy(s.file(RoleOutput), s.Whole.Outputs[0])
	}
	s.fatbinary(c.Fatbinary)
	if c.Host != nil {
		s.linkStub(c.Host)
	}
	return nil
}

// slice returns the file that the link for an architecture reads in place of f, and plans it.
// Several links share a slice.
func (s *Split) slice(f File, arch string) string {
	if f.Slice == "" {
		return f.Path
	}
	out := s.Layout.Out(graph.SlicesDir, arch, f.Slice)
	s.Emit(&graph.Action{Kind: graph.Slice, Name: strings.TrimPrefix(f.Path, s.BuildDir+"/"), Archs: []string{arch},
		Mode: s.Whole.Mode, Inputs: []string{f.Path}, Outputs: []string{out}, Intermediate: true, Transient: true})
	return out
}

// nvlink plans the link of one architecture.
func (s *Split) nvlink(pass *Pass, inputs []string) {
	a := s.action(graph.NVLink, pass, s.Programs["nvlink"])
	a.Inputs = append(a.Inputs, inputs...)
	at := slices.Index(a.Argv, Inputs)
	a.Argv = slices.Replace(a.Argv, at, at+1, a.Inputs...)
	if !s.Plain { // nvcc makes messages name the architecture if it links several
		a.Argv = slices.DeleteFunc(a.Argv, func(arg string) bool { return arg == "-report-arch" })
	}
	a.Archs, a.Work.Pass.EmptyCwd = []string{pass.Arch}, true
	a.Work.Link, a.Work.Response = s.Whole.Work.Link, cuda.OptionsFile
	if refs := a.Link().HostRefs; refs != "" {
		a.Inputs = append(a.Inputs, refs)
	}
	askResourceUsage(a)
	// Packages install libnvvm where nvlink does not search: pip's in lib, as libnvvm.so.4, and
	// Debian's in the system's folder.
	const option = "-nvvmpath="
	for i, arg := range a.Argv {
		if strings.HasPrefix(arg, option) && s.LibNVVM != "" {
			a.Argv[i] = option + graph.StageDir + "/nvvm"
			a.Work.Pass.Staged = []graph.StagedFile{{Name: "nvvm/lib64/libnvvm.so", Link: s.LibNVVM}}
		}
	}
	s.once(a)
}

// askResourceUsage makes the ptxas in nvlink print the resource usage of each function. Of several
// -Xptxas nvlink obeys the last, with a warning.
func askResourceUsage(a *graph.Action) {
	if !slices.Contains(a.Argv, "-dlto") {
		return
	}
	at := -1
	for i, arg := range a.Argv {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "Xptxas") {
			at = i
		}
	}
	switch {
	case at < 0:
		a.Argv, a.Work.Pass.ResourceUsage = slices.Insert(a.Argv, 1, "-Xptxas", "-v"), true
	case a.Argv[at] == "-Xptxas" && at+1 < len(a.Argv) && !slices.ContainsFunc(strings.Fields(a.Argv[at+1]), toolchain.IsVerbose):
		a.Argv[at+1] = strings.TrimSpace(a.Argv[at+1]) + " -v"
		a.Work.Pass.ResourceUsage = true
	}
}

// linkStub plans the compile of the toolkit's link.stub, which registers all linked modules.
func (s *Split) linkStub(pass *Pass) {
	a := s.action(graph.HostPart, pass, s.HostCXX.Path)
	a.Name, a.Archs = s.Whole.Name, s.Whole.Archs
	depends(a)
	a.Work.Pass.Macros = []string{ListMacro}
	s.Emit(a)
}

// What nvcc passes to the host compiler, and how its host code is compiled and linked.

// HostOptions returns the options that nvcc passes to the host compiler. -Xcompiler takes a list,
// in which "\," is a comma that does not split.
func HostOptions(nvcc []string) (options []string) {
	for i := 0; i < len(nvcc); i++ {
		name, list, joined := strings.Cut(nvcc[i], "=")
		if name != "-Xcompiler" && name != "--compiler-options" {
			continue
		}
		if !joined && i+1 < len(nvcc) {
			i++
			list = nvcc[i]
		}
		options = append(options, optfile.SplitCommas(list)...)
	}
	return options
}

// HostHeaders lists the toolkit headers that cudafe++'s output includes, besides those that all
// sources include.
var HostHeaders = []string{"crt/host_runtime.h", "crt/host_defines.h", "crt/func_macro.h", "crt/storage_class.h", "math_constants.h", "fatbinary_section.h"}

// Preprocesses returns the preprocessor commands in nvcc's dry run of a compile.
func Preprocesses(text string) (argvs [][]string, err error) {
	d, err := ParseDryRun(text)
	if err != nil {
		return nil, err
	}
	for _, s := range d.Steps {
		if s.Tool == "gcc" && slices.Contains(s.Argv, "-E") {
			argvs = append(argvs, s.Argv)
		}
	}
	return argvs, nil
}

// Programs lists the programs of a toolkit that nvcc runs.
var Programs = []string{"cicc", "cudafe++", "ptxas", "fatbinary", "nvlink"}

// TileIRAS is the program that compiles tile code. A toolkit may lack it (13.1 and newer).
const TileIRAS = "tileiras"

// Missing returns which of Programs a toolkit lacks, "" if none. programs maps names to paths.
func Missing(programs map[string]string) string {
	for _, name := range Programs {
		if programs[name] == "" {
			return "the toolkit's " + name + " was not found"
		}
	}
	return ""
}

// Libraries lists the toolkit libraries that links use; the last one only if cudart = "shared".
var Libraries = []string{"libcudadevrt.a", "libcudart_static.a", "libcudart.so"}
