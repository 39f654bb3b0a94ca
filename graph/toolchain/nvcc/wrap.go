package nvcc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// WrapLTOIR returns the argv that packs bare LTO-IR into a fatbin, as nvcc does for an object. The
// options are those that cicc compiled it with: nvlink compares them between files, and 11.8
// crashes on a fatbin without them (tried with 11.8 and 12.4).
func WrapLTOIR(fatbinary string, code gencode.Code, f toolchain.Floats, ltoir, output string) []string {
	bit := map[bool]int{true: 1}
	options := fmt.Sprintf("-ftz=%d -prec_div=%d -prec_sqrt=%d -fmad=%d ", bit[f.FTZ], bit[f.PrecDiv], bit[f.PrecSqrt], bit[f.FMAD])
	return []string{fatbinary, "-64", "--cicc-cmdline=" + options, "--device-c",
		fmt.Sprintf("--image3=kind=nvvm,sm=%d%s,file=%s", code.Num, code.Suffix, toolchain.ListWord(ltoir)), "--create", output}
}

// WrapPTX returns the argv that packs relocatable PTX into a fatbin.
func WrapPTX(fatbinary string, code gencode.Code, ptx, output string) []string {
	return []string{fatbinary, "-64", "--device-c", fmt.Sprintf("--image3=kind=ptx,sm=%d%s,file=%s", code.Num, code.Suffix, toolchain.ListWord(ptx)), "--create", output}
}

// SameLTOIR reports whether two runs of cicc write the same LTO-IR: a writes it alone, b with PTX
// beside it.
func SameLTOIR(a, b *Pass) bool {
	return a.Tool == "cicc" && a.Arch == b.Arch && slices.Equal(a.withoutOutputs(), b.withoutOutputs())
}

// withoutOutputs returns the command of cicc without its output options.
func (p *Pass) withoutOutputs() []word {
	var out []word
	for i := 0; i < len(p.argv); i++ {
		switch w := p.argv[i]; {
		case w.prefix == "-lto" && w.role == "":
		case (w.prefix == "-o" || w.prefix == "-olto") && w.role == "":
			i++ // the file
		default:
			out = append(out, w)
		}
	}
	return out
}

// WrapFatbin returns the C text of an object with a bare fatbin, in the form of nvcc's objects
// whose device code is still to be linked. It holds the fatbin, a wrapper that points to it, the id
// by which nvlink lists it, and a call that registers the object. The program registers the linked
// code once all listed objects have called (link.stub of 11.8 to 13.5). The six lists of host
// references are empty: without them nvlink would remove nothing from the whole program.
func WrapFatbin(fatbin, id string) string {
	// For C, and within it for the assembler.
	quoted := strings.NewReplacer(`\`, `\\\\`, `"`, `\\\"`).Replace(fatbin)
	return strings.NewReplacer("FILE", quoted, "ID", id).Replace(fmt.Sprintf(wrapText, 0x466243b1))
}

const wrapText = `/* Device code for a device link, as nvcc has it in objects. */
__asm__(".section __nv_relfatbin,\"a\"\n"
        "\t.p2align 3\n"
        "fatbinData:\n"
        "\t.incbin \"FILE\"\n"
        "\t.p2align 3\n"
        "\t.irp list, KE, KI, DE, DI, CE, CI\n"
        "\t.section .nvHR\\list,\"a\"\n"
        "\t.byte 0\n"
        "\t.endr\n"
        "\t.text\n");
extern const char fatbinData[];
extern const struct { int magic, version; const void *data; void *other; } __fatbinwrapID;
__attribute__((section(".nvFatBinSegment"), visibility("hidden"))) __typeof__(__fatbinwrapID) __fatbinwrapID = {%#x, 1, fatbinData, 0};
static const unsigned char id[] __attribute__((section("__nv_module_id"), used)) = "ID";
__attribute__((visibility("hidden"))) void __cudaRegisterLinkedBinaryID(void (*)(void **), void *, void *, void (*)(void *));
static void names(void **handle) { (void)handle; }
static void keep(void *p) { static void *volatile kept; kept = p; (void)kept; }
static void enter(void) __attribute__((constructor));
static void enter(void) { __cudaRegisterLinkedBinaryID(names, (void *)&__fatbinwrapID, (void *)id, keep); }
`
