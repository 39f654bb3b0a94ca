package nvcc

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Toolchain is nvcc with the toolkit that it belongs to.
type Toolchain struct{ cuda.Host }

// ready is cuda.Host.Ready, and checks the flags of the environment.
func (k *Toolchain) ready(b *toolchain.Build, p *toolchain.Plan, pos manifest.Pos) bool {
	if k.Toolkit != nil && !b.Reported[toolchain.NoToolkit] && !k.RefusesHost(b) {
		for _, f := range k.Flags {
			why, help := manifest.LostNVCC(f)
			if IsTime(f) {
				why, help = "all sources would write one file", "Put it into flags.nvcc of a partition of one source."
			}
			if why != "" {
				p.Errorf(pos, help, "the environment has %s for nvcc, and %s", f, why)
			}
		}
	}
	return k.Ready(b, p, pos)
}

func (k *Toolchain) driver() Driver {
	return Driver{Path: k.NVCC.Path, HostCXX: k.HostCXX.Path, LibDir: k.LibDir}
}

// Reads implements toolchain.Toolchain.
func (k *Toolchain) Reads(m toolchain.Member) (lto, rdc bool) {
	lto = m.NVLinkReads() && m.Holds(gencode.LTO)
	return lto, m.NVLinkReads() && !lto
}

// Compile implements toolchain.Toolchain.
func (k *Toolchain) Compile(r toolchain.CompileRequest) (c toolchain.Compiled) {
	t, s, b := r.Target, r.Source, r.Build
	if !k.ready(b, &c.Plan, s.Pos) {
		return c
	}
	if s.Language != "cuda" {
		k.wrap(r, &c.Plan)
		return c
	}
	checkStd(b, &c.Plan, t, s)
	codes := t.CodesOf(s).Compiled(s.Mode)
	if len(codes) == 0 {
		if len(t.Codes.PTX)+len(t.Codes.LTO) > 0 { // else t has no code at all, which is reported elsewhere
			c.Errorf(t.Attr("gencode"), "Add the architectures to link for, for example sm_80.",
				"%s is compiled for a device link and ships no machine code (%s)", s.Path, toolchain.Spell(append(t.Codes.PTX, t.Codes.LTO...)))
		}
		return c
	}
	o := deviceOptions(t, s, r.Searched(s))
	several := slices.ContainsFunc(t.Sources, func(other manifest.Source) bool {
		return timeOptions(other) != nil && (other.Path != s.Path || other.Partition != s.Partition)
	})
	_, timed, files := SplitTimes(s.Flags.NVCC, r.Output, several)
	o.Flags = append(o.Flags, timed...)
	options := slices.Concat(HostOptions(k.Flags), HostOptions(s.Flags.NVCC), s.Flags.Host)
	k.checkQuoting(&c.Plan, t, s, r.Sources)
	c.CheckDepends(t, s.Flags.NVCC, k.Flags, options)
	whole := r.Command(codes, k.driver().Compile(r.Compile(codes), o), k.env(), "nvcc")
	whole.Outputs, whole.InPlace = append(whole.Outputs, files...), len(files) > 0
	whole.CwdInKey = t.Debugs() || host.AsksForDebug(slices.Concat(s.Flags.NVCC, k.Flags, options))
	c.CheckSources(t, whole, files, s.Flags)
	c.OK = true

	passes, err := k.learnCompile(b, t, whole, whole.Argv)
	if err == nil && passes.Host != nil {
		options = passes.Host.Unplaced()
	}
	if specs := RefusedOption(options); specs != nil {
		whole.CwdInKey, err = true, specs
	}
	if err == nil {
		err = passes.Refused(k.Toolkit)
	}
	if c.BesideObject(t, whole, k.HostCXX.Family, options, s.Flags, "-Xcompiler", b.Seed(t, s.Path)) {
		err = errors.New("its host compiler writes or reads files beside the object")
	}
	if timed := timeOptions(s); timed != nil {
		err = toolchain.OptOut(strings.Join(timed, " "))
	}
	if err == nil {
		if f, ok := recordedFloats(strings.Join(passes.CICC[0].Unplaced(), " ")); ok && s.Mode == "lto" {
			c.Floats = &f
		}
		k.newSplit(t, s, b.NewUnit(&c.Plan, whole, r.Output), passes).Compile(passes)
		warn(&c.Plan, t, passes.Said)
		return c
	}
	fallBack(b, &c.Plan, s.Pos, whole, err)
	if s.Mode == "lto" && len(k.Flags)+len(s.Flags.CICC) > 0 {
		c.Floats = floatsInDryRun(b, askSteps(whole, whole.Argv))
	}
	c.Emit(whole)
	return c
}

