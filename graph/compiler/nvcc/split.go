package nvcc

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// One nvcc command is taken apart into the passes that it runs, each an action:
//
//	a.cu -> preprocess [80] -> cicc [80] -> ptxas [80] --\
//	a.cu -> preprocess [90] -> cicc [90] -> ptxas [90] ---> fatbinary ---\
//	                 cicc [90] -> stub --\                                > join -> a.cu.o
//	a.cu -> preprocess [host] -> cudafe++ -> host-part ------------------/
//
// PTX that is shipped as it is goes through a ptxas that only checks it, where nvcc has one (13.0
// and newer, from compute_90 on).
//
// nvcc compiles the host code last, with the device code inside. Here it is compiled with a
// placeholder, and join puts the device code in afterwards: a change of device code compiles no
// host code, and the other way round.
//
// Three things keep every output the same in every folder and on every run: PWD=/proc/self/cwd,
// which the compilers believe to be the folder they run in; a module id of our own in place of
// nvcc's, which is made of the absolute path, the time and the process id; and an empty folder for
// ptxas and nvlink, which put time and size of the sources into line tables if they find them.

// Kit is what the passes take of an installed toolkit.
type Kit struct {
	Programs map[string]string // by name: "cicc"
	HostCXX  string
	FatbinC  map[string]string // see CompilePasses.Placeholder
	Archs    []gencode.Code    // that the toolkit knows
	ArchList []gencode.Code    // those that sources are to find in ListMacro; none are those of the compile
	LibNVVM  string            // where nvlink -dlto looks for it in vain; else ""
}

// Split is one nvcc command being taken apart.
type Split struct {
	compiler.Unit
	Kit
	Out    string   // file of RoleOutput
	Shared *Sharing // of a module: what is planned for its other formats; else nil
}

// NewSplit takes apart the command of u, whose passes run with the variables env.
func NewSplit(u compiler.Unit, k Kit, env []string) *Split {
	u.Env = append([]string{compiler.Anywhere}, env...)
	return &Split{Unit: u, Kit: k, Out: u.Whole.Outputs[0]}
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
		s.Join(s.Out, s.file(RoleFatbin))
	}
}

// device plans the passes that make device code. They end with LTO-IR if only that is wanted.
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
		a.Archs, a.Work.Step.EmptyCwd, a.Work.Step.Gate = []string{pass.Arch}, true, true
		s.once(a)
	}
	for _, pass := range c.PTXAS {
		a := s.action(graph.PTXAS, pass, s.Programs["ptxas"])
		a.Archs, a.Work.Step.EmptyCwd = []string{pass.Arch}, true
		compiler.AskResourceUsage(a)
		s.once(a)
	}
	s.fatbinary(c.Fatbinary)
	for _, pass := range c.TileIRAS {
		a := s.action(graph.TileIRAS, pass, s.Programs["tileiras"])
		a.Archs, a.Work.Step.EmptyCwd = []string{pass.Arch}, true
		s.once(a)
	}
	s.fatbinary(c.TileFatbin)
}

// fatbinary plans the pass, if there is one.
func (s *Split) fatbinary(pass *Pass) {
	if pass != nil {
		a := s.action(graph.Fatbinary, pass, s.Programs["fatbinary"])
		a.Transient = a.Intermediate
		s.Emit(a)
	}
}

// Unplaced is the command of a pass without its files.
func (p *Pass) Unplaced() []string { return p.Argv("", func(Role) string { return "" }) }

// Options are those of all passes that make the output.
func (c *CompilePasses) Options() (all []string) {
	for _, p := range append(slices.Concat(c.CICC, c.PTXAS, c.TileIRAS), c.Cudafe, c.Host) {
		if p != nil {
			all = append(all, p.Unplaced()...)
		}
	}
	return all
}

// Placeholder is the key of Kit.FatbinC: the C text that fatbinary makes of some image, with which
// the host code is compiled before there is device code. It goes by fatbinary and not by the mode:
// -ewp has a whole program wait for a device link.
func (c *CompilePasses) Placeholder() string {
	if slices.Contains(c.Fatbinary.Unplaced(), "--device-c") {
		return "rdc"
	}
	return "whole"
}

// file is where a role's file is.
func (s *Split) file(r Role) string {
	file := s.own(r)
	if s.Shared != nil && s.Shared.made[file] != "" {
		return s.Shared.made[file]
	}
	return file
}

// own is where this command puts a role's file.
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

// action makes the action of a pass that reads no source.
func (s *Split) action(kind graph.Kind, pass *Pass, program string) *graph.Action {
	var outputs []string
	for _, r := range pass.Out {
		outputs = append(outputs, s.file(r))
	}
	a := s.Action(kind, s.argv(pass, program), outputs...)
	if program != s.HostCXX {
		a.Tools = []string{Toolkit}
	}
	a.Work.Step.UnkeyedPaths = s.Source()
	if s.Named != "" {
		a.Work.Step.UnkeyedPaths = append(slices.Clone(s.Source()), s.Named)
	}
	for _, r := range pass.In {
		if r != RoleModuleID && r != RoleLinkInput {
			a.Inputs = append(a.Inputs, s.file(r))
		}
	}
	if !a.Intermediate && s.Shared != nil {
		a.Name = path.Base(a.Outputs[0]) // passes are of several formats
	}
	return a
}

