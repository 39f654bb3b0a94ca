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

// Clang has two drivers that combine host and device code. With the old one, the default for HIP up
// to clang 22, an object is a bundle, or contains one, and the link unbundles it. With the new one
// (--offload-new-driver; the default for HIP from 23 on) an object has relocatable device code in
// the section .llvm.offloading, which only clang-linker-wrapper reads. A link reads objects of its
// own driver and ignores those of the other, with exit status 0.
//
// clang-linker-wrapper has a dry run of its own (--dry-run). From clang 21 on it shows a clang for
// each architecture, which runs lld, and the bundler. Earlier wrappers optimise in their own
// process. From 22 on the wrapper also links final code, which the host object then includes.

// ErrNewDriver reports a command of the new driver that kbuild cannot split.
var ErrNewDriver = errors.New("clang runs its new offload driver")

// ErrDriver reports a command of another driver than the requested one.
var ErrDriver = errors.New("clang runs its other offload driver")

// The options that select the driver; the last one wins.
const (
	newDriver   = "--offload-new-driver"
	noNewDriver = "--no-offload-new-driver"
)

// ChoosesDriver returns the last of flags that selects a driver, "" for none, and whether it
// selects the new one.
func ChoosesDriver(flags []string) (option string, isNew bool) {
	for _, f := range flags {
		if f == newDriver || f == noNewDriver {
			option = f
		}
	}
	return option, option == newDriver
}

// DriverOption returns the option that selects a driver.
func DriverOption(isNew bool) string {
	if isNew {
		return newDriver
	}
	return noNewDriver
}

// CompressOptions returns the options that compress bundles.
func CompressOptions(options []string) (compress []string) {
	for _, o := range options {
		if strings.Contains(o, "-offload-compress") {
			compress = append(compress, o)
		}
	}
	return compress
}

const linkerWrapper = "clang-linker-wrapper"

// NewDriver reports whether the steps are those of the new driver.
func NewDriver(h clang.Steps) bool {
	return slices.ContainsFunc(h.Steps, func(argv []string) bool {
		name := path.Base(argv[0])
		return clang.IsPackager(name) || name == linkerWrapper ||
			slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, clang.EmbedOffload) })
	})
}

// learnNew determines the passes of a compile by the new driver.
func learnNew(h clang.Steps, codes []gencode.Code) (*Passes, error) {
	p := &Passes{Passes: clang.PassesOf(h.Clang), New: true}
	made := map[string]string{} // files by architecture
	var host []string
	for _, s := range h.Steps {
		name, target := path.Base(s[0]), clang.After(s, "-triple")
		switch {
		case clang.IsPackager(name) && p.packager == nil:
			p.packager = clang.ReadPackager(s)
		case name == linkerWrapper && p.wrapper == nil:
			p.wrapper = s
		case strings.HasPrefix(target, "amdgcn"):
			arch := archOfPass(s)
			if _, twice := p.Libs[arch]; twice {
				return nil, fmt.Errorf("clang compiles twice for %s", arch)
			}
			p.Libs[arch], made[arch] = clang.DeviceLibs(s), clang.After(s, "-o")
			// A pass on its own does not get it: clang 22 omits the option that keeps the order of uses
			// if the code is for LTO and only device code is compiled.
			if slices.Contains(s, "-emit-llvm-uselists") {
				p.DeviceFlags = []string{"-Xclang", "-emit-llvm-uselists"}
			}
		case len(s) > 1 && s[1] == "-cc1" && host == nil:
			host = s
		default:
			return nil, fmt.Errorf("%w: %s", ErrNewDriver, name)
		}
	}
	return p, p.completeNew(host, made, codes)
}

