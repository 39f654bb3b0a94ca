package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// One nvcc command is taken apart into the passes that it runs, each an action:
//
//	a.cu -> preprocess [80] -> cicc [80] -> ptxas [80] --\
//	a.cu -> preprocess [90] -> cicc [90] -> ptxas [90] ---> fatbinary ---\
//	                 cicc [90] -> stub --\                                > join -> a.cu.o
//	a.cu -> preprocess [host] -> cudafe++ -> host-part ------------------/
//
// PTX that is shipped as it is goes through a ptxas that only checks it, where nvcc has one (13.0 and newer, from compute_90 on).
//
// nvcc compiles the host code last, with the device code inside. Here it is compiled with a placeholder, and join
// puts the device code in afterwards: a change of device code compiles no host code, and the other way round.
//
// Three things keep every output the same in every folder and on every run: PWD=/proc/self/cwd, which the
// compilers believe to be the folder they run in; a module id of our own in place of nvcc's, which is made of the
// absolute path, the time and the process id; and an empty folder for ptxas and nvlink, which put time and
// size of the sources into line tables if they find them.

// learned remembers passes, since all sources of a target ask the same question.
type learned[P any] struct {
	passes *P
	err    error
}

// answer looks a dry run up. An unanswered question is noted.
func (b *builder) answer(q Question) (string, error) {
	key := q.Key()
	run, ok := b.facts.DryRuns[key]
	switch {
	case !ok:
		if b.asked == nil {
			b.asked = map[string]bool{}
		}
		if !b.asked[key] {
			b.asked[key] = true
			b.questions = append(b.questions, q)
		}
		return "", errNotAsked
	case run.Misread != "":
		return "", errors.New(run.Misread)
	case run.Error != "":
		return "", refused{q.Tool, run.Error}
	}
	return run.Text, nil
}

var errNotAsked = errors.New("it was not asked for its steps")

// refused is a driver's error in place of its steps.
type refused struct{ tool, said string }

func (r refused) Error() string {
	return map[string]string{"nvcc": "nvcc --dryrun", "hip": "hipcc -###", "clang": "clang -###"}[r.tool] + ": " + r.said
}

// learn has an answer read once for all that ask the same.
func learn[P any](b *builder, known *map[string]learned[P], q Question, read func(string) (*P, error)) (*P, error) {
	key := q.Key()
	l, ok := (*known)[key]
	if !ok {
		text, err := b.answer(q)
		if l.err = err; err == nil {
			l.passes, l.err = read(text)
		}
		if *known == nil {
			*known = map[string]learned[P]{}
		}
		(*known)[key] = l
	}
	return l.passes, l.err
}

// unsplit says why nvcc stays whole for t, before it is asked anything.
func (b *builder) unsplit(t *target) string {
	if why := b.wished(t); why != "" {
		return why
	}
	for _, tool := range ToolkitPrograms {
		if b.facts.CUDA.Programs[tool] == "" {
			return "the toolkit's " + tool + " was not found"
		}
	}
	return ""
}

// wished says how the user asked for a compiler in one piece, "" if nobody did.
func (b *builder) wished(t *target) string {
	switch {
	case b.options.NoSplit:
		return "--no-split"
	case t.Split != nil && !*t.Split:
		return "split = false"
	}
	return ""
}

// split is one nvcc command being taken apart.
type split struct {
	b     *builder
	t     *target
	whole *graph.Action // the command in one piece
	env   []string
	dir   string // of the parts
	lines bool   // outputs record line numbers
	out   string // file of RoleOutput
	id    string // of the module, for compiles

	shared *sharing // of a module: what is planned for its other formats; else nil
}

// partsDir holds the parts of the file out.
func (b *builder) partsDir(out string) string {
	return b.out(graph.PartsDir, b.inTree(out))
}

