// Package clangcuda knows a clang that compiles CUDA: its command lines, dry runs and links. It is
// pure: it runs no program and reads no file.
package clangcuda

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// Driver builds the command lines of a clang that compiles CUDA. It generates PTX itself and runs
// ptxas and fatbinary of the toolkit.
type Driver struct {
	Path     string // of clang++
	CUDAPath string // --cuda-path
}

// Compile returns the argv of the unsplit compile of one source. It suppresses the warning, in
// every pass, that the toolkit is newer than those that clang knows. id is for -cuid, see
// clang.Commands: names in relocatable code derive from it.
func (k Driver) Compile(c toolchain.Compile, id string, o toolchain.Options) []string {
	argv := []string{k.Path, "--cuda-path=" + k.CUDAPath, "-Wno-unknown-cuda-version"}
	if IsRelocatable(c.Mode) {
		for _, code := range c.Codes {
			argv = append(argv, clang.OffloadArch+code.String())
		}
		argv = append(append(argv, modeArgs(c.Mode)...), "-Xclang", clang.CUID+id)
	} else {
		argv = append(argv, ships(c.Codes)...)
	}
	argv = append(argv, clang.Args(o)...)
	argv = append(argv, "-MD", "-MF", c.Depfile, "-c", "-x", "cuda", c.Source)
	return append(argv, "-o", c.Output)
}

// FirstMajor is the oldest clang whose relocatable code was tested.
const FirstMajor = 19

// IsRelocatable reports whether device code of a mode is still to be linked.
func IsRelocatable(mode string) bool { return mode == "rdc" || mode == "lto" }

// modeArgs returns the options of a mode with relocatable code. They select the new offload driver,
// which is not the default before clang 21. The old driver's code is for nvcc to link and has no
// LTO.
func modeArgs(mode string) []string {
	argv := []string{"--offload-new-driver", "-fgpu-rdc"}
	if mode == "lto" {
		argv = append(argv, ltoOption)
	}
	return argv
}

const ltoOption = "-foffload-lto"

// ships returns the options that select the code in an object. Up to clang 20 the default is PTX
// beside all machine code, from 21 on beside none. So both cases are explicit.
func ships(codes []gencode.Code) []string {
	var argv []string
	for _, c := range codes {
		if c.Kind != gencode.SASS {
			continue
		}
		argv = append(argv, clang.OffloadArch+c.String())
		ptx := clang.WithoutPTX
		if slices.Contains(codes, c.As(gencode.PTX)) {
			ptx = clang.WithPTX
		}
		argv = append(argv, ptx+c.String())
	}
	return argv
}

// PTXASFlags returns the options that make clang pass flags to ptxas.
func PTXASFlags(flags []string) []string {
	var argv []string
	for _, f := range flags {
		argv = append(argv, clang.ForPTXAS, f)
	}
	return argv
}

// MaxRegisters returns the options that limit the registers of a thread.
func MaxRegisters(n int) []string { return PTXASFlags([]string{"--maxrregcount=" + strconv.Itoa(n)}) }

// Passes holds the passes of one `clang++ -x cuda -c`.
type Passes struct {
	clang.Passes
	ptxas     map[string][]string // by "sm_80": program and flags
	fatbinary []string            // program and flags
	images    []clangImage        // of the fatbin, in order
	packager  *clang.Packager     // of relocatable code, in place of fatbinary
}

// clangImage is a file in a fatbin. The argument of fatbinary is "--image=profile=sm_80,file=F" up
// to clang 21, and "--image3=kind=elf,sm=80,file=F" from 22 on.
type clangImage struct {
	profile, file string
	third         bool // passed as --image3
}

// The two forms of fatbinary's image argument.
const (
	imageByProfile = "--image=profile="
	imageByKind    = "--image3=kind="
)

// readImage parses an argument of fatbinary. ok is false if it is no image in a known form.
func readImage(arg string) (i clangImage, ok bool) {
	if rest, is := strings.CutPrefix(arg, imageByProfile); is {
		i.profile, i.file, ok = strings.Cut(rest, ",file=")
		return i, ok
	}
	rest, is := strings.CutPrefix(arg, imageByKind)
	kind, rest, ok := strings.Cut(rest, ",sm=")
	prefix := map[string]string{"elf": "sm_", "ptx": "compute_"}[kind]
	if !is || !ok || prefix == "" {
		return i, false
	}
	sm, file, ok := strings.Cut(rest, ",file=")
	return clangImage{prefix + sm, file, true}, ok
}

// argument returns the argument of the image with another file.
func (i clangImage) argument(file string) string {
	file = toolchain.ListWord(file)
	if !i.third {
		return imageByProfile + i.profile + ",file=" + file
	}
	if sm, is := strings.CutPrefix(i.profile, "sm_"); is {
		return imageByKind + "elf,sm=" + sm + ",file=" + file
	}
	return imageByKind + "ptx,sm=" + strings.TrimPrefix(i.profile, "compute_") + ",file=" + file
}

// LearnCompile parses the dry run of a compile. asked is the query: the program and its arguments.
func LearnCompile(text string, asked []string, codes []gencode.Code) (*Passes, error) {
	h, err := clang.ParseSteps(text, asked)
	if err != nil {
		return nil, err
	}
	p := &Passes{Passes: clang.PassesOf(asked), ptxas: map[string][]string{}}
	p.Embeds, p.Bitcode = slices.Contains(asked, "-fgpu-rdc"), slices.Contains(asked, ltoOption)
	made := map[string]string{} // files by their code: "compute_80", "sm_80"
	for _, s := range h.Steps {
		if err := p.step(s, made); err != nil {
			return nil, err
		}
	}
	if p.Embeds {
		return p, p.completeRelocatable(codes, made)
	}
	return p, p.complete(codes, made)
}

