package toolchain

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// hipcc is asked as nvcc is: `hipcc -###` prints the commands that clang would run, and with HIPCC_VERBOSE=1 before them the clang
// command that hipcc makes of its own. The first tell what enters an output unasked: the device libraries, which no dependency
// file names. The second tells the flags of a clang that is run without hipcc, pass by pass, with the public options that choose
// one (--cuda-device-only --offload-arch=X, --cuda-host-only). Only the bundler's and the linker's commands are taken from clang's
// answer, since no public option asks for them alone.

// The names that a question to hipcc uses.
const (
	AskHIPSource = "kbuild_source.hip"
	hipccSays    = "hipcc-cmd:"
)

// HIPPasses is one `hipcc -c` taken apart.
type HIPPasses struct {
	ClangPasses
	Bundle HIPBundle
}

// HIPBundle is a command of clang-offload-bundler.
type HIPBundle struct {
	Program string
	Flags   []string // without targets and files
	Targets []string // "host-x86_64-unknown-linux", "hipv4-amdgcn-amd-amdhsa--gfx906"
}

// HIPLink is one `hipcc --hip-link` taken apart.
type HIPLink struct {
	Device  []HIPDeviceLink // one for each architecture; none without -fgpu-rdc
	Bundle  HIPBundle       // of what Device makes
	Clang   string
	Libs    []string // of the runtime: -L, -l and -rpath options of the host's link
	LibDirs []string // folders of the runtime
}

// HIPDeviceLink is the lld command of one architecture.
type HIPDeviceLink struct {
	Arch    string
	Program string
	Flags   []string // without inputs and output
}

// folderOptions lead clang to its device libraries. Clang looks there while it is asked, which is not in the project's folder.
var folderOptions = []string{"--rocm-path", "--hip-path", "--hip-device-lib-path", "--rocm-device-lib-path"}

// fromRoot makes the value of a folder option absolute. root is "" to leave it.
func fromRoot(arg, root string) string {
	option, dir, ok := strings.Cut(arg, "=")
	if !ok || root == "" || path.IsAbs(dir) || !slices.Contains(folderOptions, option) {
		return arg
	}
	return option + "=" + path.Join(root, dir)
}

// InRoot names what lies in the folder root, which the question named absolutely, as the project does.
func (p *HIPPasses) InRoot(root string) {
	for i, f := range p.Flags {
		p.Flags[i] = strings.ReplaceAll(f, root+"/", "")
	}
	for _, libs := range p.Libs {
		for i, l := range libs {
			libs[i] = strings.TrimPrefix(l, root+"/")
		}
	}
}

// AskHIP turns the argv of a command of hipcc or clang, which runs in the folder root, into the question for its steps, as Ask does for
// nvcc. What language the source is stands in argv.
func AskHIP(argv []string, root, source, output string) []string {
	question := []string{"-###"}
	for i := 1; i < len(argv); i++ {
		switch a := fromRoot(argv[i], root); {
		case a == "-MD", strings.HasPrefix(a, cuid):
		case a == "-MF":
			i++
		case a == source:
			question = append(question, AskHIPSource)
		case a == output:
			question = append(question, AskOutput)
		default:
			question = append(question, a)
		}
	}
	return question
}

// HIPSteps is what hipcc -### shows, before it is known for what.
type HIPSteps struct {
	Clang []string   // the command of clang: what hipcc made of the question, or the question itself
	Steps [][]string // commands; none if the text was not understood
	Said  string     // then the text
}

func parseHIP(text string, asked []string) (HIPSteps, error) {
	h := HIPSteps{Clang: asked}
	for _, line := range strings.Split(text, "\n") {
		if cmd, ok := strings.CutPrefix(line, hipccSays); ok {
			words, err := ShellWords(cmd, nil)
			if err != nil {
				return h, fmt.Errorf("%w in %q", err, line)
			}
			h.Clang = words
			continue
		}
		if !strings.HasPrefix(line, ` "`) {
			continue // the version, warnings
		}
		words, err := ShellWords(line, nil)
		if err != nil {
			return h, fmt.Errorf("%w in %.200q", err, line)
		}
		h.Steps = append(h.Steps, words)
	}
	if len(h.Steps) == 0 {
		return h, errors.New("-### shows no steps")
	}
	return h, nil
}