// emitCompile plans a compile of nvcc, taken apart if possible.
func (b *builder) emitCompile(t *target, s manifest.Source, whole *graph.Action) {
	passes := b.learnCompile(t, s, whole, whole.Argv)
	options := b.hostOptions(s.Flags)
	if passes != nil && passes.Host != nil {
		options = unplaced(passes.Host)
	}
	if i := slices.IndexFunc(options, isSpecs); i >= 0 {
		passes, whole.CwdInKey, whole.Work.Driver.UnsplitReason = nil, true, options[i]+" may have the host compiler do anything"
	}
	if b.besideObject(t, whole, b.facts.CUDA.HostCXX.Family, options, s.Flags) {
		passes, whole.Work.Driver.UnsplitReason = nil, "its host compiler writes or reads files beside the object"
	}
	if passes != nil {
		err := b.splitCompile(t, s, whole, passes)
		if err == nil {
			b.nvccWarns(t, passes.Said)
			return
		}
		whole.Work.Driver.UnsplitReason = err.Error()
	}
	b.emit(t, whole)
}

// learnCompile gives the passes of a command of nvcc, or nil and says in whole why it stays in one piece. ask is the argv that tells
// the passes; it is whole's where nvcc makes the output by itself.
func (b *builder) learnCompile(t *target, s manifest.Source, whole *graph.Action, ask []string) *nvcc.CompilePasses {
	driver := &graph.Driver{UnsplitReason: b.unsplit(t)}
	if whole.Work.Driver = driver; driver.UnsplitReason != "" {
		return nil
	}
	question := Question{"nvcc", nvcc.Ask(ask, s.Path, askedOutput(ask), whole.Depfile)}
	driver.DryRunKey = question.Key()
	passes, err := learn(b, &b.compiles, question, nvcc.LearnCompile)
	if err != nil {
		driver.UnsplitReason = err.Error()
		return nil
	}
	return passes
}

// nvccWarns passes on what the driver has to say of a target's architectures, which no pass says.
func (b *builder) nvccWarns(t *target, said string) {
	for line := range strings.Lines(said) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "nvcc warning"), " : "))
		b.warnf(t.attr("gencode"), "", "nvcc: %s", text)
	}
}

// askedOutput is the argument after -o.
func askedOutput(argv []string) string {
	i := slices.Index(argv, "-o")
	return argv[i+1]
}

func (b *builder) newSplit(t *target, whole *graph.Action, env []string) *split {
	return &split{b: b, t: t, whole: whole, env: append([]string{anywhere}, env...),
		dir: b.partsDir(whole.Outputs[0]), out: whole.Outputs[0]}
}

// passOf is the driver's command as a pass of it knows it.
func passOf(whole *graph.Action) *graph.Driver {
	return &graph.Driver{Argv: whole.Argv, DryRunKey: whole.Driver().DryRunKey}
}

// splitCompile emits the passes of one source.
func (b *builder) splitCompile(t *target, s manifest.Source, whole *graph.Action, c *nvcc.CompilePasses) error {
	if c.Host != nil && b.facts.CUDA.FatbinC[placeholder(s.Mode)] == "" {
		return fmt.Errorf("fatbinary was not asked for the form of its output")
	}
	if c.Host != nil {
		if err := joinable(unplaced(c.Host)); err != nil {
			return err
		}
	}
	p := b.newSplit(t, whole, c.Env)
	p.id, p.lines = moduleID(t.label, s), b.keepsLines(whole, c)
	if c.Host != nil {
		p.out = p.dir + "/host.o"
	}
	p.device(c, false)
	if c.Host != nil {
		p.preprocess(c.Preprocess["host"])
		p.cudafe(c.Cudafe)
		p.host(s, c)
		p.join()
	}
	return nil
}

// isSpecs reports a file that tells gcc how to run what it runs.
func isSpecs(option string) bool {
	return strings.HasPrefix(option, "-specs=") || strings.HasPrefix(option, "--specs=")
}

// joinable wants host code that device code can be put into afterwards. options are those of its compile, whoever asked for them: the
// manifest, or NVCC_APPEND_FLAGS.
func joinable(options []string) error {
	if o := host.IntermediateCode(options); o != "" {
		return fmt.Errorf("%s makes intermediate code of the host code, and a link takes device code from there", o)
	}
	return nil
}