// step parses one command.
func (p *Passes) step(s []string, made map[string]string) error {
	switch base := path.Base(s[0]); {
	case base == "ptxas":
		return p.assembles(s, made)
	case base == "fatbinary":
		if p.fatbinary != nil {
			return fmt.Errorf("clang runs fatbinary twice")
		}
		p.packs(s)
	case clang.IsPackager(base):
		if p.packager != nil {
			return fmt.Errorf("clang runs %s twice", base)
		}
		p.packager = clang.ReadPackager(s)
	case len(s) < 2 || s[1] != "-cc1":
		return fmt.Errorf("clang runs %s", base)
	case strings.HasPrefix(clang.After(s, "-triple"), "nvptx64"):
		arch := clang.After(s, "-target-cpu")
		if _, twice := p.Libs[arch]; twice {
			return fmt.Errorf("clang compiles twice for %s", arch)
		}
		p.Libs[arch] = clang.DeviceLibs(s)
		made["compute_"+strings.TrimPrefix(arch, "sm_")] = clang.After(s, "-o")
	case p.Embeds && p.packager != nil && slices.Contains(s, clang.EmbedOffload+p.packager.Output):
		p.packager.Embedded = true
	case p.Embeds || clang.After(s, "-fcuda-include-gpubinary") == "":
		return fmt.Errorf("clang compiles host code without device code")
	}
	return nil
}

// assembles parses a command of ptxas. Options of -Xcuda-ptxas come after its files.
func (p *Passes) assembles(s []string, made map[string]string) error {
	arch := clang.After(s, "--gpu-name")
	ptx := made["compute_"+strings.TrimPrefix(arch, "sm_")]
	in, out := slices.Index(s, ptx), slices.Index(s, "--output-file")
	if ptx == "" || in < 0 || out < 0 || in != out+2 {
		return fmt.Errorf("ptxas for %q does not read what clang wrote", arch)
	}
	made[arch] = s[out+1]
	p.ptxas[arch] = slices.Concat(s[:out], s[in+1:])
	return nil
}

// packs parses the command of fatbinary.
func (p *Passes) packs(s []string) {
	for i := 0; i < len(s); i++ {
		image, is := readImage(s[i])
		switch {
		case s[i] == "--create":
			i++
		case is:
			p.images = append(p.images, image)
		default:
			p.fatbinary = append(p.fatbinary, s[i])
		}
	}
}

// complete checks that the fatbin holds exactly codes, in the files that the steps write.
func (p *Passes) complete(codes []gencode.Code, made map[string]string) error {
	if len(p.images) != len(codes) {
		return fmt.Errorf("the fatbin has %d images for %d codes", len(p.images), len(codes))
	}
	for _, c := range codes {
		if !slices.ContainsFunc(p.images, func(i clangImage) bool { return i.profile == c.String() && i.file == made[c.String()] }) {
			return fmt.Errorf("the fatbin has no %s", c)
		}
		if sass := c.As(gencode.SASS).String(); p.ptxas[sass] == nil {
			return fmt.Errorf("clang runs no ptxas for %s", sass)
		}
	}
	return nil
}

// Assemble returns the argv that compiles PTX to machine code.
func (p *Passes) Assemble(code gencode.Code, ptx, cubin string) []string {
	return append(slices.Clone(p.ptxas[code.String()]), "--output-file", cubin, ptx)
}

// Pack returns the argv that packs device code into a fatbin, and the files that it reads.
func (p *Passes) Pack(file func(gencode.Code) string, output string) (argv, inputs []string) {
	argv = append(slices.Clone(p.fatbinary), "--create", output)
	for _, i := range p.images {
		code, err := gencode.Parse(i.profile)
		if err != nil {
			panic("BUG: an image for " + i.profile)
		}
		inputs = append(inputs, file(code))
		argv = append(argv, i.argument(file(code)))
	}
	return argv, inputs
}

// completeRelocatable checks that the packager packs relocatable code for exactly codes, in the
// files that the steps write.
func (p *Passes) completeRelocatable(codes []gencode.Code, made map[string]string) error {
	switch {
	case p.packager == nil || !p.packager.Embedded:
		return errors.New("clang does not embed relocatable device code in the way of its new driver")
	case len(p.packager.Images) != len(codes) || p.fatbinary != nil:
		return fmt.Errorf("%d images are packed for %d codes", len(p.packager.Images), len(codes))
	}
	for _, c := range codes {
		file := made[c.String()]
		if p.Bitcode {
			file = made[c.As(gencode.PTX).String()] // the output of the device pass
		}
		packed := func(i clang.OffloadImage) bool {
			return i.Arch() == c.String() && i.File == file && strings.HasSuffix(file, ".o")
		}
		if !slices.ContainsFunc(p.packager.Images, packed) {
			return fmt.Errorf("no %s is packed", c)
		}
		if (p.ptxas[c.String()] == nil) != p.Bitcode {
			return fmt.Errorf("clang runs ptxas for %s where there is nothing to assemble, or not where there is", c)
		}
	}
	return nil
}
