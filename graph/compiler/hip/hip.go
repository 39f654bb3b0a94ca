package hip

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Driver builds the command lines of hipcc, or of the clang that it runs. Both take the same
// options; hipcc adds its own, which are learned from it (LearnCompile).
type Driver struct {
	Path string // of hipcc, amdclang++ or clang++
}

// modeArgs are the options of a mode: -fgpu-rdc leaves the device code as LLVM bitcode, which lld
// links and optimises as a whole; -foffload-lto prepares it for that (whole-program visibility).
func modeArgs(mode string) []string {
	switch mode {
	case "rdc":
		return []string{"-fgpu-rdc"}
	case "lto":
		return []string{"-fgpu-rdc", "-foffload-lto"}
	}
	return []string{"-fno-gpu-rdc"}
}

// Compile gives the argv that compiles one source as hipcc does it in one piece. id is for -cuid,
// see clang.Commands.
func (h Driver) Compile(c compiler.Compile, id string, o compiler.Options) []string {
	argv := append([]string{h.Path}, offloadArchs(c.Codes)...)
	argv = append(argv, modeArgs(c.Mode)...)
	argv = append(argv, clang.Args(o)...)
	argv = append(argv, clang.CUID+id, "-MD", "-MF", c.Depfile, "-c", "-x", "hip", c.Source)
	return append(argv, "-o", c.Output)
}

// Link gives the argv that links objects with device code in one piece: -fgpu-rdc links that of
// inputs. o.Flags choose the driver.
func (h Driver) Link(codes []gencode.Code, mode string, o compiler.Options, inputs []string, output string) []string {
	argv := append([]string{h.Path}, offloadArchs(codes)...)
	argv = slices.Concat(argv, modeArgs(mode), o.Flags)
	argv = append(argv, clang.Optimisation(o)...)
	for _, f := range o.LLD {
		argv = append(argv, "-Xoffload-linker", f)
	}
	argv = append(argv, "--hip-link")
	argv = append(argv, inputs...)
	return append(argv, "-o", output)
}

func offloadArchs(codes []gencode.Code) []string {
	var argv []string
	for _, c := range codes {
		argv = append(argv, clang.OffloadArch+c.String())
	}
	return argv
}

// Pack gives the argv that puts code of several targets into one file, and the files that it reads.
// files are by architecture, that of the host by ""; one that is not there is empty.
func (b Bundle) Pack(files map[string]string, output string) (argv, inputs []string) {
	argv = append([]string{b.Program}, b.Flags...)
	argv = append(argv, "-targets="+strings.Join(b.Targets, ","))
	for _, t := range b.Targets {
		f := files[b.Arch(t)]
		if f == "" {
			f = "/dev/null"
		} else {
			inputs = append(inputs, f)
		}
		argv = append(argv, "-input="+f)
	}
	return append(argv, "-output="+output), inputs
}

// Device gives the argv that links the device code of one architecture.
func (l DeviceLink) Device(inputs []string, output string) []string {
	argv := append([]string{l.Program}, l.Flags...)
	argv = append(argv, "-o", output)
	return append(argv, inputs...)
}

// FatbinSource is the assembler source of the object that holds linked device code, as clang writes
// it for its own use, but hidden: a program and a shared library that it loads each have their own.
// symbols are what host code calls the code (see FatbinSymbol), sorted. The code is in a file,
// named in full: the assembler looks for another name in the folder of the project first.
func FatbinSource(code string, symbols []string) string {
	var handles []string
	for _, s := range symbols {
		if id, ok := strings.CutPrefix(s, fatbinSymbol+"_"); ok {
			handles = append(handles, "__hip_gpubin_handle_"+id)
		}
	}
	text := ""
	if handles != nil { // before clang 19 each object has the handle itself
		text = "\t.section .hip_gpubin_handle,\"aw\"\n\t.p2align 3\n" + labels(handles) + "\t.zero 8\n"
	}
	return text + "\t.section .hip_fatbin,\"a\",@progbits\n\t.p2align 12\n" + labels(symbols) + "\t.incbin \"" + code + `"
	.section .note.GNU-stack,"",@progbits
`
}

// labels name the place that follows.
func labels(names []string) string {
	text := ""
	for _, n := range names {
		text += "\t.globl " + n + "\n\t.hidden " + n + "\n\t.type " + n + ",@object\n" + n + ":\n"
	}
	return text
}

// fatbinSymbol is what host code calls linked device code, up to clang 18.
const fatbinSymbol = "__hip_fatbin"

// firstNamed is the first clang whose objects each have a name of their own for linked device code,
// __hip_fatbin_<hash>.
const firstNamed = 19

// FatbinSymbol is what the host code of a source calls linked device code. id is that of the source
// (-cuid).
func FatbinSymbol(major int, id string) string {
	if major < firstNamed {
		return fatbinSymbol
	}
	sum := md5.Sum([]byte(id))
	return fmt.Sprintf("%s_%x", fatbinSymbol, binary.LittleEndian.Uint64(sum[:]))
}

// FatbinCode is the base name of the file that FatbinSource includes.
const FatbinCode = "linked.hipfb"

// LastMajor is the newest clang whose links were taken apart and compared. What a later one does
// otherwise would be found where it fails, and maybe nowhere.
const LastMajor = 23

// LibsPackage is what Debian and Ubuntu call the device libraries for a clang. Up to clang 15 there
// was one package.
func LibsPackage(major int) string {
	if major <= 15 {
		return "rocm-device-libs"
	}
	return fmt.Sprintf("rocm-device-libs-%d", major)
}

// LibFolders are the folders of device libraries that flags name, and the flag.
func LibFolders(flags []string) (dirs []string) {
	for _, f := range flags {
		if option, dir, ok := strings.Cut(f, "="); ok && (strings.HasSuffix(option, "device-lib-path") || strings.HasSuffix(option, "rocm-path")) {
			dirs = append(dirs, dir+" ("+option+" of flags.hip)")
		}
	}
	return dirs
}
