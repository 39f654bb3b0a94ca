package nvcc

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

const (
	newer            = "{1} needs sm_{2}: drop older ones from the code of {target}, or put it under #if __CUDA_ARCH__ >= {2}0"
	relaxedConstexpr = `add flags = { nvcc = ["--expt-relaxed-constexpr"] } to {at}, or mark {names} __host__ __device__`
	extendedLambda   = `add flags = { nvcc = ["--extended-lambda"] } to {at}`
)

// messages are those of nvcc, cicc, ptxas and nvlink, the most useful first.
var messages = []toolchain.Message{
	{Pattern: `Undefined reference to '([^']+)'(?: in '([^']+)')?`, Kind: toolchain.Undefined},
	{Pattern: `Unresolved extern (?:function|variable) '([^']+)'`, Advice: toolchain.OtherFile},
	{Pattern: `Multiple definition of '([^']+)' in '([^']+)', first defined in '([^']+)'`, Kind: toolchain.Twice},
	{Pattern: `Linking globals named '([^']+)': symbol multiply defined`, Kind: toolchain.Twice},
	{Pattern: `could not open source file "([^"]+)"`, Kind: toolchain.NoHeader},
	{Pattern: `(?:Feature|Instruction|Modifier) '([^']+)' requires .target sm_(\d+)\w* or higher`, Advice: newer},
	{Pattern: `identifier "(__nanosleep|__match_(?:any|all)_sync)" is undefined`, Advice: strings.ReplaceAll(newer, "{2}", "70")},
	{Pattern: `identifier "(__reduce_(?:add|min|max|and|or|xor)_sync|__pipeline_memcpy_async)" is undefined`, Advice: strings.ReplaceAll(newer, "{2}", "80")},
	{Pattern: `no instance of overloaded function "(atomicAdd)" matches[^\n]*\n[^\n]*argument types are: \(double \*`,
		Advice: strings.NewReplacer("{1}", "atomicAdd of double", "{2}", "60").Replace(newer)},
	{Pattern: `unsupported (?:GNU|clang) version`, Advice: `the toolkit does not take this host compiler: install one that it does, ` +
		`and name it in toolchain "cuda" { host_compiler = "g++-N" }; kbuild doctor lists those that are here`},
	{Pattern: `annotation on lambda requires --extended-lambda`, Advice: "__device__ lambdas are an extension of nvcc: " + extendedLambda},
	{Pattern: `The closure type for a lambda .* '-+(?:expt-)?extended-lambda' is specified`, Advice: "mark the lambda __device__ and " + extendedLambda},
	{Pattern: `calling a constexpr __host__ function\("([^"]+)"\).*--expt-relaxed-constexpr`, Advice: relaxedConstexpr},
	{Pattern: `kernel launch from __device__ or __global__ functions requires separate compilation`,
		Advice: `kernels that start kernels need a device link: set mode = "rdc" on {at}`},
	{Pattern: `Value 'c\+\+20' is not defined for option 'std'`,
		Advice: `this nvcc does not know std = "c++20"; CUDA 12.0 and newer do: set cuda_std = "c++17" on {at} for its CUDA sources`},
	{Pattern: `Value '(c\+\+2[^0]|c\+\+[^2].|gnu[^']+)' is not defined for option 'std'`,
		Advice: `this nvcc does not know std = "{1}": set cuda_std = "c++17" on {at} for its CUDA sources`},
	{Pattern: `nvcc fatal\s*: Unknown option '([^']+)'`,
		Advice: "{1} is no option of nvcc: remove it from the flags of {at}, or move it to flags.host if it is one of the host compiler"},
}

// Explain returns the faults that the messages in the output of an action report.
func Explain(a *graph.Action, output string) []toolchain.Fault {
	faults := toolchain.Explain(messages, a, output)
	return slices.DeleteFunc(append(faults, tooMuchShared(a, output)...), func(f toolchain.Fault) bool {
		return slices.Equal(f.Names, []string{"operator()"}) // --expt-relaxed-constexpr does not help lambdas
	})
}