// Refused returns why a compile with these passes is not split, or nil.
func (c *CompilePasses) Refused(k *cuda.Toolkit) error {
	switch {
	case len(c.TileIRAS) > 0 && k.Programs[TileIRAS] == "":
		return errors.New("the toolkit's tileiras was not found")
	case c.Host == nil:
		return nil
	case c.TileFatbin == nil && k.FatbinC[c.Placeholder()] == "":
		return errors.New("fatbinary was not asked for the form of its output")
	}
	return cmp.Or(RefusedOption(c.Host.Unplaced()), host.Joinable(c.Host.Unplaced()))
}

// RefusedOption returns an error for an option of the host compiler whose effects are unknown.
func RefusedOption(options []string) error {
	if i := slices.IndexFunc(options, host.IsSpecs); i >= 0 {
		return errors.New(options[i] + " may have the host compiler do anything")
	}
	return nil
}

// checkStd rejects a standard that nvcc does not support, once for each target.
func checkStd(b *toolchain.Build, p *toolchain.Plan, t *toolchain.Target, s manifest.Source) {
	if strings.HasPrefix(s.Std, "gnu") && b.Once("standard of "+t.Label) {
		p.Errorf(t.StdPos(s), `Set cuda_std = "`+strings.Replace(s.Std, "gnu", "c", 1)+`" beside it, for the CUDA sources.`,
			"nvcc has no %s, and %s is CUDA", s.Std, s.Path)
	}
}

// timeOptions returns the options that make nvcc record how long the steps of a compile of s take.
func timeOptions(s manifest.Source) (options []string) {
	if s.Language == "cuda" {
		_, options, _ = SplitTimes(s.Flags.NVCC, "", false)
	}
	return options
}

// env returns the additional environment of an unsplit nvcc command.
func (k *Toolchain) env() []string {
	if k.LibPath != "" {
		return []string{"LD_LIBRARY_PATH=" + k.LibPath}
	}
	return nil
}

// deviceOptions returns the attributes of t and its source s as options for nvcc, without those
// that make nvcc record times.
func deviceOptions(t *toolchain.Target, s manifest.Source, inc []string) toolchain.Options {
	o := toolchain.CommonOptions(t, s, inc)
	o.Opt, o.PrecSqrt, o.MaxRegisters, o.CICC, o.PTXAS = toolchain.HostLevels.Of(t, s), t.PrecSqrt, t.MaxRegisters, s.Flags.CICC, s.Flags.PTXAS
	o.Flags, _, _ = SplitTimes(s.Flags.NVCC, "", false)
	return o
}