// completeNew checks that the code for each of codes is packed and reaches the host object,
// directly or linked by the wrapper.
func (p *Passes) completeNew(host []string, made map[string]string, codes []gencode.Code) error {
	if p.packager == nil || host == nil || len(p.packager.Images) != len(codes) {
		return fmt.Errorf("%w, and packs no code, or code for others", ErrNewDriver)
	}
	for _, c := range codes {
		packed := func(i clang.OffloadImage) bool { return i.Arch() == c.String() && i.File == made[c.String()] }
		if !slices.ContainsFunc(p.packager.Images, packed) {
			return fmt.Errorf("%w, and packs no %s", ErrNewDriver, c)
		}
	}
	embeds := slices.Contains(host, clang.EmbedOffload+p.packager.Output)
	switch {
	case p.wrapper == nil && embeds:
		p.Embeds = true
	case p.wrapper != nil && !embeds && slices.Contains(p.wrapper, "--emit-fatbin-only") && slices.Contains(p.wrapper, p.packager.Output) &&
		clang.After(host, "-fcuda-include-gpubinary") == clang.After(p.wrapper, "-o"):
		lto := []string{"-emit-llvm"}
		if slices.Contains(p.wrapper, "--device-compiler=amdgcn-amd-amdhsa=-flto=full") {
			lto = append(lto, "-foffload-lto")
		}
		p.DeviceFlags = append(lto, p.DeviceFlags...)
	default: // clang 21 links final code into the object by ld -r
		return fmt.Errorf("%w: device code comes into the object by %s", ErrNewDriver, linkerWrapper)
	}
	return nil
}

// AskWrapper returns the dry run query for the wrapper that links final code. ok is false if there
// is none.
func (p *Passes) AskWrapper(codes []gencode.Code) (q toolchain.Question, ok bool) {
	if p.wrapper == nil {
		return q, false
	}
	return askWrapper(p.wrapper, p.packager.Output, codes), true
}

// askWrapper returns the dry run query for a command of clang-linker-wrapper, with code for the
// architectures in place of its input.
func askWrapper(wrapper []string, input string, codes []gencode.Code) toolchain.Question {
	q := toolchain.Question{Tool: Tool, By: "hipcc -###", Program: wrapper[0], Args: []string{"--dry-run"}}
	for i, a := range wrapper[1:] {
		switch {
		case wrapper[i] == "-o":
			a = toolchain.AskOutput
		case a == input:
			a = toolchain.QueryInput
		}
		q.Args = append(q.Args, a)
	}
	for _, c := range codes {
		q.Offload = append(q.Offload, c.String())
	}
	return q
}

// LearnWrapper parses the wrapper's dry run into its device links and its bundle.
func LearnWrapper(text string, codes []gencode.Code) (*Link, error) {
	h, err := clang.ParseSteps(text, []string{linkerWrapper})
	if err != nil {
		return nil, err
	}
	l := &Link{}
	for _, s := range h.Steps {
		switch name := path.Base(s[0]); {
		case bundler(s):
			l.Bundle = learnBundle(s)
		case strings.HasPrefix(name, "clang") && slices.Contains(s, "--target=amdgcn-amd-amdhsa"):
			d, err := wrapped(s)
			if err != nil {
				return nil, err
			}
			l.Device = append(l.Device, d)
		}
	}
	for _, c := range codes {
		if !slices.ContainsFunc(l.Device, func(d DeviceLink) bool { return d.Arch == c.String() }) {
			return nil, fmt.Errorf("%s runs no link for %s", linkerWrapper, c)
		}
	}
	if len(l.Device) != len(codes) {
		return nil, fmt.Errorf("%s runs %d links for %d architectures", linkerWrapper, len(l.Device), len(codes))
	}
	return l, l.Bundle.complete(codes)
}

// wrapped parses the command of clang that links for one architecture.
func wrapped(argv []string) (DeviceLink, error) {
	d := DeviceLink{Program: argv[0], Clang: true}
	inputs := 0
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case a == "-o", a == "-dumpdir": // -dumpdir names the files of -save-temps
			i++
		case strings.HasPrefix(a, "-"):
			d.Flags = append(d.Flags, a)
			if cpu, ok := strings.CutPrefix(a, "-mcpu="); ok {
				d.Arch = cpu
			}
		case strings.HasPrefix(path.Base(a), strings.TrimSuffix(toolchain.QueryInput, ".o")) && strings.HasSuffix(a, ".o"):
			inputs++
		default:
			return d, fmt.Errorf("the device link for %s reads %s, which nobody gave it", d.Arch, a)
		}
	}
	if inputs != 1 {
		return d, fmt.Errorf("the device link for %s reads %d files of one", d.Arch, inputs)
	}
	return d, nil
}

// FirstApart is the first clang whose links by the new driver are split. Before,
// clang-linker-wrapper optimises in its own process. It loads an archive member only if other
// device code refers to it, and so omits kernels that only host code refers to.
const FirstApart = 21

// FirstWrapped is the first clang with a program that generates the registration code of linked
// device code. Before, clang-linker-wrapper generates it as part of a link, given the linked code.
const FirstWrapped = 22