// device plans the passes that make device code. They end with LTO-IR if only that is wanted.
func (p *split) device(c *nvcc.CompilePasses, ltoir bool) {
	for _, pass := range c.CICC {
		p.preprocess(c.Preprocess[pass.Arch])
		p.cicc(pass)
	}
	if ltoir {
		return
	}
	for _, pass := range c.Checks {
		a := p.action(graph.PTXAS, pass, p.program("ptxas"))
		a.Archs, a.Work.Step.EmptyCwd, a.Work.Step.Gate = []string{pass.Arch}, true, true
		p.once(a)
	}
	for _, pass := range c.PTXAS {
		a := p.action(graph.PTXAS, pass, p.program("ptxas"))
		a.Archs, a.Work.Step.EmptyCwd = []string{pass.Arch}, true
		askFigures(a)
		p.once(a)
	}
	if c.Fatbinary != nil {
		a := p.action(graph.Fatbinary, c.Fatbinary, p.program("fatbinary"))
		a.Transient = a.Intermediate
		p.emit(a)
	}
}

// keepsLines reports whether what a command of nvcc makes tells lines of the source.
func (b *builder) keepsLines(whole *graph.Action, c *nvcc.CompilePasses) bool {
	// clang spells positions into __PRETTY_FUNCTION__ of lambdas; gcc does not.
	return whole.CwdInKey || recordsLines(c) || strings.Contains(path.Base(b.facts.CUDA.HostCXX.Path), "clang")
}

// unplaced is the command of a pass without its files.
func unplaced(p *nvcc.Pass) []string {
	return p.Argv("", func(nvcc.Role) string { return "" })
}

// recordsLines reports an option of any pass that puts positions of the source into an output: debug
// information, line tables, coverage, sanitizers.
func recordsLines(c *nvcc.CompilePasses) bool {
	passes := append(append(slices.Clone(c.CICC), c.PTXAS...), c.Cudafe, c.Host)
	for _, p := range passes {
		if p == nil {
			continue
		}
		for _, a := range unplaced(p) {
			for _, sign := range lineSigns {
				if strings.HasPrefix(a, sign) {
					return true
				}
			}
			if strings.Contains(a, "line-info") || strings.Contains(a, "lineinfo") || strings.Contains(a, "debug") {
				return true
			}
		}
	}
	return false
}

// lineSigns start options that put positions of the source into an output, or may: gcc's debug information, also
// through the assembler, coverage and profiles, sanitizers, and outputs that are text or bytecode.
var lineSigns = []string{"-g", "-fsanitize", "--coverage", "-fprofile", "-fauto-profile", "-fbranch-prob", "-ftest-coverage",
	"-finstrument", "-fplugin", "-flto", "-fverbose-asm", "-fcallgraph-info", "-fdump", "-save-temps", "-Wa,", "-Xassembler"}

func placeholder(mode string) string {
	if mode == "whole" {
		return "whole"
	}
	return "rdc"
}

func (p *split) program(tool string) string { return p.b.facts.CUDA.Programs[tool] }

// file is where a role's file is.
func (p *split) file(r nvcc.Role) string {
	file := p.own(r)
	if p.shared != nil && p.shared.made[file] != "" {
		return p.shared.made[file]
	}
	return file
}

// own is where this command puts a role's file.
func (p *split) own(r nvcc.Role) string {
	kind, arch, _ := strings.Cut(string(r), ":")
	switch nvcc.Role(kind) {
	case nvcc.RoleSource:
		return p.whole.Inputs[0]
	case nvcc.RoleOutput:
		return p.out
	case nvcc.RoleModuleID:
		return graph.StageDir + "/module_id"
	case nvcc.RoleScratch:
		return graph.StageDir + "/unread." + arch
	case nvcc.RoleLinkInput:
		return nvcc.Inputs
	case nvcc.RoleText:
		return p.dir + "/" + arch + ".ii"
	case nvcc.RoleStub:
		return p.dir + "/" + arch + ".stub.c"
	case nvcc.RoleHostCode:
		return p.dir + "/" + p.stem() + ".cudafe1.cpp"
	case nvcc.RoleFatbin, nvcc.RoleFatbinC:
		return p.dir + "/" + kind
	case nvcc.RoleUnchecked:
		return p.dir + "/" + arch + ".unchecked.ptx"
	case nvcc.RoleRegister:
		return p.dir + "/" + arch + ".reg.c"
	}
	return p.dir + "/" + arch + "." + kind // ptx, ltoir, cubin
}