// checkQuoting rejects names and flags that nvcc, or the shell that it passes its options to, would
// change.
func (k *Toolchain) checkQuoting(p *toolchain.Plan, t *toolchain.Target, s manifest.Source, of toolchain.Sources) {
	refuse := func(pos manifest.Pos, chars, what, v string) {
		if i := strings.IndexAny(v, chars); i >= 0 {
			p.Errorf(pos, "nvcc, or the shell that it passes its options to, would change it. Write it without that character.",
				"%s would be compiled with the %s %q, which holds %q", s.Path, what, v, v[i])
		}
	}
	refuse(s.Pos, ShellChars, "name", s.Path)
	for _, dir := range of.Searched(s) {
		if strings.ContainsAny(dir, UnquotedDirChars) {
			pos, exported := of.IncludePos[dir]
			if !exported {
				pos = t.AnyAttr("includes", "private_includes")
			}
			refuse(pos, UnquotedDirChars, "folder", dir)
		}
	}
	for _, f := range s.Flags.NVCC {
		refuse(t.FlagPos(s.Flags, f), ShellChars, "flag", f)
	}
	for _, f := range slices.Concat(s.Flags.CICC, s.Flags.PTXAS) {
		refuse(t.FlagPos(s.Flags, f), UnforwardedChars, "flag", f)
	}
}

// fallBack marks the nvcc command of the block at pos as unsplit. It reports an error if the
// command must be split or if nvcc would misread its file names.
func fallBack(b *toolchain.Build, p *toolchain.Plan, pos manifest.Pos, whole *graph.Action, why error) {
	toolchain.Unsplit(whole.Work.Driver, why)
	names := whole.Outputs[0]
	if whole.Kind.Info().Linker != graph.LinkerDriver { // a device link does not split the names of its inputs
		names = strings.Join(whole.Inputs, " ") + " -o " + names
	}
	if strings.Contains(names, ",") {
		p.Errorf(pos, "Rename it. Where kbuild splits the command, the name may stay.",
			"nvcc as one command (%v) would split names at commas: %s", why, names)
	}
	if whole.Work.Driver.Fallback && b.RequireSplit {
		p.Errorf(pos, "Build without --require-split to have it so: then each change of a source compiles it for all architectures.",
			"nvcc would run as one command for %s %s: %v", whole.Kind, whole.Name, why)
	}
}

// learnCompile returns the passes of an nvcc command. ask is the argv whose dry run shows the
// passes; it is whole's own where nvcc writes the output by itself.
func (k *Toolchain) learnCompile(b *toolchain.Build, t *toolchain.Target, whole *graph.Action, ask []string) (*CompilePasses, error) {
	if err := k.unsplittable(b, t); err != nil {
		return nil, err
	}
	q := askSteps(whole, ask)
	whole.Work.Driver.DryRunKey = q.Key()
	return toolchain.Learn(&b.Answers, q, LearnCompile)
}

// askSteps returns the dry run query for an nvcc command.
func askSteps(whole *graph.Action, ask []string) toolchain.Question {
	return toolchain.Question{Tool: "nvcc", By: "nvcc --dryrun", Args: Query(ask, whole.Inputs[0], ask[slices.Index(ask, "-o")+1], whole.Depfile)}
}

// unsplittable returns why nvcc stays unsplit for t where that is known before a dry run.
func (k *Toolchain) unsplittable(b *toolchain.Build, t *toolchain.Target) error {
	if err := b.OptedOut(t); err != nil {
		return err
	}
	if missing := Missing(k.Programs); missing != "" {
		return errors.New(missing)
	}
	return nil
}

// newSplit returns the Split for the compile u of s with the passes c.
func (k *Toolchain) newSplit(t *toolchain.Target, s manifest.Source, u toolchain.Unit, c *CompilePasses) *Split {
	u.ID = ModuleID(t.Label, s.Path, s.Partition)
	// clang spells positions into __PRETTY_FUNCTION__ of lambdas; gcc does not.
	u.Lines = u.Whole.CwdInKey || host.RecordsLines(c.Options()) || strings.Contains(path.Base(k.HostCXX.Path), "clang")
	split := NewSplit(u, k.Toolkit, c.Env)
	split.ArchList = t.Gencode.ArchList
	return split
}

// warn reports the driver's warnings about a target's architectures, which no pass prints.
func warn(p *toolchain.Plan, t *toolchain.Target, printed string) {
	for line := range strings.Lines(printed) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "nvcc warning"), " : "))
		p.Warnf(t.Attr("gencode"), "", "nvcc: %s", text)
	}
}