// optIn is the largest dynamic shared memory of a block, in KiB, by architecture (CUDA C++
// Programming Guide, technical specifications per compute capability). It is 48 for others.
var optIn = map[int]int{70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}

// tooMuchShared explains kernels with too large static arrays.
func tooMuchShared(a *graph.Action, output string) (faults []toolchain.Fault) {
	re := regexp.MustCompile(`Entry function '([^']+)' uses too much shared data \(0x([0-9a-f]+) bytes(?: \+ 0x[0-9a-f]+ bytes system)?, 0x([0-9a-f]+) max\)`)
	for _, m := range re.FindAllStringSubmatch(output, 1000) {
		uses, _ := strconv.ParseInt(m[2], 16, 64)
		limit, _ := strconv.ParseInt(m[3], 16, 64)
		text := fmt.Sprintf("{names} has %d bytes of static shared memory; at most %d are possible", uses, limit)
		for _, arch := range a.Archs {
			if code, err := gencode.Parse(arch); err == nil && optIn[code.Num] > 0 {
				text += fmt.Sprintf(". With extern __shared__ and cudaFuncSetAttribute(..., cudaFuncAttributeMaxDynamicSharedMemorySize, ...) a block on sm_%d may have %d KiB", code.Num, optIn[code.Num])
			}
		}
		faults = append(faults, toolchain.Fault{Names: m[1:2], Advice: text})
	}
	return faults
}

// fault is a message of nvlink that means that the linked program lacks code, whatever the exit
// status.
type fault struct {
	kind    string // "partial-lto", "no-arch", "no-lto", "error"
	culprit string // "libspectra.a:legacy.o" or "a.o"; "" if the message names none
	arch    string // "sm_80" for no-arch
	line    string // the message as printed
}

var (
	partialRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`requested LTO but '([^']+)' not built for LTO`) })
	noArchRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`SM Arch \('([^']+)'\) not found in '([^']+)'`) })
	ignoreRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Ignoring -dlto option`) })
	errorRE   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^nvlink (error|fatal)\s*:`) })
)

// ReadLink parses the output of a device link, which ended with failed. text is the output without
// lines about inputs that are known not to be LTO-IR. err adds to failed what nvlink does not print,
// or reports code that a link dropped which ended well.
func ReadLink(a *graph.Action, output string, failed error) (text string, err error) {
	link := a.Link()
	text, faults := readNVLink(output, link.NonLTO)
	switch {
	case failed == nil && len(faults) > 0:
		return text, droppedCode(link, faults)
	case failed == nil:
		return text, nil
	}
	if len(link.UnknownOptions) > 0 { // nvlink names no file; 11.8 crashes
		failed = fmt.Errorf("%w: nvlink compares the floating-point options of LTO-IR, and %s does "+
			"not say with which it was compiled", failed, strings.Join(link.UnknownOptions, ", "))
	}
	// The message of LTO-IR that nvlink cannot read does not name the file (11.8 to 13.5).
	if len(link.Foreign) > 0 && strings.Contains(text, "elfLink nvvm error") {
		failed = fmt.Errorf("%w: nvlink reads no LTO-IR of a newer CUDA than its own, and %s does "+
			"not say of which it is", failed, strings.Join(link.Foreign, ", "))
	}
	return text, failed
}

// droppedCode returns the error of a device link that ended with status 0 and dropped code.
func droppedCode(link graph.Link, faults []fault) error {
	var say []string
	for _, f := range faults {
		file, _, _ := strings.Cut(f.culprit, ":")
		who := f.culprit
		if owner := link.Owners[file]; owner != "" {
			who = fmt.Sprintf("%s of %s (%s)", f.culprit, owner, link.OwnerPos[file])
		}
		switch f.kind {
		case "partial-lto":
			say = append(say, who+" is not built for LTO, so this would be partial LTO; "+
				`declare lto = "none" on a prebuilt to accept it`)
		case "no-arch":
			say = append(say, who+" holds no code for "+f.arch+"; the program would lack it")
		case "no-lto":
			say = append(say, "nvlink found no LTO-IR and ignored -dlto; the program would hold no code")
		default:
			say = append(say, f.line)
		}
	}
	slices.Sort(say)
	return errors.New("the device link lost code: " + strings.Join(slices.Compact(say), "; "))
}

