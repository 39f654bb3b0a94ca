package clangcuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// packager is the command that puts relocatable code of all architectures into one file, which the host's object embeds: for each an
// argument "--image=file=F,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda". What kind of image it is, it takes from the ending of the
// file: clang's all end in .o.
type packager struct {
	program  string
	flags    []string
	images   []offloadImage // in order
	output   string
	embedded bool // the host's object embeds the output
}

// offloadImage is a file that is packed, and what is said of it.
type offloadImage struct{ file, words string }

const imageByFile = "--image=file="

// isPackager knows the program: it is llvm-offload-binary since clang 22.
func isPackager(name string) bool {
	return name == "clang-offload-packager" || name == "llvm-offload-binary"
}

func readPackager(s []string) *packager {
	p := &packager{program: s[0], output: clang.After(s, "-o")}
	for i := 1; i < len(s); i++ {
		image, is := strings.CutPrefix(s[i], imageByFile)
		switch {
		case s[i] == "-o":
			i++
		case is:
			file, words, _ := strings.Cut(image, ",")
			p.images = append(p.images, offloadImage{file, words})
		default:
			p.flags = append(p.flags, s[i])
		}
	}
	return p
}

// arch is the architecture of an image.
func (i offloadImage) arch() string {
	for _, word := range strings.Split(i.words, ",") {
		if arch, is := strings.CutPrefix(word, "arch="); is {
			return arch
		}
	}
	return ""
}

// completeRelocatable wants relocatable code for codes and nothing else, as the steps made it.
func (p *Passes) completeRelocatable(codes []gencode.Code, made map[string]string) error {
	switch {
	case p.packager == nil || !p.packager.embedded:
		return errors.New("clang does not embed relocatable device code in the way of its new driver")
	case len(p.packager.images) != len(codes) || p.fatbinary != nil:
		return fmt.Errorf("%d images are packed for %d codes", len(p.packager.images), len(codes))
	}
	for _, c := range codes {
		file := made[c.String()]
		if p.Bitcode {
			file = made[c.As(gencode.PTX).String()] // what -o of the device pass says
		}
		packed := func(i offloadImage) bool {
			return i.arch() == c.String() && i.file == file && strings.HasSuffix(file, ".o")
		}
		if !slices.ContainsFunc(p.packager.images, packed) {
			return fmt.Errorf("no %s is packed", c)
		}
		if (p.ptxas[c.String()] == nil) != p.Bitcode {
			return fmt.Errorf("clang runs ptxas for %s where there is nothing to assemble, or not where there is", c)
		}
	}
	return nil
}

// Package gives the argv that packs relocatable code.
func (p *Passes) Package(file func(arch string) string, output string) []string {
	argv := append([]string{p.packager.program}, p.packager.flags...)
	argv = append(argv, "-o", output)
	for _, i := range p.packager.images {
		argv = append(argv, imageByFile+file(i.arch())+","+i.words)
	}
	return argv
}
