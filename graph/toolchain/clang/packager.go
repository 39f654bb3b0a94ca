package clang

import "strings"

// Packager is the command that packs relocatable code of all architectures into one file, which the
// host object embeds. For each it has an argument
// "--image=file=F,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda". It determines the kind of image
// by the file's extension: clang's all end in .o.
type Packager struct {
	Program  string
	Flags    []string
	Images   []OffloadImage // in order
	Output   string
	Embedded bool // the host object embeds the output
}

// OffloadImage is a file that is packed, and its attributes.
type OffloadImage struct{ File, Words string }

const imageByFile = "--image=file="

// IsPackager reports whether name is the program, which is llvm-offload-binary since clang 22.
func IsPackager(name string) bool {
	return name == "clang-offload-packager" || name == "llvm-offload-binary"
}

// ReadPackager parses a packager command.
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

// Arch returns the architecture of an image.
func (i OffloadImage) Arch() string {
	for _, word := range strings.Split(i.Words, ",") {
		if arch, is := strings.CutPrefix(word, "arch="); is {
			return arch
		}
	}
	return ""
}

// Pack returns the argv that packs other files.
func (p *Packager) Pack(file func(arch string) string, output string) []string {
	argv := append([]string{p.Program}, p.Flags...)
	argv = append(argv, "-o", output)
	for _, i := range p.Images {
		argv = append(argv, imageByFile+file(i.Arch())+","+i.Words)
	}
	return argv
}