// argv gives a pass its files, and the list of architectures that is wanted.
func (s *Split) argv(pass *Pass, program string) []string {
	argv := pass.Argv(program, s.file)
	for i, a := range argv {
		if len(s.ArchList) > 0 && strings.HasPrefix(a, "-D"+ListMacro+"=") {
			argv[i] = "-D" + ListMacro + "=" + archList(s.ArchList)
		}
	}
	return argv
}

// archList spells architectures as nvcc does: 700,800.
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
	a := s.Preprocess(pass.Arch, s.argv(pass, s.HostCXX), s.file(pass.Out[0]))
	if !strings.Contains(path.Base(s.HostCXX), "clang") {
		a.Argv = append(a.Argv, "-dU") // shows which macros the text used; gcc only
		a.Work.Step.Macros = []string{ListMacro}
	}
	depends(a)
	if s.Includes {
		a.Argv = append(a.Argv, "-dI")
	}
	if s.Files {
		if a.Work.Step.FilesOutput = compiler.FilesOf(a.Outputs[0]); s.Own {
			a.Work.Step.FilesOutput, a.Work.Step.WithoutSystem = compiler.OwnFilesOf(a.Outputs[0]), true
		}
		a.Outputs = append(a.Outputs, a.Work.Step.FilesOutput)
	}
	s.once(a)
}

// depends has gcc write which files it read.
func depends(a *graph.Action) {
	a.Depfile = a.Outputs[0] + ".d"
	a.Argv = append(a.Argv, "-MD", "-MF", a.Depfile)
}

// cicc plans the device compile of one architecture. PTX has no line numbers, so that the true text
// is compiled and its messages are right; LTO-IR has, and is made of the canonical text unless
// there is something to say.
func (s *Split) cicc(pass *Pass) {
	a := s.action(graph.CICC, pass, s.Programs["cicc"])
	a.Archs = []string{pass.Arch}
	s.stageID(a)
	raw := s.file(RoleText.Of(pass.Arch))
	s.readText(a, raw)
	if !s.Lines && slices.Contains(pass.Out, RoleLTOIR.Of(pass.Arch)) {
		a.Work.Step.DiagnosticArgv = slices.Clone(a.Argv)
		replace(a.Argv, raw, compiler.Canonical(raw))
	}
	for _, o := range slices.Clone(a.Outputs) {
		if strings.HasSuffix(o, ".stub.c") {
			s.AddCanonical(a, o, graph.CanonicalForm{})
		}
	}
	s.once(a)
}

// stageID writes the name of the source for a pass.
func (s *Split) stageID(a *graph.Action) {
	a.Work.Step.Staged = []graph.StagedFile{{Name: "module_id", Text: s.ID}}
}

// readText puts the canonical form of a text in its place among the inputs of a, unless the outputs
// record lines.
func (s *Split) readText(a *graph.Action, raw string) {
	if !s.Lines {
		replace(a.Inputs, raw, compiler.Canonical(raw))
		a.Work.Step.DiagnosticInputs = []string{raw}
	}
}

func replace(list []string, from, to string) {
	for i := range list {
		if list[i] == from {
			list[i] = to
		}
	}
}

// ModuleID names a source within any program in nvcc's form, made of the target, the path and the
// variant.
func ModuleID(label, source, partition string) string {
	hash := compiler.SourceHash(label, source, partition)
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

// host plans the compile of the host code, with a placeholder for the device code. Host code that
// includes two fatbins, the second of tile code, gets them as they are, and waits for them: join
// knows the place of one.
func (s *Split) host(c *CompilePasses) {
	code, stub := s.file(RoleHostCode), s.file(RoleStub.Of(c.Primary))
	a := s.action(graph.HostPart, c.Host, s.HostCXX)
	depends(a)
	a.Work.Step.Macros, a.Work.Step.StageInKey = []string{ListMacro}, s.Lines
	replace(a.Argv, code, graph.StageDir+"/"+path.Base(code))
	a.Work.Step.Staged = []graph.StagedFile{
		{Name: path.Base(code), From: code},
		{Name: StubName, From: stub},
	}
	fatbins := s.stageFatbins(a, c)
	// nvcc passes some architecture of the list, the last one named, and its headers ask only
	// whether there is one. A fixed one keeps host code from being compiled again for another list.
	for i, arg := range a.Argv {
		if strings.HasPrefix(arg, "-D__CUDA_ARCH__=") && len(s.Archs) > 0 {
			a.Argv[i] = fmt.Sprintf("-D__CUDA_ARCH__=%d", s.Archs[0].Num*10)
		}
	}
	a.Inputs = fatbins
	s.ReadTexts(a, code, stub)
	if !s.Lines {
		a.Work.Step.DiagnosticInputs = append(a.Work.Step.DiagnosticInputs, s.file(RoleText.Of("host")))
	}
	s.Emit(a)
}

// stageFatbins puts what stands for the device code before the host code that includes it, or,
// where there is tile code, the device code itself, and gives its files.
func (s *Split) stageFatbins(a *graph.Action, c *CompilePasses) (files []string) {
	staged := &a.Work.Step.Staged
	if c.TileFatbin == nil {
		*staged = append(*staged, graph.StagedFile{Name: FatbinName, Text: s.FatbinC[c.Placeholder()]})
		return nil
	}
	a.Archs = s.Whole.Archs
	if c.Fatbinary != nil { // not with -tile-only
		files = append(files, s.file(RoleFatbinC))
		*staged = append(*staged, graph.StagedFile{Name: FatbinName, From: files[0]})
	}
	*staged = append(*staged, graph.StagedFile{Name: TileName, From: s.file(RoleTileC)})
	return append(files, s.file(RoleTileC))
}