// LearnHIP finds the passes of a compile for codes. asked is the program and what it was asked.
func LearnHIP(text string, asked []string, codes []gencode.Code) (*HIPPasses, error) {
	h, err := parseHIP(text, asked)
	if err != nil {
		return nil, err
	}
	if h.NewDriver() {
		return nil, ErrNewDriver
	}
	p := &HIPPasses{ClangPasses: ClangDriver(h.Clang)}
	for _, s := range h.Steps {
		if target := after(s, "-triple"); strings.HasPrefix(target, "amdgcn") {
			arch := archOfPass(s)
			if _, twice := p.Libs[arch]; twice {
				return nil, fmt.Errorf("clang compiles twice for %s", arch)
			}
			p.Libs[arch] = deviceLibs(s)
		}
		if bundler(s) {
			p.Bundle = learnBundle(s)
		}
	}
	for _, c := range codes {
		if _, ok := p.Libs[c.String()]; !ok {
			return nil, fmt.Errorf("clang does not compile for %s", c)
		}
	}
	return p, p.Bundle.complete(codes)
}

// after is the argument behind an option.
func after(argv []string, option string) string {
	if i := slices.Index(argv, option); i >= 0 && i+1 < len(argv) {
		return argv[i+1]
	}
	return ""
}

// archOfPass spells the target of a -cc1 command as --offload-arch does: features in alphabetical order.
func archOfPass(argv []string) string {
	arch := after(argv, "-target-cpu")
	var features []string
	for i, a := range argv {
		if a != "-target-feature" || i+1 == len(argv) || argv[i+1] == "" {
			continue
		}
		sign, name := argv[i+1][:1], argv[i+1][1:]
		if name == "xnack" || name == "sramecc" {
			features = append(features, ":"+name+sign)
		}
	}
	slices.Sort(features)
	return arch + strings.Join(features, "")
}

// deviceLibs are the files that a -cc1 command links into the code.
func deviceLibs(argv []string) []string {
	var libs []string
	for i, a := range argv {
		if (a == "-mlink-builtin-bitcode" || a == "-mlink-bitcode-file") && i+1 < len(argv) {
			libs = append(libs, path.Clean(argv[i+1]))
		}
	}
	return libs
}

// bundler reports a command that makes a bundle.
func bundler(argv []string) bool {
	return path.Base(argv[0]) == "clang-offload-bundler" && !slices.Contains(argv, "-unbundle") && !slices.Contains(argv, "--unbundle")
}

func learnBundle(argv []string) HIPBundle {
	b := HIPBundle{Program: argv[0]}
	for _, a := range argv[1:] {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch name {
		case "targets":
			b.Targets = strings.Split(value, ",")
		case "input", "output", "inputs", "outputs":
		default:
			b.Flags = append(b.Flags, a)
		}
	}
	return b
}

// complete wants a target for each code and one for the host.
func (b HIPBundle) complete(codes []gencode.Code) error {
	if len(b.Targets) != len(codes)+1 {
		return fmt.Errorf("the bundle has targets %s", strings.Join(b.Targets, ", "))
	}
	for _, c := range codes {
		if !slices.ContainsFunc(b.Targets, func(t string) bool { return b.Arch(t) == c.String() }) {
			return fmt.Errorf("the bundle has no target for %s", c)
		}
	}
	return nil
}

// Arch is the architecture of a bundle's target, "" for the host: "gfx90a:xnack-" of "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-".
func (b HIPBundle) Arch(target string) string {
	if i := strings.LastIndex(target, "-gfx"); i >= 0 {
		return target[i+1:]
	}
	return ""
}

// LearnHIPLink finds the steps of a link, with the device links of codes; codes is nil for a link without -fgpu-rdc.
func LearnHIPLink(text string, asked []string, codes []gencode.Code) (*HIPLink, error) {
	h, err := parseHIP(text, asked)
	if err != nil {
		return nil, err
	}
	return h.Link(codes)
}