// readNVLink parses the output of a device link. nonLTO lists the inputs that are known not to be
// LTO-IR, as "file" or "file:member". A "not built for LTO" line about one of them is expected and
// removed from text. text keeps everything else; faults must fail the build.
func readNVLink(output string, nonLTO []string) (text string, faults []fault) {
	expected := map[string]bool{}
	for _, f := range nonLTO {
		expected[f] = true
	}
	var keep []string
	for _, line := range strings.SplitAfter(output, "\n") {
		msg := strings.TrimRight(line, "\r\n")
		partial, m := partialRE().FindStringSubmatch(msg), noArchRE().FindStringSubmatch(msg)
		switch {
		case partial != nil && isExpected(expected, partial[1]):
			continue
		case partial != nil:
			faults = append(faults, fault{kind: "partial-lto", culprit: partial[1], line: msg})
		case m != nil:
			faults = append(faults, fault{kind: "no-arch", arch: m[1], culprit: m[2], line: msg})
		case ignoreRE().MatchString(msg):
			faults = append(faults, fault{kind: "no-lto", line: msg})
		case errorRE().MatchString(msg):
			faults = append(faults, fault{kind: "error", line: msg})
		}
		keep = append(keep, line)
	}
	return strings.Join(keep, ""), faults
}

// isExpected reports whether culprit, its archive, or the toolkit's own libcudadevrt.a is expected.
// The last is always machine code.
func isExpected(expected map[string]bool, culprit string) bool {
	file, _, _ := strings.Cut(culprit, ":")
	return expected[culprit] || expected[file] || strings.HasSuffix(file, "libcudadevrt.a") || file == "libcudadevrt"
}

// With -v, ptxas prints which resources of a multiprocessor each function uses, in lines such as
//
//	ptxas info    : 40 bytes gmem, 16 bytes cmem[3]
//	ptxas info    : Compiling entry function '_Z2k1Pfi' for 'sm_80'
//	ptxas info    : Function properties for _Z2k1Pfi
//	    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//	ptxas info    : Used 24 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0]
//
// (11.8 and 12.4; nvlink passes on the lines of the ptxas inside it). A called function that is not
// a kernel has properties but no registers.

// ReadPTXAS parses the lines of ptxas about functions, and returns the rest of the output. The rest
// includes what ptxas prints without -v, such as warnings about slow code.
func ReadPTXAS(printed string) (rest string, functions []cache.Function) {
	if !strings.Contains(printed, "ptxas info") {
		return printed, nil
	}
	var keep strings.Builder
	arch := ""
	var last *cache.Function
	start := func(name string, entry bool) {
		functions = append(functions, cache.Function{Name: name, Entry: entry})
		last = &functions[len(functions)-1]
	}
	for line := range strings.Lines(printed) {
		msg, isInfo := strings.CutPrefix(line, "ptxas info")
		if isInfo {
			msg, isInfo = strings.CutPrefix(strings.TrimLeft(msg, " "), ": ")
			msg = strings.TrimRight(msg, "\r\n")
		}
		var name string
		switch {
		case isInfo && scan(msg, "Compiling entry function %s for %s", &name, &arch):
			arch = strings.Trim(arch, "'")
			start(strings.Trim(name, "'"), true)
		case isInfo && scan(msg, "Function properties for %s", &name):
			if last == nil || last.Name != name {
				start(name, false)
			}
		case isInfo && strings.HasPrefix(msg, "Used ") && last != nil:
			readUsed(last, msg)
		case !isInfo && last != nil && scan(line,
			" %d bytes stack frame, %d bytes spill stores, %d bytes spill loads",
			&last.Stack, &last.SpillStores, &last.SpillLoads):
		case isInfo && (strings.Contains(msg, " bytes gmem") ||
			strings.HasPrefix(msg, "Overriding ") || strings.HasPrefix(msg, "Compile time = ")):
		default:
			keep.WriteString(line)
		}
	}
	for i := range functions {
		functions[i].Arch = arch // a function before the first kernel, too
	}
	return keep.String(), functions
}