func (p *split) stem() string {
	base := path.Base(p.whole.Inputs[0])
	return strings.TrimSuffix(base, path.Ext(base))
}

// canon is the file with the canonical form of a text. It keeps the ending, by which cicc knows its input.
func (p *split) canon(file string) string {
	ext := path.Ext(file)
	return strings.TrimSuffix(file, ext) + ".canon" + ext
}

// action makes the action of a pass. It is a part unless it writes the output that the user asked for.
func (p *split) action(kind graph.Kind, pass *nvcc.Pass, program string) *graph.Action {
	a := &graph.Action{Kind: kind, Name: p.whole.Name, Mode: p.whole.Mode, Env: p.env, Tools: []string{"nvcc"}, Intermediate: true,
		Argv: p.argv(pass, program), Memory: p.whole.Memory, Work: graph.Work{Driver: passOf(p.whole), Step: &graph.Step{}}}
	if kind != graph.Preprocess {
		a.Work.Step.UnkeyedPaths = p.whole.Inputs[:1]
	}
	for _, r := range pass.In {
		if r == nvcc.RoleSource && kind != graph.Preprocess {
			continue // --ident of fatbinary names it
		}
		if r != nvcc.RoleModuleID && r != nvcc.RoleLinkInput {
			a.Inputs = append(a.Inputs, p.file(r))
		}
	}
	for _, r := range pass.Out {
		a.Outputs = append(a.Outputs, p.file(r))
	}
	if a.Outputs[0] == p.whole.Outputs[0] {
		a.Intermediate = false
		if p.shared != nil {
			a.Name = path.Base(a.Outputs[0]) // parts are of several formats
		}
	}
	return a
}

