package clang

import "strings"

// Packager is the command that puts relocatable code of all architectures into one file, which the
// host's object embeds: for each an argument
// "--image=file=F,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda". What kind of image it is, it
// takes from the ending of the file: clang's all end in .o.
type Packager struct {
	Program  string
	Flags    []string
	Images   []OffloadImage // in order
	Output   string
	Embedded bool // the host's object embeds the output
}

// OffloadImage is a file that is packed, and what is said of it.
type OffloadImage struct{ File, Words string }

const imageByFile = "--image=file="

// IsPackager knows the program: it is llvm-offload-binary since clang 22.
func IsPackager(name string) bool {
	return name == "clang-offload-packager" || name == "llvm-offload-binary"
}

// ReadPackager reads the command.
func ReadPackager(s []string) *Packager {
	p := &Packager{Program: s[0], Output: After(s, "-o")}
	for i := 1; i < len(s); i++ {
		image, is := strings.CutPrefix(s[i], imageByFile)
		switch {
		case s[i] == "-o":
			i++
		case is:
			file, words, _ := strings.Cut(image, ",")
			p.Images = append(p.Images, OffloadImage{file, words})
		default:
			p.Flags = append(p.Flags, s[i])
		}
	}
	return p
}

// Arch is the architecture of an image.
func (i OffloadImage) Arch() string {
	for _, word := range strings.Split(i.Words, ",") {
		if arch, is := strings.CutPrefix(word, "arch="); is {
			return arch
		}
	}
	return ""
}

// Pack gives the argv that packs other files.
func (p *Packager) Pack(file func(arch string) string, output string) []string {
	argv := append([]string{p.Program}, p.Flags...)
	argv = append(argv, "-o", output)
	for _, i := range p.Images {
		argv = append(argv, imageByFile+file(i.Arch())+","+i.Words)
	}
	return argv
}