func scan(text, format string, into ...any) bool {
	n, _ := fmt.Sscanf(text, format, into...)
	return n == len(into)
}

// readUsed parses "Used 24 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0]".
func readUsed(f *cache.Function, msg string) {
	for part := range strings.SplitSeq(msg, ", ") {
		var n int
		var what string
		switch {
		case scan(part, "Used %d registers", &n):
			f.Registers = n
		case scan(part, "used %d barriers", &n):
			f.Barriers = n
		case !scan(part, "%d bytes %s", &n, &what):
		case what == "smem":
			f.Shared = n
		case strings.HasPrefix(what, "cmem["):
			f.Constant += n
		}
	}
}

// nvJitLink or the driver links LTO-IR at run time, so link errors appear only there. --check-link
// links it at build time, once for each GPU of a list:
//
//	fft.lto_75.ltoir -> fatbinary -> slice [80] -> nvlink [80]
//	                              -> slice [90] -> nvlink [90]
//	fft.lto_75.ptx -> references -> fatbinary -> slice, to each nvlink
//
// It is an ordinary device link whose output is discarded. LTO-IR is wrapped in a fatbin because
// nvlink 11.8 does not accept it bare.
//
// A link with LTO drops the functions that no kernel reaches before it resolves references. A
// module of callbacks has no kernel. So kbuild generates a kernel in PTX that refers to every
// function of the module. Functions of the modules that it depends on are not referred to: this
// link has them only where the module uses them, and each module has its own link.

// Check implements toolchain.Toolchain.
func (k *Toolchain) Check(r toolchain.CheckRequest) (c toolchain.Checked) {
	t := r.Target
	if !k.ready(r.Build, &c.Plan, t.Pos) {
		return c
	}
	for _, u := range r.Inputs {
		if u.Kind == manifest.Prebuilt {
			k.checkMembers(&c.Plan, t, u.Target, true)
		}
	}
	k.checkLTO(&c.Plan, t, r.Inputs)
	for _, arch := range r.Archs {
		if !k.canCheck(r, &c.Plan, arch) {
			continue
		}
		check := &graph.Link{LTO: true, Check: true}
		link := DeviceLink{Codes: []gencode.Code{arch}, LTO: true, Emit: "cubin", NVLink: t.Flags.NVLink,
			Output: r.Out(graph.CheckLinkDir, "modules", t.InstanceName()+"."+arch.String()+".cubin")}
		for _, u := range r.Inputs {
			var files []File
			for _, a := range ltoirFor(u.Target, arch) {
				out := r.Out(graph.CheckLinkDir, strings.TrimSuffix(r.InTree(a.Path), a.Kind)+"fatbin")
				files = append(files, built(r.Build, out))
				c.Emit(k.wrapLTOIR(u.Target, codeOf(a), path.Base(out), a.Path, out))
			}
			if u.Kind == manifest.Prebuilt {
				files = filesOf(r.Build, t, u.Target, check)
			}
			link.Files = append(link.Files, own(check, u.Target, files)...)
		}
		for _, a := range ltoirFor(t, arch) {
			file := k.references(r, &c.Plan, a)
			link.Files, check.NonLTO = append(link.Files, built(r.Build, file)), append(check.NonLTO, file)
		}
		k.emitLink(r.Build, &c.Plan, t, "check-link "+t.InstanceName(), link, check, nil)
		c.Outputs = append(c.Outputs, link.Output)
	}
	return c
}

