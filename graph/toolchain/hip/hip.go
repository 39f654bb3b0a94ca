// Package hip knows hipcc and the clang that it runs: their command lines, dry runs, links and
// ABIs. It is pure: it runs no program and reads no file.
package hip

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// Tool is the name of the compiler among the tools of an action and in queries, and that of its
// language in manifests and commands.
const Tool = "hip"

// modeArgs returns the options of a mode. -fgpu-rdc keeps the device code as LLVM bitcode, which
// lld links and optimises as a whole. -foffload-lto prepares it for that (whole-program
// visibility).
func modeArgs(mode string) []string {
	switch mode {
	case "rdc":
		return []string{"-fgpu-rdc"}
	case "lto":
		return []string{"-fgpu-rdc", "-foffload-lto"}
	}
	return []string{"-fno-gpu-rdc"}
}

// compileArgv returns the argv of the unsplit compile of one source. id is for -cuid, see
// clang.Commands.
func (k *Compiler) compileArgv(c toolchain.Compile, id string, o toolchain.Options) []string {
	argv := append([]string{k.Driver.Path}, offloadArchs(c.Codes)...)
	argv = append(argv, modeArgs(c.Mode)...)
	argv = append(argv, clang.Args(o)...)
	argv = append(argv, clang.CUID+id, "-MD", "-MF", c.Depfile, "-c", "-x", Tool, c.Source)
	return append(argv, "-o", c.Output)
}

// linkArgv returns the argv of the unsplit link of objects with device code. With -fgpu-rdc it links
// the device code of inputs. o.Flags selects the driver.
func (k *Compiler) linkArgv(codes []gencode.Code, mode string, o toolchain.Options, inputs []string, output string) []string {
	argv := append([]string{k.Driver.Path}, offloadArchs(codes)...)
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

// Pack returns the argv that packs code of several targets into one file, and the files that it
// reads. files are by architecture, with "" for the host; a missing one is packed as empty.
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

// Device returns the argv that links the device code of one architecture.
func (l DeviceLink) Device(inputs []string, output string) []string {
	argv := append([]string{l.Program}, l.Flags...)
	argv = append(argv, "-o", output)
	return append(argv, inputs...)
}

// FatbinSource returns the assembler source of the object that holds linked device code. It is
// clang's own, but with hidden symbols, so that a program and its shared libraries each have their
// own code. symbols are the sorted names by which host code refers to the code (see FatbinSymbol).
// code is the full path of its file: the assembler searches the working directory first for others.
func FatbinSource(code string, symbols []string) string {
	var handles []string
	for _, s := range symbols {
		if id, ok := strings.CutPrefix(s, fatbinSymbol+"_"); ok {
			handles = append(handles, "__hip_gpubin_handle_"+id)
		}
	}
	text := ""
	if handles != nil { // before clang 19 each object has its own handle
		text = "\t.section .hip_gpubin_handle,\"aw\"\n\t.p2align 3\n" + labels(handles) + "\t.zero 8\n"
	}
	return text + "\t.section .hip_fatbin,\"a\",@progbits\n\t.p2align 12\n" + labels(symbols) + "\t.incbin \"" + code + `"
	.section .note.GNU-stack,"",@progbits
`
}

// labels returns the labels for the data that follows.
func labels(names []string) string {
	text := ""
	for _, n := range names {
		text += "\t.globl " + n + "\n\t.hidden " + n + "\n\t.type " + n + ",@object\n" + n + ":\n"
	}
	return text
}

// fatbinSymbol is the symbol by which host code refers to linked device code, up to clang 18.
const fatbinSymbol = "__hip_fatbin"

// firstNamed is the first clang whose objects each use a symbol of their own for linked device
// code, __hip_fatbin_<hash>.
const firstNamed = 19

// FatbinSymbol returns the symbol by which a source's host code refers to linked device code. id is
// the source's (-cuid).
func FatbinSymbol(major int, id string) string {
	if major < firstNamed {
		return fatbinSymbol
	}
	sum := md5.Sum([]byte(id))
	return fmt.Sprintf("%s_%x", fatbinSymbol, binary.LittleEndian.Uint64(sum[:]))
}

// FatbinCode is the base name of the file that FatbinSource includes.
const FatbinCode = "linked.hipfb"

// LastMajor is the newest clang whose split links were compared with unsplit ones. Differences of
// later ones might go unnoticed.
const LastMajor = 23

// LibsPackage returns Debian's and Ubuntu's package of the device libraries for a clang. Up to
// clang 15 there was one package.
func LibsPackage(major int) string {
	if major <= 15 {
		return "rocm-device-libs"
	}
	return fmt.Sprintf("rocm-device-libs-%d", major)
}

// LibFolders returns the folders of device libraries that flags name, each with its flag.
func LibFolders(flags []string) (dirs []string) {
	for _, f := range flags {
		if option, dir, ok := strings.Cut(f, "="); ok && (strings.HasSuffix(option, "device-lib-path") || strings.HasSuffix(option, "rocm-path")) {
			dirs = append(dirs, dir+" ("+option+" of flags.hip)")
		}
	}
	return dirs
}

// Compiler is an installed HIP compiler: hipcc, or the clang that it runs. Both accept the same
// options. hipcc adds options of its own, which its dry run shows (LearnCompile).
type Compiler struct {
	Driver toolchain.Tool // hipcc or a clang; its ID covers everything that it runs

	// The clang++ that it runs: compiles host sources of HIP targets, and links.
	Clang      toolchain.Tool
	Major      int      // version of clang, 15
	Archs      []string // processors that clang supports, "gfx90a"; nil if unknown
	Env        []string // NAME=VALUE of the variables that it reads, sorted
	Includes   []string // include folders of hip/hip_runtime.h for a host compiler
	DeviceLibs []string // all device libraries of its default folder
	Looked     []string // folders that it searches for device libraries by default

	// Of its LLVM, for the new offload driver: "packager", "llvm-offload-wrapper"; only those that
	// exist.
	Programs map[string]string

	// Whether compiles, and links, use clang's new offload driver by default.
	CompilesNew, LinksNew bool

	// "" or why clang accepts none of the device libraries that it finds; with the fix.
	LibsFault string

	// "" or why no flags make device code compile: clang and the device libraries do not match;
	// with the fix.
	CompileFault string

	// "" or why no device code can be linked: clang and lld do not match; with the fix.
	LinkFault string

	// "" or why a kernel of two lines does not compile and link for gfx906.
	Trial string
}

// isHipcc reports whether the driver is hipcc, not a clang that was named in its place.
func (k *Compiler) isHipcc() bool { return strings.HasPrefix(path.Base(k.Driver.Path), "hipcc") }

// Messages are those of lld in a compile of final code.
var Messages = []toolchain.Message{
	{Pattern: `lld: error: undefined (?:\w+ )?symbol: (.+)`, Advice: toolchain.OtherFile},
}