// argv gives a pass its files, and the list of architectures that gencode's arch_list wants.
func (p *split) argv(pass *nvcc.Pass, program string) []string {
	argv := pass.Argv(program, p.file)
	if list := p.t.Gencode.ArchList; len(list) > 0 {
		for i, a := range argv {
			if strings.HasPrefix(a, "-D"+nvcc.ListMacro+"=") {
				argv[i] = "-D" + nvcc.ListMacro + "=" + archList(list)
			}
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

func (p *split) emit(a *graph.Action) { p.b.emit(p.t, a) }

// preprocess plans the text of one architecture, or of the host.
func (p *split) preprocess(pass *nvcc.Pass) {
	k := p.b.facts.CUDA
	a := p.action(graph.Preprocess, pass, k.HostCXX.Path)
	a.Archs, a.Transient = []string{pass.Arch}, true
	if !strings.Contains(path.Base(k.HostCXX.Path), "clang") {
		a.Argv = append(a.Argv, "-dU") // shows which macros the text used; gcc only
		a.Work.Step.Macros = []string{nvcc.ListMacro}
	}
	depends(a)
	a.SearchDirs, a.OrderOnly = p.whole.SearchDirs, p.whole.OrderOnly
	p.text(a, a.Outputs[0], false)
	p.once(a)
}

// depends has gcc write which files it read.
func depends(a *graph.Action) {
	a.Depfile = a.Outputs[0] + ".d"
	a.Argv = append(a.Argv, "-MD", "-MF", a.Depfile)
}

// text adds the canonical form of an output, if the compile records no lines.
func (p *split) text(a *graph.Action, raw string, dropFalse bool) {
	if p.lines {
		return
	}
	a.Work.Step.CanonicalForms = append(a.Work.Step.CanonicalForms, graph.CanonicalForm{Raw: raw, Canon: p.canon(raw), DropFalse: dropFalse})
	a.Outputs = append(a.Outputs, p.canon(raw))
}

// cicc plans the device compile of one architecture. PTX has no line numbers, so that the true text is compiled
// and its messages are right; LTO-IR has, and is made of the canonical text unless there is something to say.
func (p *split) cicc(pass *nvcc.Pass) {
	a := p.action(graph.CICC, pass, p.program("cicc"))
	a.Archs = []string{pass.Arch}
	a.Work.Step.Staged = []graph.StagedFile{{Name: "module_id", Text: p.id}}
	raw := p.file(nvcc.RoleText.Of(pass.Arch))
	if !p.lines {
		replace(a.Inputs, raw, p.canon(raw))
		a.Work.Step.DiagnosticInputs = []string{raw}
		if slices.Contains(pass.Out, nvcc.RoleLTOIR.Of(pass.Arch)) {
			a.Work.Step.DiagnosticArgv = slices.Clone(a.Argv)
			replace(a.Argv, raw, p.canon(raw))
		}
	}
	for _, o := range slices.Clone(a.Outputs) {
		if strings.HasSuffix(o, ".stub.c") {
			p.text(a, o, false)
		}
	}
	p.once(a)
}

func replace(list []string, from, to string) {
	for i := range list {
		if list[i] == from {
			list[i] = to
		}
	}
}

// sourceHash is 64 hexadecimal digits for a source within any program.
func sourceHash(label string, s manifest.Source) string {
	h := sha256.Sum256([]byte(label + "\x00" + s.Path + "\x00" + s.Partition))
	return hex.EncodeToString(h[:])
}

// moduleID names the source within any program: nvcc's form, made of the target, the path and the variant.
func moduleID(label string, s manifest.Source) string {
	hash := sourceHash(label, s)
	base := strings.Map(func(r rune) rune {
		if r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, path.Base(s.Path))
	return fmt.Sprintf("_%s_%d_%s_%s", hash[:8], len(base), base, hash[8:16])
}

func (p *split) cudafe(pass *nvcc.Pass) {
	a := p.action(graph.Cudafe, pass, p.program("cudafe++"))
	a.Transient = true
	a.Work.Step.Staged = []graph.StagedFile{{Name: "module_id", Text: p.id}}
	raw := p.file(nvcc.RoleText.Of("host"))
	if !p.lines {
		replace(a.Inputs, raw, p.canon(raw))
		a.Work.Step.DiagnosticInputs = []string{raw}
	}
	p.text(a, a.Outputs[0], true)
	p.emit(a)
}

// host plans the compile of the host code, with a placeholder for the device code.
func (p *split) host(s manifest.Source, c *nvcc.CompilePasses) {
	code, stub := p.file(nvcc.RoleHostCode), p.file(nvcc.RoleStub.Of(c.Primary))
	a := p.action(graph.HostPart, c.Host, p.b.facts.CUDA.HostCXX.Path)
	depends(a)
	a.Work.Step.Macros, a.Work.Step.StageInKey = []string{nvcc.ListMacro}, p.lines
	staged := graph.StageDir + "/" + path.Base(code)
	replace(a.Argv, code, staged)
	a.Work.Step.Staged = []graph.StagedFile{
		{Name: path.Base(code), From: code},
		{Name: nvcc.StubName, From: stub},
		{Name: nvcc.FatbinName, Text: p.b.facts.CUDA.FatbinC[placeholder(s.Mode)]},
	}
	// nvcc passes some architecture of the list, the last one named, and its headers ask only whether there is
	// one. A fixed one keeps host code from being compiled again for another list.
	for i, arg := range a.Argv {
		if strings.HasPrefix(arg, "-D__CUDA_ARCH__=") && len(p.b.facts.CUDA.Archs) > 0 {
			a.Argv[i] = fmt.Sprintf("-D__CUDA_ARCH__=%d", p.b.facts.CUDA.Archs[0].Num*10)
		}
	}
	a.Inputs = []string{code, stub}
	if !p.lines {
		a.Inputs = []string{p.canon(code), p.canon(stub)}
		a.Work.Step.DiagnosticInputs = []string{code, stub, p.file(nvcc.RoleText.Of("host"))}
	}
	p.emit(a)
}

// join plans the object that the user knows.
func (p *split) join() {
	p.emit(&graph.Action{Kind: graph.Join, Name: p.whole.Name, Archs: p.whole.Archs, Mode: p.whole.Mode,
		Inputs: []string{p.out, p.file(nvcc.RoleFatbin)}, Outputs: p.whole.Outputs, Work: graph.Work{Driver: passOf(p.whole)}})
}