// Device code is shipped in archives and objects, but also without host code: as LTO-IR in a bare
// fatbin, as in MathDx, or bare. nvlink 11.8 accepts a bare fatbin but ignores bare LTO-IR, with
// status 0. nvcc -dlink accepts a fatbin, but then compiles a list of modules that contains one
// called (null). A fatbin in an archive is ignored. So kbuild wraps each in an object, as nvcc
// would write for a source without host code. All dependents link that object:
//
//	x.ltoir -> fatbinary -> x.fatbin -> host-part -> x.fatbin.o

// wrap plans the object around prebuilt device code.
func (k *Toolchain) wrap(r toolchain.CompileRequest, p *toolchain.Plan) {
	t, file := r.Target, r.Source.Path
	fatbin := file
	if r.Source.Language == "LTO-IR" {
		fatbin = strings.TrimSuffix(r.Output, ".o")
		p.Emit(k.wrapLTOIR(t, gencode.Code(t.Library.Members[0].Images[0]), path.Base(file), file, fatbin))
	}
	staged := graph.StageDir + "/device.c"
	p.Emit(&graph.Action{Kind: graph.HostPart, Name: path.Base(file), Intermediate: true,
		Argv:   []string{k.HostCXX.Path, "-x", "c", "-c", "-fPIC", "-o", r.Output, staged},
		Inputs: []string{fatbin}, Outputs: []string{r.Output}, Tools: []string{"nvcc"}, Env: []string{toolchain.Anywhere},
		Work: graph.Work{Pass: &graph.CompilerPass{Staged: []graph.StagedFile{
			{Name: path.Base(staged), Text: WrapFatbin(fatbin, ModuleID(t.Label, file, ""))}}}}})
}

// wrapLTOIR returns the action that packs LTO-IR of t into a fatbin. The fatbin records the
// floating-point options of the code, as nvcc's own does.
func (k *Toolchain) wrapLTOIR(t *toolchain.Target, code gencode.Code, name, ltoir, fatbin string) *graph.Action {
	return &graph.Action{Kind: graph.Fatbinary, Name: name, Archs: []string{code.String()}, Mode: "lto",
		Argv:   WrapLTOIR(k.Programs["fatbinary"], code, t.FloatOptions(), ltoir, fatbin),
		Inputs: []string{ltoir}, Outputs: []string{fatbin}, Tools: []string{"nvcc"}}
}

// WrapLTOIR returns the argv that packs bare LTO-IR into a fatbin, as nvcc does for an object. The
// options are those that cicc compiled it with: nvlink compares them between files, and 11.8
// crashes on a fatbin without them (tried with 11.8 and 12.4).
func WrapLTOIR(fatbinary string, code gencode.Code, f toolchain.Floats, ltoir, output string) []string {
	bit := map[bool]int{true: 1}
	options := fmt.Sprintf("-ftz=%d -prec_div=%d -prec_sqrt=%d -fmad=%d ", bit[f.FTZ], bit[f.PrecDiv], bit[f.PrecSqrt], bit[f.FMAD])
	return []string{fatbinary, "-64", "--cicc-cmdline=" + options, "--device-c",
		fmt.Sprintf("--image3=kind=nvvm,sm=%d%s,file=%s", code.Num, code.Suffix, toolchain.ListWord(ltoir)), "--create", output}
}

// withoutOutputs returns the command of cicc without its output options.
func (p *Pass) withoutOutputs() []word {
	var out []word
	for i := 0; i < len(p.argv); i++ {
		switch w := p.argv[i]; {
		case w.prefix == "-lto" && w.role == "":
		case (w.prefix == "-o" || w.prefix == "-olto") && w.role == "":
			i++ // the file
		default:
			out = append(out, w)
		}
	}
	return out
}