// canCheck reports whether the toolkit supports arch and all inputs have LTO-IR that links for it.
func (k *Toolchain) canCheck(r toolchain.CheckRequest, p *toolchain.Plan, arch gencode.Code) bool {
	t := r.Target
	if !slices.ContainsFunc(k.Archs, func(a gencode.Code) bool { return a.Num == arch.Num && a.Suffix == arch.Suffix }) {
		p.Errorf(t.Pos, "It knows "+toolchain.Spell(k.Archs)+".", "--check-link %s: CUDA %s does not know it", arch, k.Version)
		return false
	}
	if k.Programs["fatbinary"] == "" {
		p.Errorf(t.Pos, "It comes with every CUDA toolkit; install the whole of it.", "--check-link: the toolkit's fatbinary was not found")
		return false
	}
	ok := true
	for _, u := range r.Inputs {
		if u.Kind == manifest.Prebuilt {
			ok = covered(p, t, u.Target, arch) && ok
		}
		if len(u.Artifacts) > 0 && len(ltoirFor(u.Target, arch)) == 0 {
			ok = false
			var has []gencode.Code
			for _, a := range u.Artifacts {
				if a.Kind == "ltoir" {
					has = append(has, codeOf(a))
				}
			}
			p.Bothf(u.Attr("gencode"), t.Pos, "--check-link "+arch.String()+" links "+t.Label,
				fmt.Sprintf("LTO-IR links for its own architecture and newer ones: give %s lto_%d or older code.", u.Label, arch.Num),
				"%s does not link for %s: its LTO-IR is %s", u.Label, arch, toolchain.Spell(toolchain.Sorted(has)))
		}
	}
	return ok
}

// codeOf returns the code of an artifact of LTO-IR.
func codeOf(a toolchain.Artifact) gencode.Code {
	code, err := gencode.Parse(a.Arch)
	if err != nil {
		panic("BUG: LTO-IR for " + a.Arch)
	}
	return code
}

// ltoirFor returns the files for a link for arch: for each source the newest that is not newer than
// arch. It returns nil if some source has none.
func ltoirFor(t *toolchain.Target, arch gencode.Code) (chosen []toolchain.Artifact) {
	index := map[string]int{} // in chosen, by source
	for _, a := range t.Artifacts {
		if a.Kind != "ltoir" {
			continue
		}
		source := strings.TrimSuffix(a.Path, a.Arch+".ltoir")
		i, have := index[source]
		if !have {
			i = len(chosen)
			index[source], chosen = i, append(chosen, toolchain.Artifact{})
		}
		code, old := codeOf(a), chosen[i]
		if gencode.LinksInto(gencode.Image(code), arch, true) && (old.Path == "" || gencode.Compare(codeOf(old), code) < 0) {
			chosen[i] = a
		}
	}
	if slices.ContainsFunc(chosen, func(a toolchain.Artifact) bool { return a.Path == "" }) {
		return nil
	}
	return chosen
}

// references plans a fatbin of PTX with a kernel that refers to every function of one file of
// LTO-IR. It returns its path.
func (k *Toolchain) references(r toolchain.CheckRequest, p *toolchain.Plan, a toolchain.Artifact) string {
	base := r.Out(graph.CheckLinkDir, strings.TrimSuffix(r.InTree(a.Path), a.Kind)+"references.")
	text, out, code := base+"ptx", base+"fatbin", codeOf(a)
	codes := []string{code.As(gencode.PTX).String()}
	var late []string
	if len(r.Target.LateBound) > 0 {
		late = append([]string{"references"}, r.Target.LateBound...)
	}
	p.Emit(&graph.Action{Kind: graph.References, Name: path.Base(text), Argv: late, Archs: codes, Inputs: []string{a.Symbols}, Outputs: []string{text}})
	p.Emit(&graph.Action{Kind: graph.Fatbinary, Name: path.Base(out), Archs: codes,
		Argv:   []string{k.Programs["fatbinary"], "-64", "--device-c", fmt.Sprintf("--image3=kind=ptx,sm=%d%s,file=%s", code.Num, code.Suffix, toolchain.ListWord(text)), "--create", out},
		Inputs: []string{text}, Outputs: []string{out}, Tools: []string{"nvcc"}})
	return out
}
