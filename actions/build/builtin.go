package build

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Method stands in the keys of what kbuild makes itself: joined and sliced objects, canonical texts, manifests of modules. Raise it
// when one of them comes out differently.
const Method = "1"

// builtin does the actions that need no process.
func (r *Runner) builtin(a *graph.Action, dir scratch) error {
	switch a.Kind {
	case graph.Copy:
		return copyFile(r.abs(a.Inputs[0]), dir.output(0, a.Outputs[0]))
	case graph.Embed:
		asm, header := embedText(a.Argv[1], a.Argv[2:])
		if err := os.WriteFile(dir.output(0, a.Outputs[0]), []byte(asm), 0o666); err != nil {
			return err
		}
		return os.WriteFile(dir.output(1, a.Outputs[1]), []byte(header), 0o666)
	}
	switch a.Kind {
	case graph.Manifest:
		return r.manifest(a, dir.output(0, a.Outputs[0]))
	case graph.Join:
		return r.join(a, dir.output(0, a.Outputs[0]))
	case graph.Slice:
		return r.slice(a, dir.output(0, a.Outputs[0]))
	}
	panic("BUG: no builtin for " + string(a.Kind))
}

// join makes the object that nvcc or hipcc would make: host code with the device code of all architectures.
func (r *Runner) join(a *graph.Action, name string) error {
	host, err := os.ReadFile(r.abs(a.Inputs[0]))
	if err != nil {
		return err
	}
	code, err := os.ReadFile(r.abs(a.Inputs[1]))
	if err != nil {
		return err
	}
	var out []byte
	if strings.HasSuffix(a.Inputs[1], ".hipfb") {
		out, err = fatbin.WithBundle(host, toolchain.Placeholder, code)
	} else {
		out, err = fatbin.WithFatbin(host, code)
	}
	if err != nil {
		return fmt.Errorf("joining the host and device code of %s: %w", a.Name, err)
	}
	return os.WriteFile(name, out, 0o666)
}

// slice cuts what a device link of one architecture reads out of an object or archive; all of it, if it is
// not understood.
func (r *Runner) slice(a *graph.Action, name string) error {
	whole, err := os.ReadFile(r.abs(a.Inputs[0]))
	if err != nil {
		return err
	}
	code, err := gencode.Parse(a.Archs[0])
	if err != nil {
		panic("BUG: a slice for " + a.Archs[0])
	}
	cut := fatbin.ForLink
	if strings.HasSuffix(a.Inputs[0], ".a") {
		cut = fatbin.ArchiveForLink
	}
	out, err := cut(whole, code)
	if err != nil {
		out = whole
	}
	return os.WriteFile(name, out, 0o666)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666|info.Mode()&0o111)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// embedText writes the assembler source and the header of an embedded module. Each entry is
// "variant|arch|kind|path". The table ends with an entry whose data is null.
func embedText(symbol string, entries []string) (asm, header string) {
	var data, table strings.Builder
	for i, e := range entries {
		f := strings.SplitN(e, "|", 4)
		fmt.Fprintf(&data, "\t.balign 16\n.L%d:\n\t.incbin %s\n.L%d_end:\n\t.byte 0\n", i, asmString(f[3]), i)
		fmt.Fprintf(&data, ".Lv%d:\t.asciz %s\n.La%d:\t.asciz %s\n.Lk%d:\t.asciz %s\n", i, asmString(f[0]), i, asmString(f[1]), i, asmString(f[2]))
		fmt.Fprintf(&table, "\t.quad .Lv%d, .La%d, .Lk%d, .L%d, .L%d_end - .L%d\n", i, i, i, i, i, i)
	}
	asm = fmt.Sprintf(`/* Made by kbuild: the artifacts of a module. */
	.section .rodata
%s	.section .data.rel.ro, "aw"
	.balign 8
	.globl %[2]s
	.type %[2]s, @object
%[2]s:
%[3]s	.quad 0, 0, 0, 0, 0
	.size %[2]s, . - %[2]s
	.section .note.GNU-stack, "", @progbits
`, data.String(), symbol, table.String())
	guard := "KBUILD_EMBED_" + strings.ToUpper(symbol)
	header = fmt.Sprintf(`/* Made by kbuild: the artifacts of a module. */
#ifndef %[1]s
#define %[1]s

#include <stddef.h>

#ifndef KBUILD_EMBED_ENTRY
#define KBUILD_EMBED_ENTRY
/* One artifact. Data is followed by a zero byte, so that PTX can be used as a string. */
struct kbuild_embed_entry {
	const char *variant;       /* "dtype=f16,tile=64", "" without a matrix */
	const char *arch;          /* "sm_80", "" for a fatbin */
	const char *kind;          /* "ptx", "cubin", "fatbin", "ltoir" */
	const unsigned char *data;
	size_t size;               /* bytes, without the zero byte */
};
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* %[3]d entries, then one whose data is NULL. */
extern const struct kbuild_embed_entry %[2]s[%[4]d];

#ifdef __cplusplus
}
#endif
#endif
`, guard, symbol, len(entries), len(entries)+1)
	return asm, header
}

// asmString quotes for the GNU assembler.
func asmString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
