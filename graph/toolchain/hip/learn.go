package hip

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// Passes holds the passes of one `hipcc -c`.
type Passes struct {
	clang.Passes
	Bundle Bundle
	New    bool // by the new offload driver

	packager *clang.Packager // of the new driver

	// Of the new driver: the command that links the packed code to final code; nil in the modes rdc
	// and lto.
	wrapper []string
	Final   *Link // the links that wrapper runs
}

// Bundle is a command of clang-offload-bundler.
type Bundle struct {
	Program string
	Flags   []string // without targets and files
	Targets []string // "host-x86_64-unknown-linux", "hipv4-amdgcn-amd-amdhsa--gfx906"
}

// Link holds the steps of one `hipcc --hip-link`.
type Link struct {
	Device []DeviceLink // one for each architecture; empty without -fgpu-rdc
	Bundle Bundle       // of the outputs of Device
	prefix string       // of the targets in objects: "hip-amdgcn-amd-amdhsa-unknown-"
	Clang  string

	// Of the new driver: the command of clang-linker-wrapper, whose dry run LearnWrapper parses;
	// Device and Bundle are then empty.
	Wrapper []string
	Libs    []string // of the runtime: -L, -l and -rpath options of the host link
	LibDirs []string // folders of the runtime
}

// DeviceLink is the lld command of one architecture.
type DeviceLink struct {
	Arch    string
	Program string
	Flags   []string // without inputs and output
	Clang   bool     // Program is a clang that runs lld
}

// LearnCompile parses the dry run of a compile for codes. asked is the query: the program and its
// arguments.
func LearnCompile(text string, asked []string, codes []gencode.Code) (*Passes, error) {
	h, err := clang.ParseSteps(text, asked)
	if err != nil {
		return nil, err
	}
	if NewDriver(h) {
		return learnNew(h, codes)
	}
	p := &Passes{Passes: clang.PassesOf(h.Clang)}
	for _, s := range h.Steps {
		if target := clang.After(s, "-triple"); strings.HasPrefix(target, "amdgcn") {
			arch := archOfPass(s)
			if _, twice := p.Libs[arch]; twice {
				return nil, fmt.Errorf("clang compiles twice for %s", arch)
			}
			p.Libs[arch] = clang.DeviceLibs(s)
		}
		if bundler(s) {
			p.Bundle = learnBundle(s)
		}
	}
	for _, c := range codes {
		if c.Name == gencode.SPIRVTarget {
			return nil, fmt.Errorf("%s is made by llvm-link and llvm-spirv", c)
		}
		if _, ok := p.Libs[c.String()]; !ok {
			return nil, fmt.Errorf("clang does not compile for %s", c)
		}
	}
	return p, p.Bundle.complete(codes)
}

// archOfPass returns the target of a -cc1 command as --offload-arch takes it, with features in
// alphabetical order.
func archOfPass(argv []string) string {
	arch := clang.After(argv, "-target-cpu")
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

const bundlerName = "clang-offload-bundler"

// bundler reports whether a command writes a bundle.
func bundler(argv []string) bool {
	return path.Base(argv[0]) == bundlerName && !slices.Contains(argv, "-unbundle") && !slices.Contains(argv, "--unbundle")
}

func learnBundle(argv []string) Bundle {
	b := Bundle{Program: argv[0]}
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

// complete checks that the bundle has a target for each code and one for the host.
func (b Bundle) complete(codes []gencode.Code) error {
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

// Arch returns the architecture of a bundle's target, "" for the host: "gfx90a:xnack-" of
// "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-".
func (b Bundle) Arch(target string) string {
	if i := strings.LastIndex(target, "-gfx"); i >= 0 {
		return target[i+1:]
	}
	return ""
}

// LearnLink parses the dry run of a link, with the device links of codes. codes is nil for a link
// without -fgpu-rdc. If the link has device code, isNew selects its driver; the other one is an
// error.
func LearnLink(text string, asked []string, codes []gencode.Code, isNew bool) (*Link, error) {
	h, err := clang.ParseSteps(text, asked)
	if err != nil {
		return nil, err
	}
	if codes != nil && NewDriver(h) != isNew {
		return nil, ErrDriver
	}
	return LinkOf(h, codes)
}

// LinkOf is LearnLink for parsed steps, without the check of the driver.
func LinkOf(h clang.Steps, codes []gencode.Code) (*Link, error) {
	l := &Link{Clang: h.Clang[0]}
	l.runtime(h.Clang)
	if NewDriver(h) && codes != nil {
		if len(h.Steps) != 1 || path.Base(h.Steps[0][0]) != linkerWrapper {
			return nil, ErrNewDriver
		}
		l.Wrapper = h.Steps[0]
		l.addRuntimeDir(l.Wrapper)
		return l, nil
	}
	var links [][]string
	made := map[string]bool{toolchain.QueryInput: true}
	for _, s := range h.Steps {
		for _, a := range s {
			if file, ok := strings.CutPrefix(a, "-output="); ok {
				made[file] = true
			}
		}
		switch base := path.Base(s[0]); {
		case bundler(s):
			l.Bundle = learnBundle(s)
		case base == bundlerName && l.prefix == "":
			b := learnBundle(s)
			for _, t := range b.Targets {
				if arch := b.Arch(t); arch != "" && l.prefix == "" {
					l.prefix = strings.TrimSuffix(t, arch)
				}
			}
		case base == "lld" || base == "ld.lld" && slices.ContainsFunc(s, func(a string) bool { return strings.HasPrefix(a, "-plugin-opt=mcpu=gfx") }):
			links = append(links, s)
		case slices.Contains(s, toolchain.AskOutput):
			l.addRuntimeDir(s)
		}
	}
	if codes == nil {
		return l, nil
	}
	if err := l.Bundle.complete(codes); err != nil {
		return nil, err
	}
	if l.prefix == "" {
		return nil, errors.New("clang takes no device code out of an object")
	}
	return l, l.deviceLinks(links, made)
}

// addRuntimeDir records the runtime's folder from a linker command: clang adds it with --hip-link.
func (l *Link) addRuntimeDir(ld []string) {
	if dir := clang.After(ld, "-rpath"); dir != "" {
		l.LibDirs = append(l.LibDirs, dir)
	}
}

// runtime records the libraries and options that hipcc adds to the host link, or the user by
// HIPCC_LINK_FLAGS_APPEND. It skips the options of the device link, and the files.
func (l *Link) runtime(argv []string) {
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case a == "-o", a == "-Xoffload-linker":
			i++
		case a == "-###", a == toolchain.QueryInput, a == "--hip-link", strings.HasPrefix(a, "-O"), strings.HasPrefix(a, clang.OffloadArch),
			strings.HasPrefix(a, "--hip-version="), strings.HasPrefix(a, "--rocm-path="), slices.Contains(modeOptions, a), slices.Contains(l.Libs, a):
		default:
			l.Libs = append(l.Libs, a)
		}
	}
}

var modeOptions = []string{"-fgpu-rdc", "-fno-gpu-rdc", "-foffload-lto", newDriver, noNewDriver}

// deviceLinks parses the lld commands, which are in the order of the bundle's targets. made holds
// the files that earlier steps write.
func (l *Link) deviceLinks(links [][]string, made map[string]bool) error {
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
		d := DeviceLink{Arch: archs[i], Program: argv[0]}
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

// flagsOf returns the arguments of a device link without its files, which are the output and
// outputs of earlier steps. An argument that is neither an option nor such an output is the operand
// of the option before it ("-flavor gnu", "-m elf64_amdgpu").
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
