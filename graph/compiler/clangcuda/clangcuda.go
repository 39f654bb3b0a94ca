package clangcuda

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Driver builds the command lines of a clang that compiles CUDA. It makes PTX by itself and runs
// ptxas and fatbinary of the toolkit.
type Driver struct {
	Path     string // of clang++
	CUDAPath string // --cuda-path
}

// Compile gives the argv that compiles one source as clang does it in one piece. Whatever the
// toolkit's version is, clang is asked to use it: that it is newer than those clang knows would be
// said by every pass. id is for -cuid, see clang.Commands: the names in relocatable code are made
// of it.
func (k Driver) Compile(c compiler.Compile, id string, o compiler.Options) []string {
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

// FirstMajor is the oldest clang whose relocatable code was tried.
const FirstMajor = 19

// IsRelocatable reports a mode whose device code is still to be linked.
func IsRelocatable(mode string) bool { return mode == "rdc" || mode == "lto" }

// modeArgs are the options of a mode with relocatable code. That is for the new offload driver
// alone, which is not the default before clang 21: nvcc links what the old one makes, and there is
// no LTO.
func modeArgs(mode string) []string {
	argv := []string{"--offload-new-driver", "-fgpu-rdc"}
	if mode == "lto" {
		argv = append(argv, ltoOption)
	}
	return argv
}

const ltoOption = "-foffload-lto"

// ships chooses the code that an object holds. Up to clang 20 PTX stands beside all machine code
// unless clang is told, from 21 on beside none: both are said.
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

// PTXASFlags hands flags to ptxas behind clang.
func PTXASFlags(flags []string) []string {
	var argv []string
	for _, f := range flags {
		argv = append(argv, clang.ForPTXAS, f)
	}
	return argv
}

// MaxRegisters bounds the registers of a thread.
func MaxRegisters(n int) []string { return PTXASFlags([]string{"--maxrregcount=" + strconv.Itoa(n)}) }

// Passes is one `clang++ -x cuda -c` taken apart.
type Passes struct {
	clang.Passes
	ptxas     map[string][]string // by "sm_80": program and flags
	fatbinary []string            // program and flags
	images    []clangImage        // of the fatbin, in order
	packager  *clang.Packager     // of relocatable code, in place of fatbinary
}

// clangImage is a file in a fatbin. Up to clang 21 fatbinary is told
// "--image=profile=sm_80,file=F", from 22 on "--image3=kind=elf,sm=80,file=F".
type clangImage struct {
	profile, file string
	third         bool // told as --image3
}

// The two ways in which fatbinary is told of an image.
const (
	imageByProfile = "--image=profile="
	imageByKind    = "--image3=kind="
)

// readImage reads an argument of fatbinary; ok is false if it names no image in a way that is
// known.
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

// argument names another file for the image.
func (i clangImage) argument(file string) string {
	file = compiler.ListWord(file)
	if !i.third {
		return imageByProfile + i.profile + ",file=" + file
	}
	if sm, is := strings.CutPrefix(i.profile, "sm_"); is {
		return imageByKind + "elf,sm=" + sm + ",file=" + file
	}
	return imageByKind + "ptx,sm=" + strings.TrimPrefix(i.profile, "compute_") + ",file=" + file
}

// LearnCompile finds the passes of a compile. asked is the program and what it was asked.
func LearnCompile(text string, asked []string, codes []gencode.Code) (*Passes, error) {
	h, err := clang.ParseSteps(text, asked)
	if err != nil {
		return nil, err
	}
	p := &Passes{Passes: clang.PassesOf(asked), ptxas: map[string][]string{}}
	p.Embeds, p.Bitcode = slices.Contains(asked, "-fgpu-rdc"), slices.Contains(asked, ltoOption)
	made := map[string]string{} // files by what they hold: "compute_80", "sm_80"
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

// step reads one command.
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

// assembles reads a command of ptxas. What -Xcuda-ptxas says stands behind its files.
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

// packs reads the command of fatbinary.
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

// complete wants the fatbin to hold codes and nothing else, as the steps made them.
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

// Assemble gives the argv that makes machine code of PTX.
func (p *Passes) Assemble(code gencode.Code, ptx, cubin string) []string {
	return append(slices.Clone(p.ptxas[code.String()]), "--output-file", cubin, ptx)
}

// Pack gives the argv that puts device code into a fatbin, and the files that it reads.
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

// completeRelocatable wants relocatable code for codes and nothing else, as the steps made it.
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
			file = made[c.As(gencode.PTX).String()] // what -o of the device pass says
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