// WrapFatbin returns the C text of an object with a bare fatbin, in the form of nvcc's objects
// whose device code is still to be linked. It holds the fatbin, a wrapper that points to it, the id
// by which nvlink lists it, and a call that registers the object. The program registers the linked
// code once all listed objects have called (link.stub of 11.8 to 13.5). The six lists of host
// references are empty: without them nvlink would remove nothing from the whole program.
func WrapFatbin(fatbin, id string) string {
	// For C, and within it for the assembler.
	quoted := strings.NewReplacer(`\`, `\\\\`, `"`, `\\\"`).Replace(fatbin)
	return strings.NewReplacer("FILE", quoted, "ID", id).Replace(fmt.Sprintf(wrapText, 0x466243b1))
}

const wrapText = `/* Device code for a device link, as nvcc has it in objects. */
__asm__(".section __nv_relfatbin,\"a\"\n"
        "\t.p2align 3\n"
        "fatbinData:\n"
        "\t.incbin \"FILE\"\n"
        "\t.p2align 3\n"
        "\t.irp list, KE, KI, DE, DI, CE, CI\n"
        "\t.section .nvHR\\list,\"a\"\n"
        "\t.byte 0\n"
        "\t.endr\n"
        "\t.text\n");
extern const char fatbinData[];
extern const struct { int magic, version; const void *data; void *other; } __fatbinwrapID;
__attribute__((section(".nvFatBinSegment"), visibility("hidden"))) __typeof__(__fatbinwrapID) __fatbinwrapID = {%#x, 1, fatbinData, 0};
static const unsigned char id[] __attribute__((section("__nv_module_id"), used)) = "ID";
__attribute__((visibility("hidden"))) void __cudaRegisterLinkedBinaryID(void (*)(void **), void *, void *, void (*)(void *));
static void names(void **handle) { (void)handle; }
static void keep(void *p) { static void *volatile kept; kept = p; (void)kept; }
static void enter(void) __attribute__((constructor));
static void enter(void) { __cudaRegisterLinkedBinaryID(names, (void *)&__fatbinwrapID, (void *)id, keep); }
`

// nvcc measures the programs that it runs: `-time FILE` appends a table to a file, and since 13.0
// `-fdevice-time-trace FILE` writes a trace. So a compile with such an option stays one nvcc
// command, and the files are outputs of it.

const timeTable, timeTrace = "-time", "-fdevice-time-trace"

// IsTime reports whether option makes nvcc write times, with or without a value.
func IsTime(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return slices.Contains([]string{timeTable, "-" + timeTable, timeTrace, "-" + timeTrace}, name)
}

// SplitTimes separates the options that make nvcc write times from the others, and returns the
// files that nvcc writes in a compile of object. A trace named "-" is written beside the object,
// and a table named "-" is printed. If several compiles have the options, each writes its files
// beside its object. nvcc 13.0 adds ".json" to the name of each trace, and newer ones only where it
// is missing.
func SplitTimes(options []string, object string, several bool) (others, times, files []string) {
	for i := 0; i < len(options); i++ {
		name, file, joined := strings.Cut(options[i], "=")
		if IsTime(name) && !joined && i+1 < len(options) {
			i++
			file = options[i]
		}
		if several && file != "" && file != "-" {
			file = object + "." + path.Base(file)
		}
		switch trace := strings.HasSuffix(name, timeTrace); {
		case !IsTime(name) || file == "":
			others = append(others, options[i])
		case file == "-" && !trace:
			times = append(times, timeTable+"=-")
		case !trace:
			file = path.Clean(file)
			times, files = append(times, timeTable+"="+file), append(files, file)
		default:
			if file == "-" {
				file = object
			}
			file = strings.TrimSuffix(path.Clean(file), ".json")
			times, files = append(times, timeTrace+"="+file), append(files, file+".json")
		}
	}
	return others, times, files
}

// IsTimeFile reports whether an output of a holds the times of a run of nvcc.
func IsTimeFile(a *graph.Action, output string) bool {
	return slices.Contains(a.Argv, timeTable+"="+output) ||
		slices.Contains(a.Argv, timeTrace+"="+strings.TrimSuffix(output, ".json"))
}