// Link finds the steps of a link, as LearnHIPLink does.
func (h HIPSteps) Link(codes []gencode.Code) (*HIPLink, error) {
	if h.NewDriver() && codes != nil {
		return nil, ErrNewDriver
	}
	l := &HIPLink{Clang: h.Clang[0]}
	l.runtime(h.Clang)
	var links [][]string
	made := map[string]bool{AskInput: true}
	for _, s := range h.Steps {
		for _, a := range s {
			if file, ok := strings.CutPrefix(a, "-output="); ok {
				made[file] = true
			}
		}
		switch base := path.Base(s[0]); {
		case bundler(s):
			l.Bundle = learnBundle(s)
		case base == "lld" || base == "ld.lld" && slices.ContainsFunc(s, func(a string) bool { return strings.HasPrefix(a, "-plugin-opt=mcpu=gfx") }):
			links = append(links, s)
		case slices.Contains(s, AskOutput):
			l.hostLink(s)
		}
	}
	if codes == nil {
		return l, nil
	}
	if err := l.Bundle.complete(codes); err != nil {
		return nil, err
	}
	return l, l.deviceLinks(links, made)
}

// runtime takes the libraries and options of the host's link that hipcc adds, or the user through HIPCC_LINK_FLAGS_APPEND: all but
// what is for the device link, and the files.
func (l *HIPLink) runtime(clang []string) {
	for i := 1; i < len(clang); i++ {
		switch a := clang[i]; {
		case a == "-o", a == "-Xoffload-linker":
			i++
		case a == "-###", a == AskInput, a == "--hip-link", strings.HasPrefix(a, "-O"), strings.HasPrefix(a, offloadArch),
			strings.HasPrefix(a, "--hip-version="), strings.HasPrefix(a, "--rocm-path="), slices.Contains(modeOptions, a), slices.Contains(l.Libs, a):
		default:
			l.Libs = append(l.Libs, a)
		}
	}
}

var modeOptions = []string{"-fgpu-rdc", "-fno-gpu-rdc", "-foffload-lto"}

// hostLink takes the folder of the runtime that clang adds with --hip-link.
func (l *HIPLink) hostLink(argv []string) {
	if dir := after(argv, "-rpath"); dir != "" {
		l.LibDirs = append(l.LibDirs, dir)
	}
}

// deviceLinks takes the lld commands, which come in the order of the bundle's targets. made are the files that earlier steps write.
func (l *HIPLink) deviceLinks(links [][]string, made map[string]bool) error {
	var archs []string
	for _, t := range l.Bundle.Targets {
		if a := l.Bundle.Arch(t); a != "" {
			archs = append(archs, a)
		}
	}
	if len(links) != len(archs) {
		return fmt.Errorf("%d device links for %d architectures", len(links), len(archs))
	}
	for i, argv := range links {
		var err error
		d := HIPDeviceLink{Arch: archs[i], Program: argv[0]}
		cpu, _, _ := strings.Cut(archs[i], ":")
		if !slices.Contains(argv, "-plugin-opt=mcpu="+cpu) {
			return fmt.Errorf("the device link for %s is for another architecture", archs[i])
		}
		if d.Flags, err = flagsOf(argv, made); err != nil {
			return fmt.Errorf("the device link for %s: %w", archs[i], err)
		}
		l.Device = append(l.Device, d)
	}
	return nil
}

// flagsOf are the arguments of a device link but for its files: the output and what earlier steps made. An argument that is neither
// an option nor made is the operand of the option before it ("-flavor gnu", "-m elf64_amdgpu").
func flagsOf(argv []string, made map[string]bool) ([]string, error) {
	var flags []string
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case a == "-o":
			i++
		case made[a]:
		case strings.HasPrefix(a, "-"), strings.HasPrefix(argv[i-1], "-"):
			flags = append(flags, a)
		default:
			return nil, fmt.Errorf("it reads %s, which no step makes", a)
		}
	}
	return flags, nil
}

// ReadHIPSteps reads the answer to asked, a program and its arguments.
func ReadHIPSteps(text string, asked []string) HIPSteps {
	h, err := parseHIP(text, asked)
	if err != nil {
		return HIPSteps{Said: text}
	}
	return h
}
